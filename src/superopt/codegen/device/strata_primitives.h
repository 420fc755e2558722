namespace strata_device {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
STRATA_DEVICE float minus_infinity() { return __int_as_float(0xff800000); }
STRATA_DEVICE int lane() { return static_cast<int>(threadIdx.x % 32); }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
STRATA_DEVICE void let_next_kernel_start() { asm volatile("griddepcontrol.launch_dependents;"); }
STRATA_DEVICE void wait_for_previous_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
STRATA_DEVICE int cluster_rank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
STRATA_DEVICE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
STRATA_DEVICE const float* cluster_pointer(const float* here, int rank) {
  const float* there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(here), "r"(rank));
  return there;
}
#else
STRATA_DEVICE void let_next_kernel_start() {}
STRATA_DEVICE void wait_for_previous_kernel() {}
STRATA_DEVICE const float* cluster_pointer(const float* here, int) { return here; }
#endif
STRATA_DEVICE void warp_barrier() { __syncwarp(); }
STRATA_DEVICE void named_barrier(int id, int count) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory"); }
template <class T>
STRATA_DEVICE T shuffle_xor(T value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
#define STRATA_MMA2(type) \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
STRATA_DEVICE void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], f16) { STRATA_MMA2("f16"); }
STRATA_DEVICE void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], bf16) { STRATA_MMA2("bf16"); }
STRATA_DEVICE unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
template <int kCount, bool kTranspose>
STRATA_DEVICE void ldmatrix(unsigned (&r)[kCount], const void* row) {
  const unsigned at = shared_address(row);
  if constexpr (kCount == 4 && kTranspose)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
  else if constexpr (kCount == 4)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
  else if constexpr (kCount == 2 && kTranspose)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}
template <int kBytes>
STRATA_DEVICE void copy_async(void* to, const void* from) {
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
  else if constexpr (kBytes >= 4)
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from), "n"(kBytes) : "memory");
  else
    *static_cast<unsigned short*>(to) = *static_cast<const unsigned short*>(from);
}
STRATA_DEVICE unsigned pack_pair(float low, float high, f16) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}
STRATA_DEVICE unsigned pack_pair(float low, float high, bf16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}
STRATA_DEVICE void store_pair(f16* to, float low, float high) { *reinterpret_cast<unsigned*>(to) = pack_pair(low, high, f16{}); }
STRATA_DEVICE void store_pair(bf16* to, float low, float high) { *reinterpret_cast<unsigned*>(to) = pack_pair(low, high, bf16{}); }
STRATA_DEVICE void store_pair(float* to, float low, float high) { *reinterpret_cast<float2*>(to) = make_float2(low, high); }
STRATA_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
STRATA_DEVICE void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory"); }
#endif
}
