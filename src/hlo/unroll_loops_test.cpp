#include "hlo/unroll_loops.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::hlo {
namespace {

int64_t loops(const Module& module) {
  int64_t count = 0;
  for (const Computation& computation : module.computations) {
    count += std::count_if(computation.instructions.begin(), computation.instructions.end(),
                           [](const Instruction& it) { return it.opcode == Opcode::While; });
  }
  return count;
}

/// How many loops are left; what is left computes the same bits.
int64_t left(const std::string& text) {
  const auto module = parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string() << text;
  if (!module) return -1;
  const auto unrolled = unroll_loops(**module);
  EXPECT_TRUE(unrolled) << unrolled.error().to_string();
  if (!unrolled) return -1;
  EXPECT_EQ(has_short_loops(**module), loops(*unrolled) < loops(**module));
  const auto verified = verify(*unrolled);
  EXPECT_TRUE(verified) << verified.error().to_string() << print(*unrolled);
  const auto arguments = typical_arguments((*module)->entry_computation(), 3);
  const auto expected = evaluate(**module, arguments), actual = evaluate(*unrolled, arguments);
  EXPECT_TRUE(expected && actual && identical(*expected, *actual)) << print(*unrolled);
  return loops(*unrolled);
}

/// (i, x, a, b) with x ← x · a[0] + i, and a and b exchanged; `operators` more of x in the body, and then `row`, which
/// makes v.
std::string loop(int64_t count, int64_t operators = 0, const std::string& row = "") {
  std::string more, last = "y";
  for (int64_t i = 0; i < operators; ++i) {
    more += fmt::format("  n{} = f32[100] {}({})\n", i, i % 2 == 0 ? "negate" : "sine", last);
    last = fmt::format("n{}", i);
  }
  if (!row.empty()) last = "v";
  return fmt::format(R"(HloModule m
condition {{
  s = (s32[], f32[100], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({0})
  ROOT c = pred[] compare(i, n), direction=LT
}}
scaled {{
  x = f32[100] parameter(0)
  a = f32[4] parameter(1)
  first = f32[1] slice(a), slice={{[0:1]}}
  scalar = f32[] reshape(first)
  factors = f32[100] broadcast(scalar), dimensions={{}}
  ROOT y = f32[100] multiply(x, factors)
}}
body {{
  s = (s32[], f32[100], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[100] get-tuple-element(s), index=1
  a = f32[4] get-tuple-element(s), index=2
  b = f32[4] get-tuple-element(s), index=3
  z = f32[100] call(x, a), to_apply=scaled
  number = f32[] convert(i)
  numbers = f32[100] broadcast(number), dimensions={{}}
  y = f32[100] add(z, numbers)
{1}{2}  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[100], f32[4], f32[4]) tuple(j, {3}, b, a)
}}
ENTRY e {{
  x = f32[100] parameter(0)
  a = f32[4] parameter(1)
  b = f32[4] constant({{1, 2, 3, 4}})
  i = s32[] constant(0)
  s = (s32[], f32[100], f32[4], f32[4]) tuple(i, x, a, b)
  w = (s32[], f32[100], f32[4], f32[4]) while(s), condition=condition, body=body
  ROOT y = f32[100] get-tuple-element(w), index=1
}}
)",
                     count, more, row, last);
}

TEST(UnrollLoops, OfFewElementwiseOperators) {
  for (const int64_t count : {1, 2, 5, 12}) EXPECT_EQ(left(loop(count)), 0) << count;
  EXPECT_EQ(left(loop(5, 60)), 0);
}

TEST(UnrollLoops, LongOnesStay) {
  EXPECT_EQ(left(loop(0)), 1);
  EXPECT_EQ(left(loop(200)), 1);
  EXPECT_EQ(left(loop(8, 60)), 1);
}

TEST(UnrollLoops, ThoseThatMoveOrAddUpMuchStay) {
  EXPECT_EQ(left(loop(5, 1, "  v = f32[100] reverse(n0), dimensions={0}\n")), 1);
  EXPECT_EQ(left(loop(5, 1, "  v = f32[100] sort(n0), dimensions={0}, to_apply=less\n")
                     .insert(11,
                             "\nless {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT l = pred[] "
                             "compare(p, q), direction=LT\n}\n")),
            1);
}

TEST(UnrollLoops, InLoops) {
  const auto nested = [](int64_t inner, int64_t outer) {
    return fmt::format(R"(HloModule m
inner_condition {{
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({})
  ROOT c = pred[] compare(i, n), direction=LT
}}
inner_body {{
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  y = f32[8] cosine(x)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[8]) tuple(j, y)
}}
condition {{
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({})
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  zero = s32[] constant(0)
  state = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(state), condition=inner_condition, body=inner_body
  y = f32[8] get-tuple-element(w), index=1
  z = f32[8] add(x, y)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[8]) tuple(j, z)
}}
ENTRY e {{
  x = f32[8] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(s), condition=condition, body=body
  ROOT y = f32[8] get-tuple-element(w), index=1
}}
)",
                       inner, outer);
  };
  EXPECT_EQ(left(nested(3, 7)), 0);
  EXPECT_EQ(left(nested(3, 100)), 1) << "the inner loop is written out in the outer one";
  EXPECT_EQ(left(nested(300, 2)), 2);
}

TEST(UnrollLoops, AModuleDoesNotGrowWithoutBounds) {
  // Each has 5 × 62 operators, of which 2^14 are 52 loops' worth.
  std::string text = loop(5, 59);
  const size_t entry = text.find("ENTRY");
  text = text.substr(0, entry) + R"(ENTRY e {
  x.0 = f32[100] parameter(0)
  a = f32[4] parameter(1)
  b = f32[4] constant({1, 2, 3, 4})
  i = s32[] constant(0)
)";
  for (int k = 1; k <= 60; ++k) {
    text += fmt::format(
        "  s.{1} = (s32[], f32[100], f32[4], f32[4]) tuple(i, x.{0}, a, b)\n  w.{1} = (s32[], f32[100], f32[4], "
        "f32[4]) while(s.{1}), condition=condition, body=body\n  {2}x.{1} = f32[100] get-tuple-element(w.{1}), "
        "index=1\n",
        k - 1, k, k == 60 ? "ROOT " : "");
  }
  const int64_t stay = left(text + "}\n");
  EXPECT_GT(stay, 0);
  EXPECT_LT(stay, 20);
}

}  // namespace
}  // namespace strata::hlo
