#include "emitters/fusion/factor_sums.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::emitters {
namespace {

/// Sums of x, y and factors over dimensions 0 and 2 of [a,b,c]; `sums` defines s0, s1 and so on, `results` of them.
std::string text_of(std::string_view type, int64_t a, int64_t b, int64_t c, std::string_view sums, int results) {
  std::string names, types;
  for (int i = 0; i < results; ++i) {
    names += fmt::format("{}s{}", i == 0 ? "" : ", ", i);
    types += fmt::format("{}{}[{}]", i == 0 ? "" : ", ", type, b);
  }
  std::string text = R"(HloModule m
add {
  l = TYPE[] parameter(0)
  m = TYPE[] parameter(1)
  ROOT r = TYPE[] add(l, m)
}
max {
  l = TYPE[] parameter(0)
  m = TYPE[] parameter(1)
  ROOT r = TYPE[] maximum(l, m)
}
ENTRY e {
  x = ALL parameter(0)
  y = ALL parameter(1)
  w = KEPT parameter(2)
  v = KEPT parameter(3)
  k = TYPE[] parameter(4)
  z = TYPE[] constant(0)
  one = TYPE[] constant(1)
  ws = ALL broadcast(w), dimensions={1}
  vs = ALL broadcast(v), dimensions={1}
  ks = ALL broadcast(k), dimensions={}
)" + std::string(sums) +
                     fmt::format("  ROOT t = ({}) tuple({})\n}}\n", types, names);
  const std::pair<std::string_view, std::string> words[] = {{"ALL", fmt::format("TYPE[{},{},{}]", a, b, c)},
                                                            {"KEPT", fmt::format("TYPE[{}]", b)},
                                                            {"TYPE", std::string(type)}};
  for (const auto& [word, meaning] : words) {
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos;) text.replace(at, word.size(), meaning);
  }
  return text;
}

int64_t reductions(const hlo::Module& module) {
  const auto& all = module.entry_computation().instructions;
  return std::count_if(all.begin(), all.end(), [](const auto& it) { return it.opcode == hlo::Opcode::Reduce; });
}

constexpr std::string_view kGradients = R"(
  s0 = KEPT reduce(x, z), dimensions={0,2}, to_apply=add
  xw = ALL multiply(x, ws)
  xwv = ALL divide(xw, vs)
  n = ALL negate(xwv)
  s1 = KEPT reduce(n, z), dimensions={0,2}, to_apply=add
  yw = ALL multiply(y, ws)
  a = ALL multiply(xw, y)
  s2 = KEPT reduce(a, z), dimensions={0,2}, to_apply=add
  kx = ALL multiply(ks, x)
  b = ALL multiply(yw, kx)
  s3 = KEPT reduce(b, z), dimensions={2,0}, to_apply=add
  c = ALL multiply(ws, x)
  s4 = KEPT reduce(c, z), dimensions={0,2}, to_apply=add
)";

TEST(FactorSums, ComputeTheSame) {
  uint64_t seed = 0;
  for (const std::string_view type : {"f32", "f64"}) {
    for (const auto& [a, b, c] : {std::tuple(3, 37, 41), std::tuple(65, 5, 1), std::tuple(1, 1, 300)}) {
      const std::string text = text_of(type, a, b, c, kGradients, 5);
      SCOPED_TRACE(text);
      const auto module = hlo::parse_module(text);
      ASSERT_TRUE(module) << module.error().to_string();
      const std::optional<hlo::Module> factored = factor_sums(**module);
      ASSERT_TRUE(factored);
      const hlo::Module& changed = *factored;
      const auto verified = hlo::verify(changed);
      ASSERT_TRUE(verified) << verified.error().to_string() << hlo::print(changed);
      // Of x, and of x·y by either order of dimensions.
      EXPECT_EQ(reductions(changed), 2) << hlo::print(changed);
      const auto arguments = hlo::typical_arguments((*module)->entry_computation(), ++seed);
      const auto expected = hlo::evaluate(**module, arguments);
      ASSERT_TRUE(expected) << expected.error().to_string();
      const auto actual = hlo::evaluate(changed, arguments);
      ASSERT_TRUE(actual) << actual.error().to_string();
      EXPECT_EQ(hlo::difference(*actual, *expected, 256).value_or(""), "");
      const auto program = emit_program(**module);
      ASSERT_TRUE(program) << program.error().to_string();
      const auto run = run_on_cpu(*program, arguments);
      ASSERT_TRUE(run) << run.error().to_string();
      EXPECT_EQ(hlo::difference(*run, *expected, 256).value_or(""), "");
    }
  }
}

