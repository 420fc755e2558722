#include "hlo/carry_conditions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::hlo {
namespace {

/// x ← x / 2, as long as the condition `decides` says so, i counting from `first`; returns x and i.
std::string halving(const std::string& first, const std::string& decides) {
  return fmt::format(R"(HloModule m
max {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}}
largest {{
  x = f32[7] parameter(0)
  a = f32[7] abs(x)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(a, zero), dimensions={{0}}, to_apply=max
}}
condition {{
  s = (f32[7], (s32[], f32[7])) parameter(0)
  x = f32[7] get-tuple-element(s), index=0
  t = (s32[], f32[7]) get-tuple-element(s), index=1
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(20)
  few = pred[] compare(i, n), direction=LT
  m = f32[] call(x), to_apply=largest
  least = f32[] constant(0.01)
  above = pred[] compare(m, least), direction=GT
  ROOT r = pred[] {1}
}}
body {{
  s = (f32[7], (s32[], f32[7])) parameter(0)
  x = f32[7] get-tuple-element(s), index=0
  t = (s32[], f32[7]) get-tuple-element(s), index=1
  i = s32[] get-tuple-element(t), index=0
  k = f32[7] get-tuple-element(t), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[7] multiply(x, k)
  u = (s32[], f32[7]) tuple(j, k)
  ROOT r = (f32[7], (s32[], f32[7])) tuple(y, u)
}}
ENTRY main {{
  x = f32[7] parameter(0)
  i = s32[] constant({0})
  half = f32[] constant(0.5)
  k = f32[7] broadcast(half), dimensions={{}}
  t = (s32[], f32[7]) tuple(i, k)
  s = (f32[7], (s32[], f32[7])) tuple(x, t)
  w = (f32[7], (s32[], f32[7])) while(s), condition=condition, body=body
  y = f32[7] get-tuple-element(w), index=0
  u = (s32[], f32[7]) get-tuple-element(w), index=1
  j = s32[] get-tuple-element(u), index=0
  ROOT r = (f32[7], s32[]) tuple(y, j)
}}
)",
                     first, decides);
}

/// The module with carried conditions, which has the same value and is not changed again.
void check(const std::string& text) {
  const auto module = parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  ASSERT_TRUE(has_computed_conditions(**module));
  const auto carried = carry_conditions(**module);
  ASSERT_TRUE(carried) << carried.error().to_string();
  const auto verified = verify(*carried);
  ASSERT_TRUE(verified) << verified.error().to_string() << print(*carried);
  EXPECT_FALSE(has_computed_conditions(*carried)) << print(*carried);
  for (const uint64_t seed : {1, 2, 3}) {
    const auto arguments = typical_arguments((*module)->entry_computation(), seed);
    const auto expected = evaluate(**module, arguments);
    const auto actual = evaluate(*carried, arguments);
    ASSERT_TRUE(expected && actual);
    EXPECT_TRUE(identical(*actual, *expected)) << print(*carried);
  }
}

TEST(CarryConditions, BodiesComputeWhetherTheyGoOn) { check(halving("0", "and(few, above)")); }

TEST(CarryConditions, LoopsThatDoNotBegin) { check(halving("20", "and(few, above)")); }

TEST(CarryConditions, CountedLoopsStay) {
  const auto module = parse_module(halving("0", "compare(i, n), direction=LT"));
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_FALSE(has_computed_conditions(**module));
}

TEST(CarryConditions, LoopsInLoops) {
  check(R"(HloModule m
outer_condition {
  s = (f32[3], s32[]) parameter(0)
  x = f32[3] get-tuple-element(s), index=0
  c = f32[1] slice(x), slice={[0:1]}
  d = f32[] reshape(c)
  a = f32[] abs(d)
  most = f32[] constant(100)
  ROOT r = pred[] compare(a, most), direction=LT
}
inner_condition {
  s = (f32[3], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=1
  i2 = s32[] multiply(i, i)
  n = s32[] constant(30)
  ROOT r = pred[] compare(i2, n), direction=LT
}
inner_body {
  s = (f32[3], s32[]) parameter(0)
  x = f32[3] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  k = f32[] convert(j)
  b = f32[3] broadcast(k), dimensions={}
  a = f32[3] abs(x)
  y = f32[3] add(a, b)
  ROOT r = (f32[3], s32[]) tuple(y, j)
}
outer_body {
  s = (f32[3], s32[]) parameter(0)
  x = f32[3] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  zero = s32[] constant(0)
  t = (f32[3], s32[]) tuple(x, zero)
  w = (f32[3], s32[]) while(t), condition=inner_condition, body=inner_body
  y = f32[3] get-tuple-element(w), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (f32[3], s32[]) tuple(y, j)
}
ENTRY main {
  x = f32[3] parameter(0)
  zero = s32[] constant(0)
  s = (f32[3], s32[]) tuple(x, zero)
  ROOT w = (f32[3], s32[]) while(s), condition=outer_condition, body=outer_body
}
)");
}

}  // namespace
}  // namespace strata::hlo
