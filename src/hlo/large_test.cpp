// Texts that are large, deep or doubling: each would not end if anything about it took time that is not nearly linear.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/inline_calls.h"
#include "hlo/text.h"
#include "hlo/verify.h"

namespace strata::hlo {
namespace {

using testing::HasSubstr;

ModulePtr parsed(const std::string& text) {
  auto module = parse_module(text);
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  return module ? *module : nullptr;
}

std::string value_of(const std::string& text, const std::vector<Literal>& arguments = {}) {
  const auto module = parse_module(text);
  if (!module) return module.error().to_string();
  const auto value = evaluate(**module, arguments);
  return value ? print(*value) : value.error().to_string();
}

TEST(HloLarge, LongChains) {
  constexpr int kCount = 200000;
  std::string text = "ENTRY e {\n  x0 = s32[] constant(3)\n";
  for (int i = 0; i < kCount; ++i) text += fmt::format("  x{} = s32[] negate(x{})\n", i + 1, i);
  const ModulePtr module = parsed(text + "}\n");
  ASSERT_TRUE(module);
  EXPECT_TRUE(print(*parsed(print(*module))) == print(*module));
  EXPECT_EQ(print(*evaluate(*module, {})), "3");
  EXPECT_EQ(inline_calls(*module).entry_computation().instructions.size(), kCount + 1);
}

TEST(HloLarge, NestedTuples) {
  const auto nested = [](int depth, bool twice) {
    std::string text = "ENTRY e {\n  t0 = s32[] constant(3)\n";
    for (int i = 0; i < depth; ++i)
      text += fmt::format("  t{0} = tuple(t{1}{2})\n", i + 1, i, twice ? fmt::format(", t{}", i) : "");
    for (int i = depth; i-- > 0;)
      text += fmt::format("  u{0} = get-tuple-element({1}{2}), index=0\n", i, i + 1 == depth ? "t" : "u", i + 1);
    return text + "}\n";
  };
  EXPECT_EQ(value_of(nested(900, false)), "3");
  const ModulePtr module = parsed(nested(300, false));
  ASSERT_TRUE(module);
  EXPECT_TRUE(print(*parsed(print(*module))) == print(*module));
  EXPECT_THAT(value_of(nested(100000, false)), HasSubstr("tuples are nested too deeply"));
  EXPECT_EQ(value_of(nested(20, true)), "3");
  EXPECT_THAT(value_of(nested(60, true)), HasSubstr("2^22 elements or more"));
}

TEST(HloLarge, WideTuples) {
  constexpr int kCount = 20000;
  std::string text = "ENTRY e {\n  x = s32[] constant(1)\n  t = tuple(x";
  for (int i = 1; i < kCount; ++i) text += ", x";
  text += ")\n  b = opt-barrier(t)\n  s0 = s32[] constant(0)\n";
  for (int i = 0; i < kCount; ++i)
    text += fmt::format("  g{0} = get-tuple-element(b), index={0}\n  s{1} = add(s{0}, g{0})\n", i, i + 1);
  const ModulePtr module = parsed(text + "}\n");
  ASSERT_TRUE(module);
  EXPECT_EQ(print(*evaluate(*module, {})), "20000");
  const Module flat = inline_calls(*module);
  EXPECT_TRUE(verify(flat));
  EXPECT_EQ(print(*evaluate(flat, {})), "20000");
}

/// Each computation calls the one before it twice: on the same value, or on what the first call returned.
std::string calls_of_calls(int depth, bool chained, const std::string& entry) {
  std::string text = "f0 { p = s32[] parameter(0) one = s32[] constant(1) ROOT r = s32[] add(p, one) }\n";
  for (int i = 1; i <= depth; ++i) {
    text += fmt::format(
        "f{0} {{ p = s32[] parameter(0) a = s32[] call(p), to_apply=f{1} b = s32[] call({2}), to_apply=f{1}\n"
        "  ROOT r = s32[] {3} }}\n",
        i, i - 1, chained ? "a" : "p", chained ? "subtract(b, p)" : "subtract(a, b)");
  }
  return text + fmt::format(fmt::runtime(entry), fmt::arg("f", fmt::format("f{}", depth)));
}

TEST(HloLarge, CallsOfCalls) {
  const char* entry = "ENTRY e {{ x = s32[] constant(5) ROOT r = s32[] call(x), to_apply={f} }}\n";
  EXPECT_EQ(value_of(calls_of_calls(150, false, entry)), "0");
  const ModulePtr same = parsed(calls_of_calls(150, false, entry));
  ASSERT_TRUE(same);
  EXPECT_TRUE(check_calls(*same));
  const Module flat = inline_calls(*same);
  EXPECT_LT(flat.entry_computation().instructions.size(), 500);
  EXPECT_EQ(print(*evaluate(flat, {})), "0");
  // As functions of elements too.
  const char* mapped =
      "ENTRY e {{ x = s32[4] iota(), iota_dimension=0 ROOT r = s32[4] map(x), dimensions={{0}}, to_apply={f} }}\n";
  EXPECT_EQ(value_of(calls_of_calls(150, false, mapped)), "{0, 0, 0, 0}");
  // What is really 2^n calls is refused, and is shown all the same.
  // f(x) = x + 1 becomes (x + 2) - x = 2, then 2 - x, then x - x.
  EXPECT_EQ(value_of(calls_of_calls(1, true, entry)), "2");
  EXPECT_EQ(value_of(calls_of_calls(2, true, entry)), "-3");
  const std::string doubling = calls_of_calls(60, true, entry);
  EXPECT_THAT(value_of(doubling), HasSubstr("calls more than 2^20 instructions with all calls written out"));
  EXPECT_EQ(print(*parsed(print(*parsed(doubling)))), print(*parsed(doubling)));
}

TEST(HloLarge, ManyCallsOfOne) {
  constexpr int kCount = 20000;
  std::string text =
      "f { p = s32[] parameter(0) one = s32[] constant(1) ROOT r = s32[] add(p, one) }\n"
      "ENTRY e {\n  x0 = s32[] constant(0)\n";
  for (int i = 0; i < kCount; ++i) text += fmt::format("  x{} = call(x{}), to_apply=f\n", i + 1, i);
  const ModulePtr module = parsed(text + "}\n");
  ASSERT_TRUE(module);
  EXPECT_EQ(print(*evaluate(inline_calls(*module), {})), "20000");
}

TEST(HloLarge, ManyParameters) {
  constexpr int kCount = 20000;
  std::string text = "ENTRY e {\n";
  for (int i = 0; i < kCount; ++i) text += fmt::format("  p{0} = s32[] parameter({0})\n", i);
  text += "  s0 = s32[] constant(0)\n";
  for (int i = 0; i < kCount; ++i) text += fmt::format("  s{0} = add(s{1}, p{1})\n", i + 1, i);
  const ModulePtr module = parsed(text + "}\n");
  ASSERT_TRUE(module);
  const Module flat = inline_calls(*module);
  EXPECT_EQ(flat.entry_computation().parameters.size(), kCount);
  Literal one(array_shape(ElementType::S32, {}));
  one.set<int64_t>(0, 1);
  EXPECT_EQ(print(*evaluate(flat, std::vector<Literal>(kCount, one))), "20000");
}

}  // namespace
}  // namespace strata::hlo
