// Sorts and top-k on the processor against the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

/// `less` of two numbers, and of as many more arrays as `others` has types.
std::string less(const std::string& type, const std::vector<std::string>& others, const std::string& compare) {
  std::string text = fmt::format("less {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n", type);
  for (size_t i = 0; i < others.size(); ++i) {
    text += fmt::format("  c{0} = {1}[] parameter({2})\n  d{0} = {1}[] parameter({3})\n", i, others[i], 2 * i + 2,
                        2 * i + 3);
  }
  return text + fmt::format("  ROOT r = pred[] compare(a, b), {}\n}}\n", compare);
}

struct Case {
  std::string type = "f32";
  std::string dims = "1000";  ///< of all arrays
  int dimension = 0;
  std::vector<std::string> others{};  ///< types of further arrays, the first one of s32 being places
  std::string compare = "direction=LT, type=TOTALORDER";
  std::string layout = "";  ///< "{0,1}"
};

std::string text_of(const Case& one) {
  std::string text = "HloModule m\n" + less(one.type, one.others, one.compare) + "ENTRY e {\n";
  std::string operands = "x", shapes = fmt::format("{}[{}]{}", one.type, one.dims, one.layout);
  text += fmt::format("  x = {} parameter(0)\n", shapes);
  for (size_t i = 0; i < one.others.size(); ++i) {
    const std::string shape = fmt::format("{}[{}]{}", one.others[i], one.dims, one.layout);
    text += i == 0 && one.others[i] == "s32"
                ? fmt::format("  y{} = {} iota(), iota_dimension={}\n", i, shape, one.dimension)
                : fmt::format("  y{} = {} parameter({})\n", i, shape, i + (one.others[0] == "s32" ? 0 : 1));
    operands += fmt::format(", y{}", i);
    shapes += ", " + shape;
  }
  if (!one.others.empty()) shapes = "(" + shapes + ")";
  return text + fmt::format("  ROOT r = {} sort({}), dimensions={{{}}}, is_stable=true, to_apply=less\n}}\n", shapes,
                            operands, one.dimension);
}

std::string top_k(const std::string& type, const std::string& dims, int64_t length, int64_t k, bool largest = true) {
  return fmt::format(
      "HloModule m\nENTRY e {{\n  x = {0}[{1}{2}] parameter(0)\n  ROOT r = ({0}[{1}{3}], s32[{1}{3}]) topk(x), k={3}, "
      "largest={4}\n}}\n",
      type, dims, length, k, largest);
}

/// What the kernels are, after they have given what the interpreter does, bit by bit.
std::string check(const std::string& text, uint64_t seed = 1) {
  SCOPED_TRACE(text);
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return {};
  const auto program = emit_program(**module);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program) return {};
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), seed);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto actual = run_on_cpu(*program, arguments);
  EXPECT_TRUE(expected) << expected.error().to_string();
  EXPECT_TRUE(actual) << actual.error().to_string();
  if (expected && actual) {
    EXPECT_EQ(hlo::difference(*actual, *expected, 0).value_or(""), "");
  }
  const std::string decision = explain(*program);
  EXPECT_EQ(decision.find("interpreter"), std::string::npos) << decision;
  return decision;
}

std::string check_case(const Case& one) { return check(text_of(one)); }

TEST(Sort, LengthsOfOneRow) {
  for (const int length : {0, 1, 2, 3, 16, 31, 33, 1000, 4097}) {
    check_case({.dims = std::to_string(length)});
    check_case({.dims = std::to_string(length), .others = {"s32"}});
  }
}

