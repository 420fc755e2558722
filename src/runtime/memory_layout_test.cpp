#include "runtime/memory_layout.h"

#include <gtest/gtest.h>

#include "support/random.h"

namespace strata {
namespace {

GpuStep kernel(const std::vector<std::string>& arguments) {
  GpuLaunch launch;
  launch.kernel = "k";
  launch.arguments = arguments;
  return launch;
}

GpuBuffer buffer(const std::string& name, BufferRole role, int64_t bytes = 1000) {
  return {name, role, ArrayType("u8", 1, {bytes})};
}

int64_t offset_of(const LaunchManifest& manifest, const std::string& name) { return *manifest.find(name)->offset; }

TEST(MemoryLayout, WhatLivesAtTheSameTimeLiesApart) {
  LaunchManifest chain;
  chain.buffers = {buffer("x", BufferRole::Input), buffer("y", BufferRole::Output),
                   buffer("c", BufferRole::Counters, 8)};
  std::string before = "x";
  for (int i = 0; i < 8; ++i) {
    const std::string name = i == 7 ? "y" : fmt::format("t{}", i);
    if (i < 7) chain.buffers.push_back(buffer(name, BufferRole::Intermediate));
    chain.steps.push_back(kernel({before, name, "c"}));
    before = name;
  }
  place_buffers(chain, /*outputs=*/false);
  EXPECT_EQ(layout_of(chain).working_bytes, 2 * 1024);
  EXPECT_EQ(layout_of(chain).separate_bytes, 7 * 1024);
  EXPECT_EQ(layout_of(chain).input_bytes, 1024);
  EXPECT_EQ(describe(layout_of(chain)), "2048 bytes of working memory, 7168 in buffers of their own");
  for (const char* name : {"x", "y", "c"}) EXPECT_FALSE(chain.find(name)->offset) << name;
  place_buffers(chain, /*outputs=*/true);
  EXPECT_EQ(layout_of(chain).separate_bytes, 8 * 1024);
  EXPECT_NE(offset_of(chain, "y"), offset_of(chain, "t6"));
}

TEST(MemoryLayout, ALoopKeepsWhatItSharesWithOtherSteps) {
  LaunchManifest made;
  for (const char* name : {"before", "first", "second", "after", "result"})
    made.buffers.push_back(buffer(name, BufferRole::Intermediate));
  GpuLoop loop;
  loop.count = 2;
  loop.values.push_back({.initial = "before", .result = "result", .current = {}, .next = ""});
  loop.body = {kernel({"first", "before"}), kernel({"first", "second"})};
  made.steps = {kernel({"before"}), GpuStep(loop, "loop", ""), kernel({"result", "after"})};
  place_buffers(made, false);
  // All but `after` are needed in every iteration: an iteration's own, until its last step.
  for (const char* one : {"before", "first", "second", "result"}) {
    for (const char* other : {"before", "first", "second", "result"})
      EXPECT_TRUE(one == other || offset_of(made, one) != offset_of(made, other)) << one << " " << other;
  }
  EXPECT_EQ(layout_of(made).working_bytes, 4 * 1024);
}

TEST(MemoryLayout, WhatLiesInAnotherLivesAsLongAsBoth) {
  LaunchManifest made;
  for (const char* name : {"a", "b", "c", "d"}) made.buffers.push_back(buffer(name, BufferRole::Intermediate));
  made.buffers[1].lies_in = "a";
  made.steps = {kernel({"a"}), kernel({"a", "b"}), kernel({"c"}), kernel({"b", "d"})};
  place_buffers(made, false);
  EXPECT_FALSE(made.find("b")->offset);
  EXPECT_NE(offset_of(made, "a"), offset_of(made, "c"));
  EXPECT_NE(offset_of(made, "a"), offset_of(made, "d"));
  EXPECT_EQ(*memory_roots(made), (std::vector<size_t>{0, 0, 2, 3}));
  made.buffers[0].lies_in = "b";
  EXPECT_EQ(memory_roots(made).error().message, "buffer 'a' lies in itself");
  made.buffers[0].lies_in = "z";
  EXPECT_EQ(memory_roots(made).error().message, "buffer 'a' lies in 'z', which is no buffer");
  made.buffers[0].lies_in = "";
  made.buffers[1].type.shape = {2000};
  EXPECT_EQ(memory_roots(made).error().message, "buffer 'b' lies in 'a', which is smaller");
}

TEST(MemoryLayout, RandomProgramsHaveNoTwoBuffersInOnePlace) {
  Random random(5);
  for (int run = 0; run < 300; ++run) {
    LaunchManifest made;
    const auto count = 2 + random.below(12);
    for (uint64_t i = 0; i < count; ++i)
      made.buffers.push_back(buffer(fmt::format("b{}", i),
                                    random.below(5) == 0 ? BufferRole::Output : BufferRole::Intermediate,
                                    static_cast<int64_t>(random.below(3000))));
    const auto steps = 1 + random.below(12);
    std::vector<std::vector<size_t>> used(steps);
    for (auto& of : used) {
      std::vector<std::string> arguments;
      for (uint64_t i = 0; i <= random.below(4); ++i) of.push_back(random.below(count));
      for (const size_t number : of) arguments.push_back(made.buffers[number].name);
      made.steps.push_back(kernel(arguments));
    }
    place_buffers(made, true);
    std::vector<std::pair<int64_t, int64_t>> lives(count, {-1, -1});
    for (size_t i = 0; i < steps; ++i) {
      for (const size_t number : used[i]) {
        auto& [first, last] = lives[number];
        if (first < 0) first = static_cast<int64_t>(i);
        last = static_cast<int64_t>(i);
      }
    }
    for (size_t i = 0; i < count; ++i) {
      if (made.buffers[i].role == BufferRole::Output && lives[i].first >= 0)
        lives[i].second = static_cast<int64_t>(steps);
    }
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (lives[a].first < 0 || lives[b].first < 0) continue;
        const bool together = lives[a].first <= lives[b].second && lives[b].first <= lives[a].second;
        const int64_t from_a = *made.buffers[a].offset, from_b = *made.buffers[b].offset;
        const bool apart =
            from_a + made.buffers[a].type.bytes() <= from_b || from_b + made.buffers[b].type.bytes() <= from_a;
        EXPECT_TRUE(apart || !together) << "run " << run;
      }
    }
  }
}

}  // namespace
}  // namespace strata
