#include "support/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/random.h"

namespace strata {
namespace {

bool overlap(const LiveTensor& a, int64_t at, const LiveTensor& b, int64_t other) {
  return a.first <= b.last && b.first <= a.last && at < other + b.bytes && other < at + a.bytes;
}

void expect_valid(const std::vector<LiveTensor>& tensors, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), tensors.size());
  int64_t peak = 0;
  for (size_t a = 0; a < tensors.size(); ++a) {
    EXPECT_GE(plan.offsets[a], 0);
    EXPECT_EQ(plan.offsets[a] % tensors[a].alignment, 0);
    if (tensors[a].bytes > 0) peak = std::max(peak, plan.offsets[a] + tensors[a].bytes);
    for (size_t b = 0; b < a; ++b) {
      EXPECT_FALSE(overlap(tensors[a], plan.offsets[a], tensors[b], plan.offsets[b])) << a << " and " << b;
    }
  }
  EXPECT_EQ(plan.peak, peak);
  EXPECT_GE(plan.peak, plan.lower_bound);
}

/// Whether the tensors from `next` on have any places within `peak` bytes: tries all offsets.
bool fits(const std::vector<LiveTensor>& tensors, int64_t peak, std::vector<int64_t>& offsets) {
  const size_t next = offsets.size();
  if (next == tensors.size()) return true;
  for (int64_t at = 0; at + tensors[next].bytes <= peak; at += tensors[next].alignment) {
    bool free = true;
    for (size_t b = 0; b < next && free; ++b) free = !overlap(tensors[next], at, tensors[b], offsets[b]);
    if (!free) continue;
    offsets.push_back(at);
    if (fits(tensors, peak, offsets)) return true;
    offsets.pop_back();
  }
  return false;
}

struct Sizes {
  size_t tensors;
  int64_t depths;
  int64_t longest;  ///< depths that a tensor lives at
  int64_t bytes;
  std::vector<int64_t> alignments;
};

std::vector<LiveTensor> random_tensors(Random& random, const Sizes& sizes) {
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(bound))); };
  std::vector<LiveTensor> tensors;
  for (size_t i = 0; i < sizes.tensors; ++i) {
    const int64_t first = below(sizes.depths);
    const size_t alignment = static_cast<size_t>(below(static_cast<int64_t>(sizes.alignments.size())));
    tensors.push_back({below(sizes.bytes + 1), first, std::min(first + below(sizes.longest), sizes.depths - 1),
                       sizes.alignments[alignment]});
  }
  return tensors;
}

TEST(MemoryPlan, NothingAndOneTensor) {
  const MemoryPlan none = plan_memory({});
  EXPECT_TRUE(none.optimal);
  EXPECT_EQ(none.peak, 0);
  const MemoryPlan one = plan_memory({{100, 3, 3, 128}});
  EXPECT_TRUE(one.optimal);
  EXPECT_EQ(one.peak, 100);
  EXPECT_EQ(one.lower_bound, 100);
}

TEST(MemoryPlan, TensorsOfDifferentDepthsShareTheirPlace) {
  const MemoryPlan plan = plan_memory({{64, 0, 1, 16}, {64, 1, 2, 16}, {64, 2, 3, 16}, {64, 3, 4, 16}});
  EXPECT_TRUE(plan.optimal);
  EXPECT_EQ(plan.peak, 128);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
}

TEST(MemoryPlan, NoPlanOfSmallCasesIsLower) {
  Random random(1);
  int above_bound = 0;
  int searched = 0;
  for (int round = 0; round < 3000; ++round) {
    Sizes sizes{3 + static_cast<size_t>(round % 6), 6, 4, 5, {1}};
    if (round % 3 == 1) sizes.alignments = {1, 2, 4};
    if (round % 3 == 2) sizes.alignments = {2, 3};
    const auto tensors = random_tensors(random, sizes);
    const MemoryPlan plan = plan_memory(tensors);
    expect_valid(tensors, plan);
    EXPECT_TRUE(plan.optimal);
    std::vector<int64_t> offsets;
    EXPECT_FALSE(fits(tensors, plan.peak - 1, offsets)) << "round " << round;
    above_bound += plan.peak > plan.lower_bound ? 1 : 0;
    searched += plan.nodes > 0 ? 1 : 0;
    if (HasFailure()) return;
  }
  // What the property is worth: neither the bound nor the greedy plan alone would do.
  EXPECT_GE(above_bound, 100);
  EXPECT_GE(searched, 100);
}

TEST(MemoryPlan, TheSearchImprovesTheGreedyPlan) {
  Random random(2);
  int improved = 0;
  for (int round = 0; round < 200; ++round) {
    const auto tensors = random_tensors(random, {12, 10, 6, 40, {1}});
    const MemoryPlan greedy = plan_memory(tensors, 0);
    const MemoryPlan plan = plan_memory(tensors);
    expect_valid(tensors, greedy);
    expect_valid(tensors, plan);
    EXPECT_LE(plan.peak, greedy.peak);
    improved += plan.peak < greedy.peak ? 1 : 0;
  }
  EXPECT_GE(improved, 20);
}

TEST(MemoryPlan, SizesOfBlockGraphsAreSolved) {
  Random random(3);
  for (int round = 0; round < 50; ++round) {
    auto tensors = random_tensors(random, {24, 12, 5, 64, {16, 128}});
    for (LiveTensor& tensor : tensors) tensor.bytes *= 256;
    const MemoryPlan plan = plan_memory(tensors);
    expect_valid(tensors, plan);
    EXPECT_TRUE(plan.optimal) << plan.nodes << " nodes";
  }
}

TEST(MemoryPlan, TheNodeLimitEndsTheSearch) {
  Random random(4);
  int ended = 0;
  for (int round = 0; round < 20; ++round) {
    const auto tensors = random_tensors(random, {200, 60, 20, 1000, {1, 4, 16}});
    const MemoryPlan plan = plan_memory(tensors, 2000);
    expect_valid(tensors, plan);
    EXPECT_LE(plan.nodes, 2001);
    ended += plan.optimal ? 0 : 1;
  }
  EXPECT_GE(ended, 10);
}

}  // namespace
}  // namespace strata
