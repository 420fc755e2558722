// Expressions, their ranges and types, and the text of maps.
#include "indexing/expr.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "indexing/expr_range.h"
#include "indexing/index_type.h"
#include "indexing/indexing_map.h"
#include "indexing/simplify.h"

namespace strata::indexing {
namespace {

const Expr d0 = Expr::dim(0);
const Expr d1 = Expr::dim(1);
const Expr s0 = Expr::range(0);

TEST(Expr, IsCanonical) {
  EXPECT_EQ(d0 * 4 + s0 - d0, s0 + d0 * 3);
  EXPECT_EQ(to_string(d0 * 4 + s0 - d0), "d0 * 3 + s0");
  EXPECT_EQ((d0 + d1) * (d0 - d1), d0 * d0 - d1 * d1);
  EXPECT_EQ(to_string((d0 + 2) * (d1 - 3)), "-d0 * 3 + d1 * 2 + d0 * d1 - 6");
  EXPECT_EQ(floor_div(d0, -3), floor_div(d0 * -1, 3));
  EXPECT_EQ(ceil_div(d0, Expr::constant(4)), floor_div(d0 * -1, 4) * -1);
  EXPECT_EQ(mod(d0, 1), Expr::constant(0));
  EXPECT_EQ(to_string(mod(floor_div(d0, 8), 4) * 3 + floor_div(d0 + 1, d1)),
            "((d0 + 1) floordiv d1) + ((d0 floordiv 8) mod 4) * 3");
  EXPECT_NE(d0, s0);
  EXPECT_LT(d0, d1);
  EXPECT_LT(d1, s0);
}

TEST(Expr, OverflowIsNeverSilent) {
  const Expr large = d0 * (kGreatest / 2);
  EXPECT_FALSE(large.is_undefined());
  EXPECT_TRUE((large * 3).is_undefined());
  EXPECT_TRUE((large + large + large).is_undefined());
  EXPECT_TRUE((Expr::constant(kGreatest) + 1).is_undefined());
  EXPECT_TRUE((mod(large * 3, 2) + d1).is_undefined());
  EXPECT_TRUE(floor_div(d0, 0).is_undefined());
  EXPECT_TRUE(mod(d0, 0).is_undefined());
  const int64_t values[] = {3, kGreatest};
  const Point point{values, {}, {}};
  EXPECT_EQ(evaluate(large, point), std::nullopt);
  EXPECT_EQ(evaluate(d1 + 1, point), std::nullopt);
  EXPECT_EQ(evaluate(d1 - 1, point), kGreatest - 1);
  EXPECT_EQ(evaluate(floor_div(d1, d0 - 3), point), std::nullopt);
  // A rule whose numbers would not fit is not applied.
  IndexingMap map;
  map.dims = {{0, 9}, {0, 9}};
  const Expr quotient = floor_div(floor_div(d0 + d1 * 7, kGreatest / 4) + d1 * 5, kGreatest / 4);
  EXPECT_FALSE(simplify(quotient, map).is_undefined());
  EXPECT_EQ(narrowest_index_type({{large}, {{0, 9}}, {}, {}, {}}), std::nullopt);
  EXPECT_EQ(narrowest_index_type({{large}, {{0, 1}}, {}, {}, {}}), IndexType::I64);
}

TEST(Expr, QuotientsRoundDown) {
  for (int64_t a = -9; a <= 9; ++a) {
    for (const int64_t b : {-3, -2, 2, 3}) {
      const int64_t values[] = {a, b};
      const Point point{values, {}, {}};
      const int64_t quotient = *evaluate(floor_div(d0, b), point);
      EXPECT_LE(static_cast<double>(quotient), static_cast<double>(a) / static_cast<double>(b));
      EXPECT_GT(static_cast<double>(quotient), static_cast<double>(a) / static_cast<double>(b) - 1);
      EXPECT_EQ(*evaluate(mod(d0, b), point), a - b * quotient);
      EXPECT_EQ(*evaluate(floor_div(d0, d1), point), quotient);
      EXPECT_EQ(*evaluate(mod(d0, d1), point), a - b * quotient);
    }
  }
}

TEST(ExprRange, IsTight) {
  IndexingMap map;
  map.dims = {{-5, 20}, {0, 3}};
  map.ranges = {{0, 7}};
  ExprRange range(map);
  EXPECT_EQ(range(d0 * 2 - d1 * 3 + 1), (Interval{-18, 41}));
  EXPECT_EQ(range(floor_div(d0, 4)), (Interval{-2, 5}));
  EXPECT_EQ(range(mod(d0, 64)), (Interval{0, 63}));
  EXPECT_EQ(range(mod(s0, 64)), (Interval{0, 7}));
  EXPECT_EQ(range(mod(d0 * 4 + 1, 16)), (Interval{1, 13}));
  EXPECT_EQ(range(mod(d0 + 40, 64)), (Interval{35, 60}));
  EXPECT_EQ(range(d0 * d1), (Interval{-15, 60}));
  EXPECT_EQ(range(floor_div(d0, d1)), (Interval{-5, 20}));
  EXPECT_EQ(range(mod(d0, d1 * -1 - 1)), (Interval{-3, 0}));
  map.constraints = {{d1 * 8 + s0, {0, 20}}};
  ExprRange constrained(map, ExprRange::Facts::VariablesAndConstraints);
  EXPECT_EQ(constrained(d1 * -16 - s0 * 2 + 1), (Interval{-39, 1}));
  EXPECT_EQ(constrained(d0 + d1 * 8 + s0), (Interval{-5, 40}));
  EXPECT_EQ(constrained(d1 * 16 + s0), (Interval{0, 55}));  // no multiple of it
}

TEST(IndexType, LooksAtWhatIsComputedOnTheWay) {
  const auto type_of = [](const Expr& expr) {
    return narrowest_index_type({{expr}, {{0, 99999}, {0, 99999}}, {}, {}, {}});
  };
  EXPECT_EQ(type_of(d0 * 20000 + d1), IndexType::I32);
  EXPECT_EQ(type_of(d0 * 100000 + d1), IndexType::I64);
  EXPECT_EQ(type_of(mod(d0 * 100000 + d1, 7)), IndexType::I64);
  // The sum fits, but not one of its parts.
  EXPECT_EQ(type_of(d0 * 20000 + d1 * 20000 - 2000000000), IndexType::I64);
}

TEST(MapText, ErrorsHavePlaces) {
  const auto error = [](const std::string& text) {
    const auto map = parse_indexing_map(text);
    return map ? to_string(*map) : map.error().to_string();
  };
  EXPECT_EQ(error("(d0) -> (d1), domain: d0 in [0, 3]"), "indexing map:1:10: error: there is no variable d1 here");
  EXPECT_EQ(error("(d0) ->\n (d0 +), domain: d0 in [0, 3]"),
            "indexing map:2:7: error: expected a number, a variable or '('");
  EXPECT_EQ(error("(d0) -> (d0)"), "indexing map:1:13: error: expected the range of d0");
  EXPECT_EQ(error("(d0) -> (d0), domain: d0 in [0, 9223372036854775808]"),
            "indexing map:1:51: error: the number does not fit into 64 bits");
  EXPECT_EQ(error("(d0){rt0} -> (d0), domain: d0 in [0, 3], rt0 = 1:1[rt0] in [0, 1]"),
            "indexing map:1:52: error: there is no variable rt0 here");
  EXPECT_EQ(error("(d0) -> (d0), domain: d0 in [0, 3] x"), "indexing map:1:36: error: expected the end of the map");
  EXPECT_EQ(error("() -> (" + std::string(300, '(')),
            "indexing map:1:208: error: brackets and signs are nested more than 200 deep");
  EXPECT_EQ(error("(d1) -> (d1), domain: d1 in [0, 3]"), "indexing map:1:2: error: expected the variable d0");
}

TEST(MapText, PrecedenceIsThatOfPython) {
  const auto result = [](const std::string& text) {
    const auto map = parse_indexing_map("(d0, d1) -> (" + text + "), domain: d0 in [0, 9], d1 in [0, 9]");
    EXPECT_TRUE(map) << map.error().to_string();
    return map->results[0];
  };
  EXPECT_EQ(result("d0 - 7 mod 3"), d0 - 1);
  EXPECT_EQ(result("-d0 floordiv 4"), floor_div(d0 * -1, 4));
  EXPECT_EQ(result("d0 * 3 floordiv 2 mod 5"), mod(floor_div(d0 * 3, 2), 5));
  EXPECT_EQ(result("d0 ceildiv 4"), ceil_div(d0, Expr::constant(4)));
  EXPECT_EQ(result("-9223372036854775808"), Expr::constant(kLeast));
  EXPECT_EQ(result("d0 - 9223372036854775808"), d0 + kLeast);
  EXPECT_EQ(to_string(result("d0 - 9223372036854775808")), "d0 - 9223372036854775808");
}

TEST(Integers, CommonDivisorsOfTheLeastNumberFit) {
  EXPECT_EQ(common_divisor(-12, 18), 6);
  EXPECT_EQ(common_divisor(0, 0), 0);
  EXPECT_EQ(common_divisor(kLeast, 24), 8);
  EXPECT_EQ(common_divisor(kLeast, 0), int64_t{1} << 62);
  // Found by MutatedTextsParseOrFailWithAPlace.
  for (const char* text : {"(d0) -> ((d0 * -9223372036854775808) mod 12), domain: d0 in [0, 9]",
                           "(d0, d1) -> (d0), domain: d0 in [0, 9], d1 in [0, 9], "
                           "d0 * -1 + d1 * -9223372036854775808 in [-5, 0]"}) {
    const auto map = parse_indexing_map(text);
    ASSERT_TRUE(map) << map.error().to_string();
    const IndexingMap simple = simplify(*map);
    EXPECT_EQ(simplify(simple), simple) << to_string(simple);
  }
}

TEST(Guards, AreConstraintsAndNarrowedRanges) {
  const auto map = parse_indexing_map(
      "(d0, d1)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 127], d1 in [0, 1], s0 in [0, 3], d0 * 4 + s0 in [0, 402], "
      "d0 * 8 + d1 in [0, 800]");
  ASSERT_TRUE(map);
  std::vector<std::string> texts;
  for (const Constraint& guard : guards(simplify(*map, UnusedVariables::Keep), map->dims, map->ranges)) {
    texts.push_back(to_string(guard));
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"d0 in [0, 100]", "d0 * 8 + d1 in [0, 800]", "d0 * 4 + s0 in [0, 402]"}));
}

}  // namespace
}  // namespace strata::indexing
