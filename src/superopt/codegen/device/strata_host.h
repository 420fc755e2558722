// What strata_cuda.h is for a GPU, for a host compiler: the types of 16 bits by their bits, and what threads do
// together on the threads of strata_host_threads.h. In front of a generated source when it runs on the host.
#ifndef STRATA_HOST
#define STRATA_HOST
#include <algorithm>
#include <atomic>
#include <cmath>

#define STRATA_DEVICE inline
#ifndef STRATA_UNROLL
#define STRATA_UNROLL
#endif

namespace strata_device {

using int64 = long long;

/// IEEE half precision, as bits: conversions round to nearest even.
struct f16 {
  std::uint16_t bits;
};
struct bf16 {
  std::uint16_t bits;
};
inline unsigned bits_of(f16 x) { return x.bits; }
inline unsigned bits_of(bf16 x) { return x.bits; }

inline float to_compute(f16 x) {
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  // The factor makes up for the other bias of the exponent; it normalizes the subnormal numbers as well.
  const float value = magnitude > 0x7c00    ? std::nanf("")
                      : magnitude == 0x7c00 ? HUGE_VALF
                                            : std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return (x.bits >> 15) != 0 ? -value : value;
}
inline float to_compute(bf16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
inline void store(f16& to, float x) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const float magnitude = std::fabs(x);
  if (std::isnan(x)) {
    to.bits = 0x7e00;
  } else if (magnitude >= 65520.0f) {
    to.bits = static_cast<std::uint16_t>(sign | 0x7c00);
  } else if (magnitude < 0x1p-14f) {
    to.bits = static_cast<std::uint16_t>(sign | static_cast<int>(std::nearbyint(std::ldexp(magnitude, 24))));
  } else {
    const int exponent = std::ilogb(magnitude);
    // A mantissa that rounds up to 2048 carries into the exponent, as it should.
    const int mantissa = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
    to.bits = static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + mantissa));
  }
}
inline void store(bf16& to, float x) {
  const auto word = std::bit_cast<std::uint32_t>(x);
  to.bits = static_cast<std::uint16_t>(std::isnan(x) ? 0x7fc0u : (word + 0x7fff + ((word >> 16) & 1)) >> 16);
}
struct Exact {
  static float exponential(float x) { return std::exp(x); }
  static float exponential_of_difference(float x, float y) { return std::exp(x - y); }
  static double exponential(double x) { return std::exp(x); }
  static float square_root(float x) { return std::sqrt(x); }
  static double square_root(double x) { return std::sqrt(x); }
  static float inverse_root(float x) { return 1.0f / std::sqrt(x); }
  static double inverse_root(double x) { return 1.0 / std::sqrt(x); }
  static float quotient(float x, float y) { return x / y; }
  static double quotient(double x, double y) { return x / y; }
};
struct Approximate : Exact {};

inline float minus_infinity() { return -HUGE_VALF; }
template <class T>
unsigned pack_pair(float low, float high, T) {
  T first, second;
  store(first, low);
  store(second, high);
  return bits_of(first) | bits_of(second) << 16;
}
inline void store_pair(float* to, float low, float high) {
  to[0] = low;
  to[1] = high;
}
template <class T>
void store_pair(T* to, float low, float high) {
  store(to[0], low);
  store(to[1], high);
}

inline int64 current_block = 0;
inline int64 current_blocks = 1;
inline int64 thread() { return strata_host::team.thread(); }
inline int64 threads() { return strata_host::team.threads(); }
inline int64 block() { return current_block; }
inline int64 blocks() { return current_blocks; }

inline int lane() { return static_cast<int>(thread() % 32); }

inline int cluster_rank() { return strata_host::team.rank(); }
inline void cluster_barrier() { strata_host::team.meet_all("cluster_barrier"); }
/// The shared memory of all blocks that run, and of a block of this one's cluster.
inline std::vector<unsigned char*> block_memory;
inline unsigned char* cluster_memory(int rank) {
  return block_memory[static_cast<std::size_t>(strata_host::team.block() - cluster_rank() + rank)];
}
inline const float* cluster_pointer(const float* here, int rank) {
  const auto offset = reinterpret_cast<const unsigned char*>(here) - cluster_memory(cluster_rank());
  return reinterpret_cast<const float*>(cluster_memory(rank) + offset);
}

// Counters of strata_handover.h: threads run one at a time here.
inline unsigned counted(const unsigned* counter) { return *counter; }
void count(unsigned* counter, unsigned amount);
inline unsigned count_around(unsigned* counter, unsigned last) {
  const unsigned before = *counter;
  *counter = before >= last ? 0 : before + 1;
  return before;
}
void wait_for_count(const unsigned* counter, unsigned before);
void wait_for_least(const unsigned* counter, unsigned least);
inline void fence_for_bulk_copies() {}
inline void reset(unsigned* counter) { *counter = 0; }

inline void fence_for_wide_products() {}
inline void wide_products_end() {}

