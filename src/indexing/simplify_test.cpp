#include "indexing/simplify.h"

#include <gtest/gtest.h>

namespace strata::indexing {
namespace {

IndexingMap parsed(const std::string& text) {
  auto map = parse_indexing_map(text);
  EXPECT_TRUE(map) << text << "\n" << map.error().to_string();
  return map ? *map : IndexingMap{};
}

struct Case {
  const char* name;
  const char* before;
  const char* after;
};

std::string case_name(const testing::TestParamInfo<Case>& parameter) { return parameter.param.name; }

class Simplify : public testing::TestWithParam<Case> {};

TEST_P(Simplify, Gives) {
  const IndexingMap once = simplify(parsed(GetParam().before));
  EXPECT_EQ(to_string(once), to_string(parsed(GetParam().after)));
  EXPECT_EQ(to_string(simplify(once)), to_string(once));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Simplify,
    testing::Values(
        Case{"ThreadAndVector", "(d0)[s0] -> ((d0 * 4 + s0) mod 1024), domain: d0 in [0, 511], s0 in [0, 3]",
             "(d0)[s0] -> ((d0 mod 256) * 4 + s0), domain: d0 in [0, 511], s0 in [0, 3]"},
        Case{"OneBlock", "(d0) -> (d0 mod 42), domain: d0 in [53, 71]", "(d0) -> (d0 - 42), domain: d0 in [53, 71]"},
        Case{"NegativeBlock", "(d0) -> (d0 mod 5), domain: d0 in [-5, -1]", "(d0) -> (d0 + 5), domain: d0 in [-5, -1]"},
        Case{"TwoBlocks", "(d0) -> (d0 mod 5), domain: d0 in [-4, 0]", "(d0) -> (d0 mod 5), domain: d0 in [-4, 0]"},
        Case{"NestedQuotients",
             "(d0, d1) -> (((d0 floordiv 3) * 3 + d1 floordiv 2) floordiv 6), domain: d0 in [0, 11], d1 in [0, 5]",
             "(d0, d1) -> (d0 floordiv 6), domain: d0 in [0, 11], d1 in [0, 5]"},
        Case{"SmallDigit", "(d0, d1) -> (d0 + d1 floordiv 16, d1 mod 16), domain: d0 in [0, 7], d1 in [0, 15]",
             "(d0, d1) -> (d0, d1), domain: d0 in [0, 7], d1 in [0, 15]"},
        Case{"DecimalDigits",
             "(d0, d1, d2) -> ((d0 * 100 + d1 * 10 + d2) floordiv 100, ((d0 * 100 + d1 * 10 + d2) mod 100) floordiv 10,"
             " d2 mod 10), domain: d0 in [0, 8], d1 in [0, 8], d2 in [0, 8]",
             "(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 8], d1 in [0, 8], d2 in [0, 8]"},
        Case{"PartlyDivisible",
             "(d0, d1, d2) -> ((d0 * 16 + d1 * 4 + d2) floordiv 8, (d0 * 16 + d1 * 4 + d2) mod 8), "
             "domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]",
             "(d0, d1, d2) -> (d0 * 2 + (d1 * 4 + d2) floordiv 8, (d1 * 4 + d2) mod 8), "
             "domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]"},
        Case{"Reversed",
             "(d0, d1) -> (-((-d0 * 11 - d1 + 109) floordiv 11) + 9, d0 * 11 + d1 + "
             "((-d0 * 11 - d1 + 109) floordiv 11) * 11 - 99), domain: d0 in [0, 7], d1 in [0, 8]",
             "(d0, d1) -> (d0, d1), domain: d0 in [0, 7], d1 in [0, 8]"},
        Case{"QuotientAndRemainder",
             "()[s0] -> ((s0 * 128) mod 715 + ((s0 * 128) floordiv 715) * 715), domain: s0 in [0, 99]",
             "()[s0] -> (s0 * 128), domain: s0 in [0, 99]"},
        Case{"ThreeDigits",
             "(d0, d1) -> (((d1 * 2 + d0 floordiv 64) mod 3) * 256 + (d0 mod 64) * 4 + "
             "((d1 * 128 + d0) floordiv 192) * 768), domain: d0 in [0, 127], d1 in [0, 3071]",
             "(d0, d1) -> (d0 * 4 + d1 * 512), domain: d0 in [0, 127], d1 in [0, 3071]"},
        Case{"Cancelling", "()[s0] -> (-(s0 floordiv 144) + (s0 * 32 + 4639) floordiv 4608), domain: s0 in [0, 9999]",
             "() -> (1)"},
        Case{"CancellingChain",
             "()[s0] -> (s0 - ((s0 floordiv 2) floordiv 7) * 14 + (s0 floordiv 14) * 14), domain: s0 in [0, 99]",
             "()[s0] -> (s0), domain: s0 in [0, 99]"},
        Case{"OneDivision",
             "()[s0, s1] -> ((s0 * 2 + s1 floordiv 64) floordiv 3), domain: s0 in [0, 99], s1 in [0, 999]",
             "()[s0, s1] -> ((s0 * 128 + s1) floordiv 192), domain: s0 in [0, 99], s1 in [0, 999]"},
        Case{"TwoInnerQuotientsStay",
             "()[s0, s1] -> ((s0 floordiv 3 + s1 floordiv 3) floordiv 6), domain: s0 in [0, 99], s1 in [0, 99]",
             "()[s0, s1] -> ((s0 floordiv 3 + s1 floordiv 3) floordiv 6), domain: s0 in [0, 99], s1 in [0, 99]"},
        Case{"OffsetWithinBlock", "()[s0] -> ((s0 * 6 + 9) floordiv 18), domain: s0 in [0, 99]",
             "()[s0] -> ((s0 + 1) floordiv 3), domain: s0 in [0, 99]"},
        Case{"ConstantQuotient", "()[s0] -> ((s0 * 16 - 497) floordiv 512), domain: s0 in [0, 4]", "() -> (-1)"},
        Case{"CommonDivisor",
             "()[s0, s1, s2, s3] -> ((s0 * 458752 + s1 + s2 * 4 + s3 * 512) mod 20000), "
             "domain: s0 in [0, 9], s1 in [0, 3], s2 in [0, 127], s3 in [0, 895]",
             "()[s0, s1, s2, s3] -> (s1 + ((s0 * 114688 + s2 + s3 * 128) mod 5000) * 4), "
             "domain: s0 in [0, 9], s1 in [0, 3], s2 in [0, 127], s3 in [0, 895]"},
        Case{"DigitOfRemainder", "(d0) -> ((d0 mod 96) floordiv 8), domain: d0 in [0, 999]",
             "(d0) -> ((d0 floordiv 8) mod 12), domain: d0 in [0, 999]"},
        Case{"PointRange", "(d0, d1)[s0] -> (d0 * d1 + s0), domain: d0 in [0, 9], d1 in [3, 3], s0 in [2, 2]",
             "(d0, d1) -> (d0 * 3 + 2), domain: d0 in [0, 9], d1 in [3, 3]"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Constraints, Simplify,
    testing::Values(
        Case{"RemainderMoves", "(d0) -> (d0), domain: d0 in [0, 999], d0 mod 8 + 5 in [6, 10]",
             "(d0) -> (d0), domain: d0 in [1, 997], d0 mod 8 in [1, 5]"},
        Case{"Impossible", "(d0) -> (d0), domain: d0 in [0, 999], d0 mod 8 + 5 in [50, 54]",
             "(d0) -> (0), domain: empty, d0 in [0, -1]"},
        Case{"Quotient", "(d0) -> (d0), domain: d0 in [0, 99], d0 floordiv 8 in [5, 11]",
             "(d0) -> (d0), domain: d0 in [40, 95]"},
        Case{"NegativeDivisor", "()[s0] -> (s0), domain: s0 in [0, 99], s0 floordiv (-3) in [-11, -5]",
             "()[s0] -> (s0), domain: s0 in [13, 33]"},
        Case{"Multiple", "(d0) -> (d0), domain: d0 in [0, 99], d0 * 8 in [14, 33]",
             "(d0) -> (d0), domain: d0 in [2, 4]"},
        Case{"NegativeMultiple", "()[s0] -> (s0), domain: s0 in [0, 99], s0 * -3 in [-11, -5]",
             "()[s0] -> (s0), domain: s0 in [2, 3]"},
        Case{"ImpliesARange",
             "(d0)[s0, s1] -> (d0 + s0 + s1), domain: d0 in [0, 199], s0 in [0, 1], s1 in [0, 2], "
             "d0 * 6 + s0 * 3 + s1 in [0, 599]",
             "(d0)[s0, s1] -> (d0 + s0 + s1), domain: d0 in [0, 99], s0 in [0, 1], s1 in [0, 2]"},
        Case{"GuardOfWholeVectors",
             "(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 127], s0 in [0, 3], "
             "d0 * 4 + s0 in [0, 399]",
             "(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 99], s0 in [0, 3]"},
        Case{"GuardWithinVectors",
             "(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 127], s0 in [0, 3], "
             "d0 * 4 + s0 in [0, 400]",
             "(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 100], s0 in [0, 3], d0 * 4 + s0 in [0, 400]"},
        Case{"ConstraintsServeResults",
             "(d0)[s0] -> ((d0 * 4 + s0 + 7) floordiv 408), domain: d0 in [0, 127], s0 in [0, 3], "
             "d0 * 4 + s0 in [0, 400]",
             "(d0)[s0] -> (0), domain: d0 in [0, 100], s0 in [0, 3], d0 * 4 + s0 in [0, 400]"},
        Case{"Merged", "(d0, d1) -> (d0), domain: d0 in [0, 99], d1 in [0, 99], d0 - d1 in [-5, 50], d1 - d0 in [0, 9]",
             "(d0, d1) -> (d0), domain: d0 in [0, 99], d1 in [0, 99], d0 - d1 in [-5, 0]"},
        Case{"Contradicting",
             "(d0, d1) -> (d0), domain: d0 in [0, 99], d1 in [0, 99], d0 - d1 in [1, 50], d1 - d0 in [0, 9]",
             "(d0, d1) -> (0), domain: empty, d0 in [0, -1], d1 in [0, -1]"},
        Case{"ZeroElements", "(d0) -> (d0 * 3), domain: d0 in [0, -1]", "(d0) -> (0), domain: empty, d0 in [0, -1]"},
        Case{"SameRuntimeVariable",
             "(d0){rt0, rt1} -> (d0 + rt0 - rt1, rt1), domain: d0 in [0, 9], rt0 = 7:1[d0] in [0, 5], rt1 = 7:1[d0] in "
             "[2, 9]",
             "(d0){rt0} -> (d0, rt0), domain: d0 in [0, 9], rt0 = 7:1[d0] in [2, 5]"},
        Case{"OtherRuntimeVariable",
             "(d0){rt0, rt1} -> (rt0 - rt1), domain: d0 in [0, 9], rt0 = 7:1[d0] in [0, 5], rt1 = 7:2[d0] in [0, 5]",
             "(d0){rt0, rt1} -> (rt0 - rt1), domain: d0 in [0, 9], rt0 = 7:1[d0] in [0, 5], rt1 = 7:2[d0] in [0, 5]"},
        Case{"UnusedVariables",
             "(d0)[s0, s1]{rt0, rt1} -> (s1 + rt1), domain: d0 in [0, 9], s0 in [0, 3], s1 in [0, 4], rt0 = 1:0[] in "
             "[0, 5], "
             "rt1 = 1:1[s1] in [0, 5]",
             "(d0)[s0]{rt0} -> (s0 + rt0), domain: d0 in [0, 9], s0 in [0, 4], rt0 = 1:1[s0] in [0, 5]"}),
    case_name);

}  // namespace
}  // namespace strata::indexing
