#include "emitters/lax/associative.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hlo/text.h"

namespace strata::emitters {
namespace {

/// Of k arrays of these types: lines that use a0 …, b0 … and give r0 ….
bool associative(const std::vector<std::string>& types, const std::vector<std::string>& lines) {
  std::string text = "HloModule m\nENTRY f {\n";
  for (size_t i = 0; i < 2 * types.size(); ++i) {
    const size_t own = i % types.size();
    text += fmt::format("  {}{} = {}[] parameter({})\n", i < types.size() ? "a" : "b", own, types[own], i);
  }
  for (const std::string& line : lines) text += "  " + line + "\n";
  std::vector<std::string> shapes, names;
  for (size_t i = 0; i < types.size(); ++i) {
    shapes.push_back(types[i] + "[]");
    names.push_back(fmt::format("r{}", i));
  }
  text += fmt::format("  ROOT r = ({}) tuple({})\n}}\n", fmt::join(shapes, ", "), fmt::join(names, ", "));
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  return module && is_associative((*module)->entry_computation());
}

TEST(Associative, OperatorsOfTheirOwn) {
  EXPECT_TRUE(associative({"f32", "s32"}, {"r0 = f32[] add(a0, b0)", "r1 = s32[] minimum(b1, a1)"}));
  EXPECT_FALSE(associative({"f32"}, {"r0 = f32[] subtract(a0, b0)"}));
  EXPECT_FALSE(associative({"s32"}, {"r0 = s32[] shift-left(a0, b0)"}));
}

TEST(Associative, LinearRecurrences) {
  for (const char* type : {"f32", "bf16", "f64", "s32", "u8", "c64"}) {
    const std::vector<std::string> lines{fmt::format("r0 = {}[] multiply(a0, b0)", type),
                                         fmt::format("t = {}[] multiply(a1, b0)", type),
                                         fmt::format("r1 = {}[] add(t, b1)", type)};
    EXPECT_TRUE(associative({type, type}, lines)) << type;
    std::vector<std::string> wrong = lines;
    wrong[1] = fmt::format("t = {}[] multiply(a1, a0)", type);
    EXPECT_FALSE(associative({type, type}, wrong)) << type;
  }
}

TEST(Associative, TropicalRecurrences) {
  EXPECT_TRUE(
      associative({"f32", "f32"}, {"r0 = f32[] add(a0, b0)", "t = f32[] add(a1, b0)", "r1 = f32[] maximum(t, b1)"}));
  EXPECT_TRUE(
      associative({"f32", "f32"}, {"r0 = f32[] add(a0, b0)", "t = f32[] add(a1, b0)", "r1 = f32[] minimum(t, b1)"}));
  // Integers wrap round.
  EXPECT_FALSE(
      associative({"s32", "s32"}, {"r0 = s32[] add(a0, b0)", "t = s32[] add(a1, b0)", "r1 = s32[] maximum(t, b1)"}));
}

TEST(Associative, GatesInExponents) {
  EXPECT_TRUE(associative({"f32", "f32"}, {"r0 = f32[] add(a0, b0)", "e = f32[] exponential(b0)",
                                           "t = f32[] multiply(a1, e)", "r1 = f32[] add(t, b1)"}));
}

TEST(Associative, Segments) {
  EXPECT_TRUE(associative({"pred", "f32"},
                          {"r0 = pred[] or(a0, b0)", "s = f32[] add(a1, b1)", "r1 = f32[] select(b0, b1, s)"}));
  EXPECT_FALSE(associative({"pred", "f32"},
                           {"r0 = pred[] and(a0, b0)", "s = f32[] add(a1, b1)", "r1 = f32[] select(b0, b1, s)"}));
  EXPECT_FALSE(associative({"pred", "f32"},
                           {"r0 = pred[] or(a0, b0)", "s = f32[] add(a1, b1)", "r1 = f32[] select(a0, b1, s)"}));
}

TEST(Associative, ConstantsCount) {
  const std::vector<std::string> two{"k = f32[] constant(2)", "s = f32[] add(a0, b0)", "r0 = f32[] add(s, k)"};
  EXPECT_TRUE(associative({"f32"}, two));
  EXPECT_FALSE(associative({"f32"}, {"k = f32[] constant(2)", "s = f32[] multiply(a0, k)", "r0 = f32[] add(s, b0)"}));
}

}  // namespace
}  // namespace strata::emitters
