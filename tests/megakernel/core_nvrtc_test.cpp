// The runtime's core (src/megakernel/runtime/core) is what NVRTC compiles, on a platform of the plainest CUDA.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "machine/target.h"
#include "runtime/compile.h"
#include "test_paths.h"

namespace strata {
namespace {

constexpr const char* kPlatform = R"(
namespace strata::megakernel {
struct CudaCounter { unsigned value; };
struct CudaBarrier { unsigned long long word; };
struct alignas(16) CudaWord { Tagged value; };
struct Platform {
  using Counter = CudaCounter;
  using Barrier = CudaBarrier;
  using TaggedWord = CudaWord;
  static constexpr unsigned kCheckInterval = 1024;
  static constexpr int kCounterStride = 32;
  STRATA_DEVICE unsigned load(const Counter& c) { return *(const volatile unsigned*)&c.value; }
  STRATA_DEVICE void store(Counter& c, unsigned v) { *(volatile unsigned*)&c.value = v; }
  STRATA_DEVICE void acquire() { __threadfence(); }
  STRATA_DEVICE void acquire_for_copies() { __threadfence(); }
  STRATA_DEVICE void release_for_copies() { __threadfence(); }
  STRATA_DEVICE void add_release(Counter& c, unsigned v) { __threadfence(); atomicAdd(&c.value, v); }
  STRATA_DEVICE void store_release(Counter& c, unsigned v) { __threadfence_system(); store(c, v); }
  STRATA_DEVICE unsigned add(Counter& c, unsigned v) { __threadfence(); return atomicAdd(&c.value, v); }
  STRATA_DEVICE unsigned compare_exchange(Counter& c, unsigned e, unsigned d) { return atomicCAS(&c.value, e, d); }
  STRATA_DEVICE Tagged load_tagged(const TaggedWord& w) { return w.value; }
  STRATA_DEVICE void store_tagged(TaggedWord& w, const Tagged& v) { w.value = v; }
  STRATA_DEVICE void store_token(int* place, int token) { *place = token; }
  STRATA_DEVICE void start(Barrier& b, unsigned arrivals) { b.word = arrivals; }
  STRATA_DEVICE void arrive(Barrier& b, unsigned count) { atomicAdd(&b.word, (unsigned long long)count); }
  STRATA_DEVICE void arrive_and_expect(Barrier& b, unsigned bytes) { atomicAdd(&b.word, bytes); }
  STRATA_DEVICE bool passed(Barrier& b, unsigned phase) { return (b.word & 1) != (phase & 1); }
  STRATA_DEVICE bool passed_together(Barrier& b, unsigned phase) { return __all_sync(~0u, passed(b, phase)); }
  STRATA_DEVICE void copy(void* to, const void* from, unsigned bytes, Barrier&) { memcpy(to, from, bytes); }
  STRATA_DEVICE unsigned peek(const Counter& c) { return load(c); }
  STRATA_DEVICE void post(Counter& c, unsigned v) { store(c, v); }
  STRATA_DEVICE int rank() { return threadIdx.x; }
  STRATA_DEVICE int size() { return 256; }
  STRATA_DEVICE int warp() { return threadIdx.x / 32; }
  STRATA_DEVICE int warps() { return 8; }
  STRATA_DEVICE int lane() { return threadIdx.x % 32; }
  STRATA_DEVICE int lanes() { return 32; }
  STRATA_DEVICE bool leads() { return threadIdx.x == 0; }
  STRATA_DEVICE bool leads_warp() { return threadIdx.x % 32 == 0; }
  STRATA_DEVICE void meet_warp() { __syncwarp(); }
  STRATA_DEVICE int first_lane(bool x) { return __ffs(__ballot_sync(~0u, x)) - 1; }
  STRATA_DEVICE unsigned share(unsigned x, int lane) { return __shfl_sync(~0u, x, lane); }
  STRATA_DEVICE void meet() { __syncthreads(); }
  STRATA_DEVICE bool any(bool x) { return __syncthreads_or(x) != 0; }
  STRATA_DEVICE unsigned long long clock() { return clock64(); }
  STRATA_DEVICE void pause() {}
};
struct Functions {
  STRATA_DEVICE void load(const Descriptor& task, LoadSide<Platform>& side) {
    side.wait_for_history();
    for (int n = 0; n < side.position(0); ++n) side.push(task.arguments[0], 4096);
  }
  STRATA_DEVICE void compute(const Descriptor& task, ComputeSide<Platform>& side) {
    Platform& platform = side.platform();
    auto* const words = (CudaWord*)task.arguments[1];
    auto* const x = (unsigned*)side.scratch();
    side.read(words, 300, [&](int i, const Tagged& word) { x[i] = word.data[0] + word.data[1]; });
    unsigned sum = 0;
    for (int n = platform.warp(); n < side.position(0); n += platform.warps()) {
      sum += side.stage(n, 4096)[platform.lane()] * x[n];
      side.release(n, 1);
    }
    side.advance(side.position(0), 4096);
    platform.meet();
    side.write(words[task.record.coordinates[0]], sum, 0);
    side.put_token(0, 1);
    side.finish();
  }
};
}  // namespace strata::megakernel
using namespace strata::megakernel;
extern "C" __global__ void kernel(const Program<Platform> program, const WorkerMemory<Platform> memory, int role) {
  Platform platform;
  Functions functions;
  const int index = blockIdx.x;
  if (role == 0) {
    start_memory(platform, program, memory, 8);
    run_control(platform, program, memory, index);
  } else if (role == 1) {
    run_load<true>(platform, program, memory, index, functions);
  } else if (role == 2) {
    run_compute<true>(platform, program, memory, index, functions);
  } else {
    run_schedule(platform, program, index);
  }
}
)";

/// The core as one text, in the order of its includes; nothing else is included.
std::string core() {
  std::string text;
  for (const char* name : {"base", "program", "spin", "events", "ring", "control", "profile", "worker", "scheduler"}) {
    std::ifstream file(std::string(STRATA_SOURCE_DIR) + "/src/megakernel/runtime/core/" + name + ".h");
    if (!file) ADD_FAILURE() << name << ".h cannot be read";
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("#include")) {
        EXPECT_TRUE(line.starts_with("#include \"megakernel/runtime/core/")) << line;
      } else if (line != "#pragma once") {
        text += line + "\n";
      }
    }
  }
  return text;
}

TEST(Core, CompilesUnderNvrtc) {
  for (const char* name : {"sm_80", "sm_90a"}) {
    const auto target = find_target(name);
    ASSERT_TRUE(target) << target.error().to_string();
    const auto cubin = compile_cubin(core() + kPlatform, **target);
    ASSERT_TRUE(cubin) << cubin.error().to_string();
    EXPECT_GT(cubin->size(), 1000u);
  }
}

}  // namespace
}  // namespace strata