TEST(FactorSums, LeaveOthers) {
  // A single sum with factors; factors that change along a summed dimension; from one; maxima; sums that differ by
  // terms; a sum of a sum.
  const std::string_view others[] = {
      "  a = ALL multiply(x, ws)\n  s0 = KEPT reduce(a, z), dimensions={0,2}, to_apply=add\n"
      "  s1 = KEPT reduce(y, z), dimensions={0,2}, to_apply=add\n",
      "  a = ALL multiply(x, y)\n  s0 = KEPT reduce(a, z), dimensions={0,2}, to_apply=add\n"
      "  s1 = KEPT reduce(x, z), dimensions={0,2}, to_apply=add\n",
      "  a = ALL multiply(x, ws)\n  s0 = KEPT reduce(a, one), dimensions={0,2}, to_apply=add\n"
      "  s1 = KEPT reduce(x, one), dimensions={0,2}, to_apply=add\n",
      "  a = ALL multiply(x, ws)\n  s0 = KEPT reduce(a, z), dimensions={0,2}, to_apply=max\n"
      "  s1 = KEPT reduce(x, z), dimensions={0,2}, to_apply=max\n",
      "  a = ALL add(x, ws)\n  s0 = KEPT reduce(a, z), dimensions={0,2}, to_apply=add\n"
      "  s1 = KEPT reduce(x, z), dimensions={0,2}, to_apply=add\n"};
  for (const std::string_view sums : others) {
    const auto module = hlo::parse_module(text_of("f32", 3, 37, 41, sums, 2));
    ASSERT_TRUE(module) << module.error().to_string();
    EXPECT_FALSE(factor_sums(**module)) << sums;
  }
  const auto narrow = hlo::parse_module(text_of("bf16", 3, 37, 41, kGradients, 5));
  ASSERT_TRUE(narrow) << narrow.error().to_string();
  EXPECT_FALSE(factor_sums(**narrow));
}

/// Sums whose factors are made of another sum over as much, and of which the terms are not.
constexpr std::string_view kWaiting = R"(
  s0 = KEPT reduce(x, z), dimensions={0,2}, to_apply=add
  f = KEPT multiply(s0, w)
  fs = ALL broadcast(f), dimensions={1}
  fy = ALL multiply(fs, y)
  n = ALL negate(fy)
  nk = ALL multiply(n, ks)
  s1 = KEPT reduce(nk, z), dimensions={0,2}, to_apply=add
)";

TEST(FactorSums, DoNotWaitForFactors) {
  for (const auto& [a, b, c] : {std::tuple(3, 37, 41), std::tuple(65, 5, 1), std::tuple(300, 7, 40)}) {
    const std::string text = text_of("f32", a, b, c, kWaiting, 2);
    SCOPED_TRACE(text);
    const auto module = hlo::parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string();
    EXPECT_FALSE(factor_sums(**module));
    const std::optional<hlo::Module> factored = factor_waiting_sums(**module);
    ASSERT_TRUE(factored);
    const auto verified = hlo::verify(*factored);
    ASSERT_TRUE(verified) << verified.error().to_string() << hlo::print(*factored);
    const auto& entry = factored->entry_computation();
    for (const hlo::Instruction& it : entry.instructions) {
      if (it.opcode != hlo::Opcode::Reduce) continue;
      EXPECT_EQ(entry[it.operands[0]].opcode, hlo::Opcode::Parameter) << hlo::print(*factored);
    }
    const auto arguments = hlo::typical_arguments((*module)->entry_computation(), static_cast<uint64_t>(a));
    const auto expected = hlo::evaluate(**module, arguments);
    ASSERT_TRUE(expected) << expected.error().to_string();
    const auto actual = hlo::evaluate(*factored, arguments);
    ASSERT_TRUE(actual) << actual.error().to_string();
    EXPECT_EQ(hlo::difference(*actual, *expected, 256).value_or(""), "");
    const auto program = emit_program(**module);
    ASSERT_TRUE(program) << program.error().to_string();
    const auto run = run_on_cpu(*program, arguments);
    ASSERT_TRUE(run) << run.error().to_string();
    EXPECT_EQ(hlo::difference(*run, *expected, 256).value_or(""), "");
  }
}

TEST(FactorSums, WaitForTerms) {
  // Terms that are made of the same sum; factors of none; a factor of a shorter sum.
  const std::string_view others[] = {
      "  s0 = KEPT reduce(x, z), dimensions={0,2}, to_apply=add\n  fs = ALL broadcast(s0), dimensions={1}\n"
      "  d = ALL subtract(y, fs)\n  q = ALL multiply(d, fs)\n"
      "  s1 = KEPT reduce(q, z), dimensions={0,2}, to_apply=add\n",
      "  s0 = KEPT reduce(x, z), dimensions={0,2}, to_apply=add\n  q = ALL multiply(y, ws)\n"
      "  s1 = KEPT reduce(q, z), dimensions={0,2}, to_apply=add\n",
      "  s = TYPE[] reduce(w, z), dimensions={0}, to_apply=add\n  fs = ALL broadcast(s), dimensions={}\n"
      "  s0 = KEPT reduce(x, z), dimensions={0,2}, to_apply=add\n  q = ALL multiply(y, fs)\n"
      "  s1 = KEPT reduce(q, z), dimensions={0,2}, to_apply=add\n"};
  for (const std::string_view sums : others) {
    const auto module = hlo::parse_module(text_of("f32", 3, 70, 41, sums, 2));
    ASSERT_TRUE(module) << module.error().to_string();
    EXPECT_FALSE(factor_waiting_sums(**module)) << sums;
  }
}

}  // namespace
}  // namespace strata::emitters