TEST(Sort, Types) {
  for (const char* type :
       {"pred", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f8e4m3fn", "bf16", "f16", "f32", "f64"}) {
    check_case({.type = type, .dims = "3,77", .dimension = 1, .others = {"s32"}});
    check_case({.type = type, .dims = "90,3", .others = {type}, .compare = "direction=GT"});
  }
}

TEST(Sort, Dimensions) {
  for (int dimension = 0; dimension < 3; ++dimension) {
    check_case({.dims = "5,37,9", .dimension = dimension, .others = {"s32"}});
    check_case({.dims = "40,3,65", .dimension = dimension, .layout = "{0,2,1}"});
  }
  check_case({.dims = "", .others = {"f32"}});
  check_case({.dims = "0,5", .dimension = 1});
  check_case({.dims = "5,0", .dimension = 0});
  check_case({.dims = "700,33", .dimension = 0});
}

/// Few different values: elements that are equal keep their order.
TEST(Sort, IsStable) {
  for (const char* type : {"pred", "s32", "s8"}) {
    check_case({.type = type, .dims = "2,3000", .dimension = 1, .others = {"s32"}, .compare = "direction=LT"});
    check_case({.type = type, .dims = "20000", .others = {"s32"}, .compare = "direction=GT"});
  }
}

TEST(Sort, RowsLongerThanABlock) {
  const std::string decision = check_case({.dims = "100003", .others = {"s32"}});
  EXPECT_NE(decision.find("merge of runs of"), std::string::npos) << decision;
  check_case({.type = "s32", .dims = "2,40000", .dimension = 1, .others = {"s32"}, .compare = "direction=LT"});
  check_case({.type = "bf16", .dims = "33000,2", .dimension = 0});
  check_case({.type = "f64", .dims = "17000", .others = {"s64", "f32"}});
}

/// Few rows that a block could hold have several blocks each; many do not, nor do rows beside each other in memory.
TEST(Sort, RowsAreSharedByBlocks) {
  for (const int rows : {1, 7, 41}) {
    const std::string shared = check_case({.dims = fmt::format("{},10001", rows), .dimension = 1});
    EXPECT_NE(shared.find("merge of runs"), std::string::npos) << shared;
  }
  const std::string places = check_case({.dims = "40,5003", .dimension = 1, .others = {"s32"}});
  EXPECT_NE(places.find("merge of runs"), std::string::npos) << places;
  const std::string many = check_case({.dims = "100,3000", .dimension = 1});
  EXPECT_EQ(many.find("merge of runs"), std::string::npos) << many;
  const std::string beside = check_case({.dims = "4000,9", .dimension = 0});
  EXPECT_EQ(beside.find("merge of runs"), std::string::npos) << beside;
  const std::string first = check(top_k("f32", "33,", 9001, 40));
  EXPECT_NE(first.find("tiles a row"), std::string::npos) << first;
}

TEST(Sort, ByTwoKeys) {
  for (const int length : {50, 5000, 20000}) {
    check(
        fmt::format("HloModule m\nless {{\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  c = f32[] "
                    "parameter(2)\n  d = f32[] parameter(3)\n  e = s32[] parameter(4)\n  f = s32[] parameter(5)\n"
                    "  lt = pred[] compare(a, b), direction=LT\n  eq = pred[] compare(a, b), direction=EQ\n  l2 = "
                    "pred[] compare(c, d), direction=LT\n  both = pred[] and(eq, l2)\n  ROOT r = pred[] or(lt, "
                    "both)\n}}\nENTRY e {{\n  x = s32[{0}] parameter(0)\n  y = f32[{0}] parameter(1)\n  z = s32[{0}] "
                    "iota(), iota_dimension=0\n  ROOT s = (s32[{0}], f32[{0}], s32[{0}]) sort(x, y, z), "
                    "dimensions={{0}}, is_stable=true, to_apply=less\n}}\n",
                    length));
  }
}

/// The comparison of jnp.argsort: -0 equals 0, and NaNs, of either sign, are equal and come last.
TEST(Sort, ZerosAndNaNs) {
  for (const int length : {40, 30000}) {
    const std::string of_p =
        "  z{0} = pred[] compare(p{0}, zero), direction=EQ\n  s{0} = f32[] select(z{0}, zero, p{0})\n"
        "  n{0} = pred[] compare(p{0}, p{0}), direction=NE\n  q{0} = f32[] select(n{0}, nan, s{0})\n";
    check(
        "HloModule m\nless {\n  p0 = f32[] parameter(0)\n  p1 = f32[] parameter(1)\n  c = s32[] parameter(2)\n"
        "  d = s32[] parameter(3)\n  zero = f32[] constant(0)\n  nan = f32[] constant(nan)\n" +
        fmt::format(fmt::runtime(of_p), 0) + fmt::format(fmt::runtime(of_p), 1) +
        "  ROOT r = pred[] compare(q0, q1), direction=LT, type=TOTALORDER\n}\n" +
        fmt::format("ENTRY e {{\n  p = s32[{0}] parameter(0)\n  x = f32[{0}] convert(p)\n  none = f32[] constant(-0)\n"
                    "  nones = f32[{0}] broadcast(none), dimensions={{}}\n  zeros = f32[{0}] multiply(x, nones)\n"
                    "  all = f32[{0}] divide(x, zeros)\n  three = s32[] constant(3)\n  threes = s32[{0}] "
                    "broadcast(three), dimensions={{}}\n  few = pred[{0}] compare(p, threes), direction=LT\n"
                    "  y = f32[{0}] select(few, all, zeros)\n  i = s32[{0}] iota(), iota_dimension=0\n"
                    "  ROOT s = (f32[{0}], s32[{0}]) sort(y, i), dimensions={{0}}, is_stable=true, to_apply=less\n}}\n",
                    length));
  }
}

/// As XLA writes it when it has optimised a comparison in the total order.
TEST(Sort, ByBitsOfFloats) {
  check(
      "HloModule m\nless {\n  p0 = f32[] parameter(0)\n  p1 = f32[] parameter(1)\n  a = s32[] bitcast(p0)\n  b = s32[] "
      "bitcast(p1)\n  ROOT r = pred[] compare(a, b), direction=LT\n}\nENTRY e {\n  x = f32[500] parameter(0)\n  ROOT s "
      "= f32[500] sort(x), dimensions={0}, to_apply=less\n}\n");
  check(
      "HloModule m\nENTRY e {\n  x = f32[7,9] parameter(0)\n  y = s32[63] bitcast(x)\n  ROOT r = s32[63] add(y, "
      "y)\n}\n");
}

/// Of which one result is used, and of what is computed before.
TEST(Sort, BetweenOtherInstructions) {
  for (const int length : {60, 30000}) {
    check(
        "HloModule m\n" + less("f32", {"s32"}, "direction=LT, type=TOTALORDER") +
        fmt::format("ENTRY e {{\n  p = f32[{0}] parameter(0)\n  x = f32[{0}] negate(p)\n  i = s32[{0}] iota(), "
                    "iota_dimension=0\n  s = (f32[{0}], s32[{0}]) sort(x, i), dimensions={{0}}, is_stable=true, "
                    "to_apply=less\n  o = s32[{0}] get-tuple-element(s), index=1\n  ROOT r = s32[{0}] add(o, o)\n}}\n",
                    length));
  }
}

/// The interpreter has what no kernel takes.
TEST(Sort, OfTooManyArrays) {
  std::string parameters, arrays = "x0", shapes = "f64[9]", called;
  for (int i = 0; i < 12; ++i) {
    called += fmt::format("  a{0} = f64[] parameter({1})\n  b{0} = f64[] parameter({2})\n", i, 2 * i, 2 * i + 1);
    parameters += fmt::format("  x{0} = f64[9] parameter({0})\n", i);
    if (i > 0) arrays += fmt::format(", x{}", i), shapes += ", f64[9]";
  }
  const auto module = hlo::parse_module(fmt::format(
      "HloModule m\nless {{\n{}  ROOT r = pred[] compare(a0, b0), direction=LT\n}}\nENTRY e {{\n{}  ROOT s = ({}) "
      "sort({}), dimensions={{0}}, to_apply=less\n}}\n",
      called, parameters, shapes, arrays));
  ASSERT_TRUE(module) << module.error().to_string();
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  EXPECT_NE(explain(*program).find("interpreter"), std::string::npos);
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 1);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto actual = run_on_cpu(*program, arguments);
  ASSERT_TRUE(expected && actual);
  EXPECT_EQ(hlo::difference(*actual, *expected, 0).value_or(""), "");
}

