// Runs generated kernels on the host: what the CUDA driver does on a GPU. Included behind the generated source.
#include <cstdlib>
#include <vector>
#if defined(STRATA_HOST_THREADS)
#include <barrier>
#include <thread>
#endif

namespace strata_device {

#if defined(STRATA_HOST_THREADS)
inline thread_local int current_thread = 0;
inline thread_local std::barrier<>* current_barrier = nullptr;
inline int64 thread() { return current_thread; }
inline int64 threads() { return STRATA_HOST_THREADS; }
inline void barrier() { current_barrier->arrive_and_wait(); }
#endif
inline thread_local int64 current_block = 0;
inline thread_local int64 current_blocks = 1;
inline int64 block() { return current_block; }
inline int64 blocks() { return current_blocks; }

/// Calls run(x, y, z, shared memory) for every block of the grid. Shared memory is filled with a value that no
/// correct kernel reads (NaN as f16, bf16, f32 and f64) and is exactly as large as planned, for AddressSanitizer.
template <class Run>
void launch(long long gx, long long gy, long long gz, long long shared_bytes, Run run) {
  for (long long z = 0; z < gz; ++z) {
    for (long long y = 0; y < gy; ++y) {
      for (long long x = 0; x < gx; ++x) {
        const std::size_t bytes = static_cast<std::size_t>(shared_bytes > 0 ? shared_bytes : 1);
        unsigned char* shared = static_cast<unsigned char*>(std::malloc(bytes));
        std::memset(shared, 0xff, bytes);
#if defined(STRATA_HOST_THREADS)
        std::barrier<> together(STRATA_HOST_THREADS);
        std::vector<std::thread> team;
        for (int t = 0; t < STRATA_HOST_THREADS; ++t) {
          team.emplace_back([&, t] {
            current_thread = t;
            current_barrier = &together;
            current_block = x;
            current_blocks = gx;
            run(x, y, z, shared);
          });
        }
        for (std::thread& member : team) member.join();
#else
        current_block = x;
        current_blocks = gx;
        run(x, y, z, shared);
#endif
        std::free(shared);
      }
    }
  }
}

}  // namespace strata_device
