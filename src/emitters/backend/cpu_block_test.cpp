#include "emitters/backend/cpu_block.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <thread>
#include <vector>

#include "emitters/backend/cpu_kernel.h"

// Threads whose code is C++, which sanitizers see into.
namespace strata::emitters {
namespace {

constexpr int kThreads = 96;

/// A prefix sum over the block in shared memory: step after step between barriers. Buffer 0: in, buffer 1: out.
void prefix_sum(void* const* buffers, int32_t block, int32_t thread, void* shared) {
  auto* values = static_cast<uint32_t*>(shared);
  const auto* in = static_cast<const uint32_t*>(buffers[0]);
  auto* out = static_cast<uint32_t*>(buffers[1]);
  std::array<uint32_t, 64> local{};  // a frame with something in it
  values[thread] = in[block * kThreads + thread];
  for (int step = 1; step < kThreads; step *= 2) {
    strata_cpu_barrier();
    local[0] = thread >= step ? values[thread - step] : 0;
    strata_cpu_barrier();
    values[thread] += local[0];
  }
  const uint32_t same = strata_cpu_shuffle_xor(strata_cpu_shuffle_xor(values[thread], 7), 7);
  out[block * kThreads + thread] = same;
}

void sums_are_right(ThreadOrder order) {
  constexpr int kBlocks = 5;
  std::vector<uint32_t> in(kBlocks * kThreads), out(in.size()), shared(kThreads);
  std::iota(in.begin(), in.end(), 11);
  const std::array<void*, 2> buffers{in.data(), out.data()};
  for (int block = 0; block < kBlocks; ++block) {
    const auto result = run_fibers(prefix_sum, buffers.data(), block, kThreads, shared.data(), order);
    ASSERT_TRUE(result) << result.error().to_string();
    uint32_t sum = 0;
    for (int i = block * kThreads; i < (block + 1) * kThreads; ++i) ASSERT_EQ(out[i], sum += in[i]);
  }
}

TEST(CpuBlock, PrefixSums) {
  sums_are_right(ThreadOrder::Ascending);
  sums_are_right(ThreadOrder::Descending);
}

TEST(CpuBlock, SeveralThreadsOfTheProcess) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([] {
      for (int round = 0; round < 5; ++round) sums_are_right(ThreadOrder::Ascending);
    });
}

/// Parts of 32 threads meet as often as their number says, and then all do.
void meet_in_parts(void* const* buffers, int32_t, int32_t thread, void* shared) {
  constexpr int kPart = 32;
  auto* values = static_cast<uint32_t*>(shared);
  const int part = thread / kPart;
  values[thread] = static_cast<uint32_t>(thread);
  for (int round = 0; round < part; ++round) {
    strata_cpu_part_barrier(static_cast<uint32_t>(part), kPart);
    const uint32_t next = values[part * kPart + (thread + 1) % kPart];
    strata_cpu_part_barrier(static_cast<uint32_t>(part), kPart);
    values[thread] = next;
  }
  strata_cpu_barrier();
  static_cast<uint32_t*>(buffers[0])[thread] = values[kThreads - 1 - thread];
}

TEST(CpuBlock, PartsMeetAsOftenAsTheyDo) {
  std::vector<uint32_t> out(kThreads), shared(kThreads);
  const std::array<void*, 1> buffers{out.data()};
  for (const ThreadOrder order : {ThreadOrder::Ascending, ThreadOrder::Descending}) {
    const auto result = run_fibers(meet_in_parts, buffers.data(), 0, kThreads, shared.data(), order);
    ASSERT_TRUE(result) << result.error().to_string();
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      const uint32_t other = kThreads - 1 - thread, part = other / 32;
      EXPECT_EQ(out[thread], part * 32 + (other % 32 + part) % 32);
    }
  }
}

/// One thread of a part goes on to the block's barrier.
void miss_a_part(void* const*, int32_t, int32_t thread, void*) {
  if (thread < 32 && thread != 5) strata_cpu_part_barrier(0, 32);
  strata_cpu_barrier();
}

TEST(CpuBlock, APartThatCannotMeetIsAnError) {
  const std::array<void*, 1> buffers{nullptr};
  const auto result = run_fibers(miss_a_part, buffers.data(), 2, 64, nullptr, ThreadOrder::Ascending);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "thread 0 of block 2 waits in a barrier of a part of the block that others do not reach");
  sums_are_right(ThreadOrder::Ascending);
}

/// Thread 7 leaves, the others wait in a barrier with frames of some size.
void leave_one(void* const*, int32_t, int32_t thread, void*) {
  std::array<volatile char, 4000> frame{};
  frame[static_cast<size_t>(thread)] = 1;
  if (thread != 7) strata_cpu_barrier();
}

TEST(CpuBlock, AbandonedThreadsLeaveNothingBehind) {
  const std::array<void*, 1> buffers{nullptr};
  for (int round = 0; round < 5; ++round) {
    const auto result = run_fibers(leave_one, buffers.data(), 3, 40, nullptr, ThreadOrder::Ascending);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message, "thread 0 of block 3 waits in a barrier that thread 7 left");
    sums_are_right(ThreadOrder::Ascending);
  }
}

}  // namespace
}  // namespace strata::emitters