TEST(TopK, RowsOfABlock) {
  for (const char* type : {"f32", "bf16", "s32", "u8", "f64"}) {
    for (const int k : {0, 1, 5, 64}) check(top_k(type, "3,", 64, k), 1);
    check(top_k(type, "2,2,", 3000, 10, false));
  }
  check(top_k("f32", "", 1, 1));
  check(top_k("f32", "", 5000, 5000));
  check(top_k("f32", "0,", 20, 5));
}

TEST(TopK, LongRows) {
  const std::string decision = check(top_k("f32", "2,", 128256, 50));
  EXPECT_NE(decision.find("50 kept of each"), std::string::npos) << decision;
  EXPECT_EQ(decision.find("merge of"), std::string::npos) << decision;
  check(top_k("s32", "", 40000, 7));
  // So many that tiles are merged instead.
  EXPECT_NE(check(top_k("bf16", "2,", 30000, 6000)).find("merge of"), std::string::npos);
  check(top_k("s8", "", 300001, 1000));
}

TEST(Sort, AtRandom) {
  const std::vector<std::string> types{"f32", "bf16", "s32", "s8", "u64", "pred", "f64"};
  std::mt19937 random(11);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int i = 0; i < 25; ++i) {
    Case one;
    one.type = types[below(types.size())];
    const size_t longest = below(4) == 0 ? 9000 : 300;
    const size_t along = 1 + below(longest);
    const size_t other = 1 + below(std::max<size_t>(1, 3000 / along));
    one.dimension = static_cast<int>(below(2));
    one.dims = one.dimension == 0 ? fmt::format("{},{}", along, other) : fmt::format("{},{}", other, along);
    const size_t others = below(3);
    for (size_t k = 0; k < others; ++k) one.others.push_back(k == 0 ? "s32" : types[below(types.size())]);
    if (below(2) == 0) one.layout = "{0,1}";
    one.compare = below(2) == 0 ? "direction=LT" : "direction=GT";
    check(text_of(one), i);
  }
}

}  // namespace
}  // namespace strata::emitters
