#include "hlo/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hlo/compute.h"
#include "hlo/small_float.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

/// Parses values like "s8[2] {1, 2}".
Literal value(const std::string& text) {
  auto literal = parse_value(text);
  EXPECT_TRUE(literal) << literal.error().to_string();
  return literal ? *literal : Literal();
}

constexpr const char* kComputations = R"(
plus { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
plus_s32 { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
plus_bf16 { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT r = bf16[] add(a, b) }
second { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
slow { a = f32[] parameter(0) b = f32[] parameter(1)
  c = f32[] multiply(a, b) d = f32[] add(a, b) ROOT r = f32[] add(c, d) }
looping {
  a = f32[] parameter(0) b = f32[] parameter(1) t = (f32[], f32[]) tuple(a, b)
  w = (f32[], f32[]) while(t), condition=below, body=doubled ROOT r = f32[] get-tuple-element(w), index=0
}
below { t = (f32[], f32[]) parameter(0) a = f32[] get-tuple-element(t), index=0
  b = f32[] get-tuple-element(t), index=1 ROOT r = pred[] compare(a, b), direction=LT }
doubled { t = (f32[], f32[]) parameter(0) a = f32[] get-tuple-element(t), index=0
  b = f32[] get-tuple-element(t), index=1 c = f32[] add(a, a) ROOT r = (f32[], f32[]) tuple(c, b) }
greater { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GT }
tens { a = s32[] parameter(0) b = s32[] parameter(1) ten = s32[] constant(10)
  c = s32[] divide(a, ten) d = s32[] divide(b, ten) ROOT r = pred[] compare(c, d), direction=LT }
)";

/// Runs instructions over parameters p0, p1 … of the values' shapes; the last one is the result.
std::string run(const std::string& instructions, const std::vector<std::string>& arguments = {}) {
  std::string text = "HloModule m\n" + std::string(kComputations) + "ENTRY main {\n";
  std::vector<Literal> literals;
  for (size_t i = 0; i < arguments.size(); ++i) {
    literals.push_back(value(arguments[i]));
    text += fmt::format("p{} = {} parameter({})\n", i, to_string(literals[i].shape()), i);
  }
  const auto module = parse_module(text + instructions + "\n}\n");
  if (!module) return module.error().to_string();
  const auto result = evaluate(**module, literals);
  return result ? print(*result) : result.error().to_string();
}

/// An operator over whole arrays of the same type.
std::string apply(const std::string& opcode, const std::string& a, const std::string& b = "") {
  const std::string shape = to_string(value(a).shape());
  return b.empty() ? run(fmt::format("r = {} {}(p0)", shape, opcode), {a})
                   : run(fmt::format("r = {} {}(p0, p1)", shape, opcode), {a, b});
}

TEST(HloIntegers, DivideAsXlaDefines) {
  EXPECT_EQ(apply("divide", "s8[4] {-128, 7, -7, 5}", "s8[4] {-1, 0, 2, -3}"), "{-128, -1, -3, -1}");
  EXPECT_EQ(apply("remainder", "s8[4] {-128, 7, -7, 5}", "s8[4] {-1, 0, 2, -3}"), "{0, 7, -1, 2}");
  EXPECT_EQ(apply("divide", "s64[2] {-9223372036854775808, 1}", "s64[2] {-1, 0}"), "{-9223372036854775808, -1}");
  EXPECT_EQ(apply("divide", "u8[2] {200, 9}", "u8[2] {0, 2}"), "{255, 4}");
  EXPECT_EQ(apply("remainder", "u8[2] {200, 9}", "u8[2] {0, 2}"), "{200, 1}");
}

TEST(HloIntegers, WrapAround) {
  EXPECT_EQ(apply("add", "s8[2] {127, -128}", "s8[2] {1, -1}"), "{-128, 127}");
  EXPECT_EQ(apply("multiply", "u4[2] {15, 7}", "u4[2] {15, 3}"), "{1, 5}");
  EXPECT_EQ(apply("negate", "s4[2] {-8, 3}"), "{-8, -3}");
  EXPECT_EQ(apply("abs", "s8[2] {-128, -5}"), "{-128, 5}");
  EXPECT_EQ(apply("power", "s32[4] {3, -1, 2, -1}", "s32[4] {4, -3, -1, 2}"), "{81, -1, 0, 1}");
  EXPECT_EQ(apply("mulhi", "s8[2] {100, -100}", "s8[2] {100, 100}"), "{39, -40}");
}

TEST(HloIntegers, ShiftPastTheirWidth) {
  EXPECT_EQ(apply("shift-left", "s8[4] {1, 1, 1, 3}", "s8[4] {7, 8, -1, 6}"), "{-128, 0, 0, -64}");
  EXPECT_EQ(apply("shift-right-arithmetic", "s8[3] {-128, -128, 127}", "s8[3] {7, 100, -1}"), "{-1, -1, 0}");
  EXPECT_EQ(apply("shift-right-logical", "s8[3] {-1, -1, -1}", "s8[3] {7, 8, 0}"), "{1, 0, -1}");
  EXPECT_EQ(apply("shift-right-arithmetic", "u8[2] {200, 100}", "u8[2] {9, 1}"), "{255, 50}");
}

TEST(HloIntegers, CountBits) {
  EXPECT_EQ(apply("popcnt", "s8[3] {-1, 0, 5}"), "{8, 0, 2}");
  EXPECT_EQ(apply("count-leading-zeros", "s4[3] {1, 0, -1}"), "{3, 4, 0}");
  EXPECT_EQ(apply("not", "pred[2] {true, false}"), "{false, true}");
  EXPECT_EQ(apply("not", "u4[1] {5}"), "{10}");
  EXPECT_EQ(apply("add", "pred[2] {true, true}", "pred[2] {true, false}"), "{true, true}");
}

TEST(HloFloats, HaveNanAndSignedZero) {
  EXPECT_EQ(apply("maximum", "f32[3] {nan, 1, -inf}", "f32[3] {1, nan, 2}"), "{nan, nan, 2}");
  EXPECT_EQ(apply("sign", "f32[4] {-0, nan, -3, inf}"), "{-0, nan, -1, 1}");
  EXPECT_EQ(apply("round-nearest-even", "f32[4] {0.5, 1.5, 2.5, -0.5}"), "{0, 2, 2, -0}");
  EXPECT_EQ(apply("round-nearest-afz", "f32[4] {0.5, 1.5, 2.5, -0.5}"), "{1, 2, 3, -1}");
  EXPECT_EQ(apply("remainder", "f32[3] {-7, 7, 5}", "f32[3] {3, -3, inf}"), "{-1, 1, 5}");
  EXPECT_EQ(run("r = f32[3] clamp(p0, p1, p2)", {"f32[] 0", "f32[3] {-1, nan, 9}", "f32[3] {1, 1, 2}"}), "{0, nan, 2}");
}

TEST(HloFloats, RoundEachResultToItsType) {
  EXPECT_EQ(apply("add", "bf16[2] {256, 1}", "bf16[2] {1, 0.00390625}"), "{256, 1}");
  EXPECT_EQ(apply("multiply", "f16[2] {60000, 6e-8}", "f16[2] {2, 0.25}"), "{inf, 0}");
  EXPECT_EQ(apply("add", "f8e4m3fn[2] {448, 16}", "f8e4m3fn[2] {448, 1}"), "{nan, 16}");
  EXPECT_EQ(apply("add", "f8e5m2[2] {57344, 8}", "f8e5m2[2] {57344, 1}"), "{inf, 8}");
}

TEST(HloCompare, KnowsBothOrders) {
  const std::vector<std::string> values{"f32[4] {nan, -0, -nan, 1}", "f32[4] {1, 0, -inf, nan}"};
  EXPECT_EQ(run("r = pred[4] compare(p0, p1), direction=LT", values), "{false, false, false, false}");
  EXPECT_EQ(run("r = pred[4] compare(p0, p1), direction=NE", values), "{true, false, true, true}");
  EXPECT_EQ(run("r = pred[4] compare(p0, p1), direction=LT, type=TOTALORDER", values), "{false, true, true, true}");
  EXPECT_EQ(run("r = pred[2] compare(p0, p1), direction=EQ", {"c64[2] {(1, 2), (1, 2)}", "c64[2] {(1, 2), (1, 3)}"}),
            "{true, false}");
}

TEST(HloConvert, SaturatesAndTruncates) {
  const std::string floats = "f32[7] {-1.9, 1.9, 300, -300, nan, inf, 1e20}";
  EXPECT_EQ(run("r = s8[7] convert(p0)", {floats}), "{-1, 1, 127, -128, 0, 127, 127}");
  EXPECT_EQ(run("r = u8[7] convert(p0)", {floats}), "{0, 1, 255, 0, 0, 255, 255}");
  EXPECT_EQ(run("r = s64[7] convert(p0)", {floats}), "{-1, 1, 300, -300, 0, 9223372036854775807, 9223372036854775807}");
  EXPECT_EQ(run("r = pred[3] convert(p0)", {"f32[3] {nan, 0.1, -0}"}), "{true, true, false}");
  EXPECT_EQ(run("r = s8[2] convert(p0)", {"s32[2] {300, -129}"}), "{44, 127}");
  EXPECT_EQ(run("r = f32[1] convert(p0)", {"c64[1] {(2, 3)}"}), "{2}");
  EXPECT_EQ(run("r = f32[2] convert(p0)", {"s64[2] {9007199791611905, 16777217}"}), "{9007200000000000, 16777216}");
}

TEST(HloConvert, CastsBitsBetweenWidths) {
  EXPECT_EQ(run("r = s32[1] bitcast-convert(p0)", {"f32[1] {1}"}), "{1065353216}");
  EXPECT_EQ(run("r = u8[1,4] bitcast-convert(p0)", {"u32[1] {67305985}"}), "{ {1, 2, 3, 4} }");
  EXPECT_EQ(run("r = u32[1] bitcast-convert(p0)", {"u8[1,4] {{1, 2, 3, 4}}"}), "{67305985}");
  EXPECT_EQ(run("r = s4[1,2] bitcast-convert(p0)", {"u8[1] {143}"}), "{ {-1, -8} }");
  EXPECT_EQ(run("r = f32[3] reduce-precision(p0), exponent_bits=5, mantissa_bits=10", {"f32[3] {70000, 1e-6, 1.0004}"}),
            "{inf, 0, 1}");
  EXPECT_EQ(
      run("r = f8e4m3fn[4] reduce-precision(p0), exponent_bits=3, mantissa_bits=0", {"f8e4m3fn[4] {12, 13, 200, nan}"}),
      "{8, nan, nan, nan}");
}

TEST(HloMovement, PadsInsideAndAway) {
  EXPECT_EQ(run("r = f32[6] pad(p0, p1), padding=1_0_1", {"f32[3] {1, 2, 3}", "f32[] 9"}), "{9, 1, 9, 2, 9, 3}");
  EXPECT_EQ(run("r = f32[3] pad(p0, p1), padding=-1_-1_1", {"f32[3] {1, 2, 3}", "f32[] 9"}), "{9, 2, 9}");
  EXPECT_EQ(run("r = f32[1] pad(p0, p1), padding=-4_2", {"f32[3] {1, 2, 3}", "f32[] 9"}), "{9}");
  EXPECT_EQ(run("r = f32[2] pad(p0, p1), padding=1_1", {"f32[0] {}", "f32[] 9"}), "{9, 9}");
}

TEST(HloMovement, ClampsDynamicIndices) {
  const std::string array = "s32[4] {1, 2, 3, 4}";
  EXPECT_EQ(run("r = s32[2] dynamic-slice(p0, p1), dynamic_slice_sizes={2}", {array, "s32[] 9"}), "{3, 4}");
  EXPECT_EQ(run("r = s32[2] dynamic-slice(p0, p1), dynamic_slice_sizes={2}", {array, "s32[] -9"}), "{1, 2}");
  EXPECT_EQ(run("r = s32[2] dynamic-slice(p0, p1), dynamic_slice_sizes={2}", {array, "u64[] 18446744073709551615"}),
            "{3, 4}");
  EXPECT_EQ(run("r = s32[4] dynamic-update-slice(p0, p1, p2)", {array, "s32[2] {8, 9}", "s32[] 3"}), "{1, 2, 8, 9}");
  // The operand is used again, so that its memory must not be written.
  EXPECT_EQ(
      run("u = s32[4] dynamic-update-slice(p0, p1, p2)\nr = s32[4] add(u, p0)", {array, "s32[2] {8, 9}", "s32[] 0"}),
      "{9, 11, 6, 8}");
}

TEST(HloMovement, BitcastsKeepMemoryNotIndices) {
  EXPECT_EQ(run("t = s32[2,3]{0,1} copy(p0)\nr = s32[6] bitcast(t)", {"s32[2,3] {{1, 2, 3}, {4, 5, 6}}"}),
            "{1, 4, 2, 5, 3, 6}");
  EXPECT_EQ(run("r = s32[3,2]{0,1} bitcast(p0)", {"s32[2,3] {{1, 2, 3}, {4, 5, 6}}"}), "{ {1, 4}, {2, 5}, {3, 6} }");
  EXPECT_EQ(run("r = s32[3,2] reshape(p0)", {"s32[2,3] {{1, 2, 3}, {4, 5, 6}}"}), "{ {1, 2}, {3, 4}, {5, 6} }");
}

TEST(HloReduce, SumsFloatsOfFewBitsExactly) {
  // 300 ones in bf16 one by one would stop at 256.
  EXPECT_EQ(run("o = bf16[] constant(1)\nb = bf16[300] broadcast(o), dimensions={}\nz = bf16[] constant(0)\n"
                "r = bf16[] reduce(b, z), dimensions={0}, to_apply=plus_bf16"),
            "300");
  EXPECT_EQ(run("z = f32[] constant(5)\nr = f32[2] reduce(p0, z), dimensions={1}, to_apply=plus", {"f32[2,0] {}"}),
            "{5, 5}");
}

TEST(HloReduce, RunsAnyComputationInOrder) {
  EXPECT_EQ(run("z = f32[] constant(1)\nr = f32[] reduce(p0, z), dimensions={0}, to_apply=slow", {"f32[3] {1, 2, 3}"}),
            "47");
  EXPECT_EQ(run("z = f32[] constant(1)\nr = f32[2] reduce(p0, z), dimensions={0}, to_apply=second",
                {"f32[2,2] {{1, 2}, {3, 4}}"}),
            "{3, 4}");
  // A computation with a loop inside, which cannot run on many elements at once.
  EXPECT_EQ(run("z = f32[] constant(1)\nr = f32[2] reduce(p0, z), dimensions={1}, to_apply=looping",
                {"f32[2,2] {{3, 5}, {9, 1}}"}),
            "{8, 16}");
}

TEST(HloReduce, WindowsSkipWhatIsOutside) {
  EXPECT_EQ(run("z = f32[] constant(0)\nr = f32[4] reduce-window(p0, z), window={size=2 pad=1_0}, to_apply=plus",
                {"f32[4] {1, 2, 3, 4}"}),
            "{1, 3, 5, 7}");
  EXPECT_EQ(run("z = f32[] constant(0)\nr = f32[3] reduce-window(p0, z), window={size=2 stride=2 lhs_dilate=2 "
                "rhs_dilate=2}, to_apply=plus",
                {"f32[4] {1, 2, 3, 4}"}),
            "{3, 5, 7}");
}

TEST(HloScatter, SkipsWindowsThatAreNotInside) {
  const std::string how =
      "update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
      "index_vector_dim=1, to_apply=";
  const std::vector<std::string> arguments{"f32[4] {0, 0, 0, 0}", "s32[4] {0, 2, 3, -1}",
                                           "f32[4,2] {{1, 2}, {3, 4}, {5, 6}, {7, 8}}"};
  EXPECT_EQ(run("r = f32[4] scatter(p0, p1, p2), " + how + "plus", arguments), "{1, 2, 3, 4}");
  EXPECT_EQ(run("r = f32[4] scatter(p0, p1, p2), " + how + "slow",
                {"f32[4] {1, 0, 0, 0}", "s32[2] {0, 0}", "f32[2,2] {{1, 2}, {3, 4}}"}),
            "{15, 14, 0, 0}");
}

TEST(HloScatter, SelectsThenAdds) {
  EXPECT_EQ(run("z = f32[] constant(0)\nr = f32[5] select-and-scatter(p0, p1, z), window={size=3 stride=2}, "
                "select=greater, scatter=plus",
                {"f32[5] {1, 2, 9, 3, 4}", "f32[2] {10, 20}"}),
            "{0, 0, 30, 0, 0}");
}

TEST(HloSort, IsStable) {
  EXPECT_EQ(run("r = s32[7] sort(p0), dimensions={0}, to_apply=tens", {"s32[7] {25, 11, 29, 3, 19, 21, 10}"}),
            "{3, 11, 19, 10, 25, 29, 21}");
  EXPECT_EQ(run("r = (f32[3], s32[3]) topk(p0), k=3, largest=true", {"f32[5] {1, nan, 7, 7, -inf}"}),
            "({nan, 7, 7}, {1, 2, 3})");
}

TEST(HloControl, BranchesThatDoNotExistAreTheLast) {
  const std::string how =
      "r = f32[] conditional(p0, p1, p2), branch_computations={one, two}\n}\n"
      "one { ROOT a = f32[] parameter(0) }\ntwo { a = f32[] parameter(0) ROOT b = f32[] negate(a) ";
  for (const auto& [selector, result] : {std::pair{"s32[] 0", "5"},
                                         {"s32[] 1", "-6"},
                                         {"s32[] -1", "-6"},
                                         {"s32[] 7", "-6"},
                                         {"pred[] true", "5"},
                                         {"pred[] false", "-6"}}) {
    EXPECT_EQ(run(how, {selector, "f32[] 5", "f32[] 6"}), result) << selector;
  }
}

TEST(HloDot, AccumulatesIntegersModuloTheirWidth) {
  EXPECT_EQ(run("r = s8[] dot(p0, p1), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
                {"s8[2] {100, 100}", "s8[2] {2, 2}"}),
            "-112");
  EXPECT_EQ(run("r = s32[] dot(p0, p1), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
                {"s8[2] {100, 100}", "u8[2] {200, 2}"}),
            "20200");
  EXPECT_EQ(run("r = f32[] dot(p0, p1), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
                {"f32[2] {0.5, 100}", "s64[2] {200, 2}"}),
            "300");
}

/// Every code is the value that rounds to it, and between two neighbours the even code wins.
TEST(HloSmallFloat, RoundsToNearestEven) {
  for (int t = static_cast<int>(ElementType::F4E2M1FN); t <= static_cast<int>(ElementType::BF16); ++t) {
    const auto type = static_cast<ElementType>(t);
    if (type == ElementType::F8E8M0FNU) continue;
    const auto table = decode_table(type);
    const size_t half = table.size() / 2;
    for (size_t code = 0; code < table.size(); ++code) {
      EXPECT_TRUE(std::isnan(table[code]) || encode(type, table[code]) == code) << name(type) << " " << code;
    }
    for (size_t code = 0; code + 1 < half && std::isfinite(table[code + 1]); ++code) {
      const double low = table[code];
      const double high = table[code + 1];
      const size_t even = code % 2 == 0 ? code : code + 1;
      EXPECT_EQ(encode(type, (low + high) / 2), even) << name(type) << " " << low;
      EXPECT_EQ(encode(type, low + (high - low) * 0.499), code) << name(type) << " " << low;
      EXPECT_EQ(encode(type, low + (high - low) * 0.501), code + 1) << name(type) << " " << low;
    }
  }
}

TEST(HloCustomCall, AnnotationsPassTheirOperandOn) {
  EXPECT_EQ(
      run("r = f32[2] custom-call(p0), custom_call_target=\"Sharding\", sharding={replicated}", {"f32[2] {1, 2}"}),
      "{1, 2}");
  EXPECT_EQ(run("r = (f32[2], s32[2]) custom-call(p0), custom_call_target=\"TopK\"", {"f32[3] {1, 3, 2}"}),
            "({3, 2}, {1, 2})");
}

TEST(HloCustomCall, WhatNothingRunsIsFoundWithoutArguments) {
  const auto refused = [](const std::string& root) {
    const auto module = parse_module("HloModule m\nENTRY f {\n  x = f32[3] parameter(0)\n  ROOT " + root + "\n}\n");
    EXPECT_TRUE(module) << module.error().to_string();
    const auto checked = check_evaluable(**module, (*module)->entry_computation());
    return checked ? std::string() : checked.error().to_string();
  };
  EXPECT_EQ(refused("r = f32[3] custom-call(x), custom_call_target=\"Sharding\""), "");
  EXPECT_EQ(refused("r = (f32[2], s32[2]) custom-call(x), custom_call_target=\"TopK\""), "");
  EXPECT_THAT(refused("r = f32[3] custom-call(x), custom_call_target=\"foo\""),
              testing::HasSubstr("the interpreter does not support custom-call to \"foo\""));
  const std::string branch =
      "HloModule m\nnever { y = f32[] parameter(0)\n ROOT z = f32[] rng(y, y) }\n"
      "ENTRY f { x = f32[] parameter(0)\n p = pred[] parameter(1)\n"
      " ROOT r = f32[] conditional(p, x, x), true_computation=never, false_computation=never }";
  const auto module = parse_module(branch);
  ASSERT_TRUE(module) << module.error().to_string();
  const auto checked = check_evaluable(**module, (*module)->entry_computation());
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().to_string(), testing::HasSubstr("does not support rng"));
  EXPECT_THAT(refused("r = f32[3] all-reduce(x)"), testing::HasSubstr("4:8: error: the interpreter does not support"));
}

}  // namespace
}  // namespace strata::hlo
