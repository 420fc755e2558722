#include "hlo/merge_equals.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/random_fusion.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/test_rounds.h"

namespace strata::hlo {
namespace {

Module merged(const std::string& text) {
  const auto module = parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  Module changed = merge_equals(**module);
  const auto verified = verify(changed);
  EXPECT_TRUE(verified) << verified.error().to_string() << print(changed);
  return changed;
}

int64_t count(const Module& module, Opcode opcode) {
  const auto& all = module.entry_computation().instructions;
  return std::ranges::count_if(all, [&](const Instruction& it) { return it.opcode == opcode; });
}

TEST(MergeEquals, WhatIsComputedTwiceIsThereOnce) {
  // A decay of each leaf of a tree, as optimizers write it; and sums by two computations that are the same.
  const Module changed = merged(R"(HloModule m
first {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
second {
  c = f32[] parameter(0)
  d = f32[] parameter(1)
  ROOT t = f32[] add(c, d)
}
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  count = f32[] parameter(2)
  beta = f32[] constant(0.9)
  beta.1 = f32[] constant(0.9)
  zero = f32[] constant(0)
  power = f32[] power(beta, count)
  power.1 = f32[] power(beta.1, count)
  wide = f32[8] broadcast(power), dimensions={}
  wide.1 = f32[8] broadcast(power.1), dimensions={}
  u = f32[8] multiply(x, wide)
  v = f32[8] multiply(y, wide.1)
  v.1 = f32[8] multiply(y, wide)
  r = f32[] reduce(u, zero), dimensions={0}, to_apply=first
  r.1 = f32[] reduce(u, zero), dimensions={0}, to_apply=second
  ROOT t = (f32[8], f32[8], f32[8], f32[], f32[]) tuple(u, v, v.1, r, r.1)
})");
  EXPECT_EQ(count(changed, Opcode::Power), 1) << print(changed);
  EXPECT_EQ(count(changed, Opcode::Broadcast), 2) << print(changed);
  EXPECT_EQ(count(changed, Opcode::Multiply), 2) << print(changed);
  EXPECT_EQ(count(changed, Opcode::Reduce), 1) << print(changed);
}

TEST(MergeEquals, WhatDiffersOrIsFencedStays) {
  const std::string text = R"(HloModule m
ENTRY e {
  x = f32[4,4] parameter(0)
  fenced = f32[4,4] opt-barrier(x)
  again = f32[4,4] opt-barrier(x)
  a = f32[4,4] negate(x)
  b = f32[4,4] negate(fenced)
  c = f32[4,4] negate(again)
  d = f32[4,4] subtract(x, a)
  f = f32[4,4] subtract(a, x)
  g = bf16[4,4] convert(x)
  h = f16[4,4] convert(x)
  i = f32[4,4] transpose(x), dimensions={1,0}
  j = f32[2,2] slice(x), slice={[0:2], [0:2]}
  k = f32[2,2] slice(x), slice={[0:2], [1:3]}
  l = f32[4,4] rng(), distribution=rng_uniform
  m = f32[4,4] rng(), distribution=rng_uniform
  ROOT t = (f32[4,4], f32[4,4], f32[4,4], f32[4,4], f32[4,4], bf16[4,4], f16[4,4], f32[4,4], f32[2,2], f32[2,2],
            f32[4,4], f32[4,4]) tuple(a, b, c, d, f, g, h, i, j, k, l, m)
})";
  const auto module = parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(print(merge_equals(**module)), print(**module));
}

TEST(MergeEquals, RandomModulesComputeTheSame) {
  int64_t merges = 0;
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(200)); ++seed) {
    SCOPED_TRACE(seed);
    const ModulePtr module = random_fusion(seed);
    const Module changed = merge_equals(*module);
    const auto verified = verify(changed);
    ASSERT_TRUE(verified) << verified.error().to_string() << print(changed);
    merges +=
        std::ssize(module->entry_computation().instructions) - std::ssize(changed.entry_computation().instructions);
    const auto arguments = typical_arguments(module->entry_computation(), seed);
    const auto expected = evaluate(*module, arguments), actual = evaluate(changed, arguments);
    ASSERT_EQ(expected.has_value(), actual.has_value());
    if (!expected) continue;
    EXPECT_EQ(difference(*actual, *expected, 0).value_or(""), "") << print(*module);
  }
  EXPECT_GT(merges, 0);
}

}  // namespace
}  // namespace strata::hlo