void barrier();
void named_barrier(int id, int threads);
void named_barrier_arrive(int id, int threads);
void warp_barrier();

template <class T>
T shuffle(T value, int source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return strata_host::exchange("shuffle", value)[source & 31];
}
template <class T>
T shuffle_xor(T value, int mask) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return strata_host::exchange("shuffle_xor", value)[(thread() % 32 ^ mask) & 31];
}
inline void add_relaxed(unsigned& to, unsigned amount) {
  std::atomic_ref<unsigned>(to).fetch_add(amount, std::memory_order_relaxed);
}
bool any_lane(bool condition);

void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], f16);
void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], bf16);

void ldmatrix(unsigned* r, int count, bool transpose, const void* row);
template <int kCount, bool kTranspose>
void ldmatrix(unsigned (&r)[kCount], const void* row) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
  ldmatrix(r, kCount, kTranspose, row);
}

/// The bytes arrive as late as they may; until then the place holds NaN.
void copy_async(void* shared, const void* global, std::size_t bytes);
template <int kBytes>
void copy_async(void* shared, const void* global) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  copy_async(shared, global, kBytes);
}
inline void copy_async_16(void* shared, const void* global) { copy_async<16>(shared, global); }
void commit_copies();
void wait_copies(int pending);
template <int kPending>
void wait_copies() {
  wait_copies(kPending);
}

void forget_barriers();  // of strata_host_bulk.h

/// What the driver does: run(x, y, z, shared memory) in every thread of every block; the blocks of a cluster run
/// together, and all blocks if they are `resident`. Shared memory is filled with a value that no correct kernel reads
/// (NaN as f16, bf16, f32 and f64) and is as large as planned, for AddressSanitizer.
using Launched = std::function<void(int64 x, int64 y, int64 z, unsigned char* shared)>;
void launch(int64 gx, int64 gy, int64 gz, int64 cluster, int64 threads, int64 shared_bytes, bool resident,
            const Launched& run);

#if !defined(STRATA_HOST_APART)
STRATA_HOST_INLINE void count(unsigned* counter, unsigned amount) {
  *counter += amount;
  strata_host::team.wake(counter);
}

STRATA_HOST_INLINE void wait_for_count(const unsigned* counter, unsigned before) {
  while (((*counter ^ before) & 0x80000000u) == 0) strata_host::team.wait_at(counter);
}

STRATA_HOST_INLINE void wait_for_least(const unsigned* counter, unsigned least) {
  while (*counter < least) strata_host::team.wait_at(counter);
}

STRATA_HOST_INLINE void barrier() {
  strata_host::team.meet(strata_host::team.barrier(0), "barrier", strata_host::team.threads(), [] {});
}

STRATA_HOST_INLINE void named_barrier(int id, int threads) {
  if (id < 1 || id > 15) strata_host::fail("named_barrier " + std::to_string(id));
  if (threads < 1 || threads > strata_host::team.threads() || threads % strata_host::kLanes != 0) {
    strata_host::fail("named_barrier for " + std::to_string(threads) + " threads");
  }
  strata_host::team.meet(strata_host::team.barrier(id), "named_barrier", threads, [] {});
}

STRATA_HOST_INLINE void named_barrier_arrive(int id, int threads) {
  strata_host::team.arrive(strata_host::team.barrier(id), "named_barrier", threads);
}

STRATA_HOST_INLINE void warp_barrier() {
  strata_host::team.meet(strata_host::team.warp().meeting, "warp_barrier", strata_host::team.lanes(), [] {});
}

STRATA_HOST_INLINE bool any_lane(bool condition) {
  const int* all = strata_host::exchange("any_lane", static_cast<int>(condition));
  bool any = false;
  for (int other = 0; other < strata_host::kLanes; ++other) any |= all[other] != 0;
  return any;
}

#if defined(__x86_64__)
/// What emitted code calls to round a float to bf16, to the nearest even: libgcc has it from version 13 on.
asm(R"(
  .text
  .weak __truncsfbf2
  .type __truncsfbf2, @function
__truncsfbf2:
  movd %xmm0, %eax
  movl %eax, %ecx
  andl $0x7fffffff, %ecx
  cmpl $0x7f800000, %ecx
  ja 1f
  movl %eax, %ecx
  shrl $16, %ecx
  andl $1, %ecx
  leal 0x7fff(%rax,%rcx), %eax
  shrl $16, %eax
  movd %eax, %xmm0
  ret
1:
  shrl $16, %eax
  orl $0x40, %eax
  movd %eax, %xmm0
  ret
)");
#endif

/// What emitted code asks for, whose team is that which its thread runs it in.
extern "C" __attribute__((used)) void strata_barrier() { strata_host::team.fiber().meet(); }
extern "C" __attribute__((used)) std::uint32_t strata_shuffle_down(std::uint32_t value, std::uint32_t distance) {
  const std::uint32_t* all = strata_host::exchange("shuffle_down", value);
  const auto lane = static_cast<std::uint32_t>(thread() % 32);
  return all[lane + distance < 32 ? lane + distance : lane];
}
extern "C" __attribute__((used)) std::uint32_t strata_shuffle_xor(std::uint32_t value, std::uint32_t mask) {
  return shuffle_xor(value, static_cast<int>(mask));
}
extern "C" __attribute__((used)) std::uint32_t strata_shuffle_index(std::uint32_t value, std::uint32_t lane) {
  return shuffle(value, static_cast<int>(lane));
}

