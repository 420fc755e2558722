#include "indexing/inverse.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "indexing/enumerate.h"
#include "indexing/random_maps.h"

namespace strata::indexing {
namespace {

std::string inverted(const std::string& text, const std::vector<Interval>& read) {
  const auto map = parse_indexing_map(text);
  EXPECT_TRUE(map) << map.error().to_string();
  return to_string(inverse(*map, read));
}

TEST(Inverse, SolvesWhatIsLinear) {
  EXPECT_EQ(
      inverted("(d0, d1) -> (d1, d0 * 2 + 3), domain: d0 in [0, 4], d1 in [0, 9]", {{0, 9}, {0, 19}}),
      "(d0, d1) -> (((d1 + 1) floordiv 2) - 2, d0), domain: d0 in [0, 9], d1 in [3, 11], (d1 + 1) mod 2 in [0, 0]");
  EXPECT_EQ(inverted("(d0)[s0] -> (d0 + s0), domain: d0 in [0, 7], s0 in [0, 2]", {{0, 9}}),
            "(d0)[s0] -> (d0 - s0), domain: d0 in [0, 9], s0 in [0, 2], d0 - s0 in [0, 7]");
}

using Pairs = std::set<std::pair<std::vector<int64_t>, std::vector<int64_t>>>;

RC_GTEST_PROP(Inverse, HasTheSamePairs, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  for (int i = 0; i < 10; ++i) {
    IndexingMap map = random_map(random, 40);
    // With runtime variables pairs would have to be compared value by value.
    map.runtime.clear();
    const auto without_runtime = [](const Expr& expr) {
      return substitute(expr, [](ExprKind kind, int number) {
        return kind == ExprKind::Runtime ? Expr::constant(number) : Expr::variable(kind, number);
      });
    };
    bool partial = false;
    for (Expr& result : map.results) result = mod(without_runtime(result), 8);
    for (Constraint& constraint : map.constraints) constraint.expr = without_runtime(constraint.expr);
    IndexingMap box = map;
    box.constraints.clear();
    Pairs forward;
    for_each_point(box, [&](const Point& point) {
      for (const Constraint& constraint : map.constraints) partial |= !evaluate(constraint.expr, point);
      const auto index = evaluate(map, point);
      partial |= !index;
      if (index && in_domain(map, point)) forward.insert({{point.dims.begin(), point.dims.end()}, *index});
      return !partial;
    });
    const IndexingMap back = inverse(map, positions({8, 8}));
    if (partial || box_size(back) > 20000) continue;
    Pairs backward;
    for_each_point(back, [&](const Point& point) {
      const auto index = evaluate(back, point);
      RC_ASSERT(index.has_value());
      backward.insert({*index, {point.dims.begin(), point.dims.end()}});
      return true;
    });
    if (forward != backward) RC_FAIL(to_string(map) + " became " + to_string(back));
  }
}

}  // namespace
}  // namespace strata::indexing