/// After the PTX manual's tables.
template <class T>
void product(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  struct Part {
    float d[4];
    unsigned a[4];
    unsigned b[2];
  };
  Part mine;
  std::copy(d, d + 4, mine.d);
  std::copy(a, a + 4, mine.a);
  std::copy(b, b + 2, mine.b);
  const Part* parts = strata_host::exchange("mma", mine, [](Part* lanes) {
    const auto half_of = [](unsigned word, int half) {
      return to_compute(T{static_cast<std::uint16_t>(word >> 16 * half)});
    };
    float left[16][16];
    float right[16][8];
    for (int k = 0; k < 16; ++k) {
      const int lane = k % 8 / 2;
      for (int row = 0; row < 16; ++row) {
        left[row][k] = half_of(lanes[row % 8 * 4 + lane].a[row / 8 + k / 8 * 2], k % 2);
      }
      for (int column = 0; column < 8; ++column) right[k][column] = half_of(lanes[column * 4 + lane].b[k / 8], k % 2);
    }
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        float& sum = lanes[row % 8 * 4 + column / 2].d[row / 8 * 2 + column % 2];
        for (int k = 0; k < 16; ++k) sum += left[row][k] * right[k][column];
      }
    }
  });
  std::copy_n(parts[thread() % 32].d, 4, d);
}
STRATA_HOST_INLINE void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], f16) {
  product<f16>(d, a, b);
}
STRATA_HOST_INLINE void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], bf16) {
  product<bf16>(d, a, b);
}

STRATA_HOST_INLINE void ldmatrix(unsigned* r, int count, bool transpose, const void* row) {
  struct Row {
    std::uint16_t values[8];
  };
  Row mine{};
  const int lane = static_cast<int>(thread() % 32);
  if (lane < 8 * count) {
    if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) strata_host::fail("ldmatrix of a misaligned row");
    std::memcpy(&mine, row, sizeof mine);
  }
  const Row* rows = strata_host::exchange("ldmatrix", mine);
  for (int j = 0; j < count; ++j) {
    const auto at = [&](int across) -> unsigned {
      return transpose ? rows[8 * j + across].values[lane / 4] : rows[8 * j + lane / 4].values[across];
    };
    r[j] = at(lane % 4 * 2) | at(lane % 4 * 2 + 1) << 16;
  }
}

STRATA_HOST_INLINE void copy_async(void* shared, const void* global, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(shared) % bytes != 0 || reinterpret_cast<std::uintptr_t>(global) % bytes != 0)
    strata_host::fail("copy_async of misaligned bytes");
  std::memset(shared, 0xff, bytes);
  strata_host::team.fiber().started.push_back({shared, global, bytes});
}
STRATA_HOST_INLINE void commit_copies() {
  strata_host::Fiber& fiber = strata_host::team.fiber();
  fiber.groups.push_back(std::move(fiber.started));
  fiber.started.clear();
}
STRATA_HOST_INLINE void wait_copies(int pending) {
  auto& groups = strata_host::team.fiber().groups;
  while (static_cast<int>(groups.size()) > pending) {
    for (const strata_host::Copy& copy : groups.front()) std::memcpy(copy.to, copy.from, copy.bytes);
    groups.erase(groups.begin());
  }
}

STRATA_HOST_INLINE void launch(int64 gx, int64 gy, int64 gz, int64 cluster, int64 threads, int64 shared_bytes,
                               bool resident, const Launched& run) {
  const auto bytes = static_cast<std::size_t>(std::max<int64>(shared_bytes, 1));
  const int64 all = gx * gy * gz;
  const int64 together = resident ? all : cluster;
  for (int64 first = 0; first < all; first += together) {
    for (int64 block = 0; block < together; ++block) {
      void* shared = nullptr;
      if (posix_memalign(&shared, 1024, bytes) != 0) strata_host::fail("no memory");
      std::memset(shared, 0xff, bytes);
      block_memory.push_back(static_cast<unsigned char*>(shared));
    }
    forget_barriers();
    current_block = first % gx;
    current_blocks = gx;
    strata_host::team.run(static_cast<int>(together), static_cast<int>(cluster), static_cast<int>(threads), [&] {
      const int64 block = strata_host::team.block();
      const int64 at = first + block;
      run(at % gx, at / gx % gy, at / gx / gy, block_memory[static_cast<std::size_t>(block)]);
    });
    for (unsigned char* shared : block_memory) std::free(shared);
    block_memory.clear();
  }
}
#endif  // STRATA_HOST_APART

}  // namespace strata_device
#endif  // STRATA_HOST
