// Properties of maps, over random ones.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "indexing/enumerate.h"
#include "indexing/expr_range.h"
#include "indexing/index_type.h"
#include "indexing/random_maps.h"
#include "indexing/simplify.h"
#include "support/test_rounds.h"

namespace strata::indexing {
namespace {

/// Maps a RapidCheck case: its default of 100 cases is few for maps this small.
const int kBatch = rounds(20);

/// Checks that `after` has the results of `before`, wherever these have values, on the same domain.
void expect_same(const IndexingMap& before, const IndexingMap& after) {
  IndexingMap box = before;
  box.constraints.clear();
  for_each_point(box, [&](const Point& point) {
    // Where a divisor is zero nothing is promised.
    for (const Constraint& constraint : before.constraints) {
      if (!evaluate(constraint.expr, point)) return true;
    }
    const bool inside = in_domain(before, point);
    if (inside != in_domain(after, point)) {
      RC_FAIL("the domain changed: " + to_string(before) + " became " + to_string(after));
    }
    if (!inside) return true;
    for (size_t i = 0; i < before.results.size(); ++i) {
      const auto value = evaluate(before.results[i], point);
      if (value && value != evaluate(after.results[i], point)) {
        RC_FAIL("a result changed: " + to_string(before) + " became " + to_string(after));
      }
    }
    return true;
  });
}

/// Equal runtime variables have equal values: only such points can occur. So no two are equal here.
IndexingMap with_distinct_runtime(IndexingMap map) {
  for (size_t i = 0; i < map.runtime.size(); ++i) map.runtime[i].instruction = static_cast<int64_t>(i);
  return map;
}

RC_GTEST_PROP(MapProperties, SimplifyingKeepsResultsAndDomain, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  for (int i = 0; i < kBatch; ++i) {
    const IndexingMap map = with_distinct_runtime(random_map(random, 400));
    expect_same(map, simplify(map, UnusedVariables::Keep));
  }
}

RC_GTEST_PROP(MapProperties, SimplifyingTwiceChangesNothing, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  for (int i = 0; i < 2 * kBatch; ++i) {
    const IndexingMap map = random_map(random, 1 << 20);
    for (const auto unused : {UnusedVariables::Keep, UnusedVariables::DropRangesAndRuntime, UnusedVariables::DropAll}) {
      const IndexingMap once = simplify(map, unused);
      const IndexingMap twice = simplify(once, unused);
      if (once != twice) {
        RC_FAIL(to_string(map) + "\n became " + to_string(once) + "\n and then " + to_string(twice));
      }
    }
  }
}

/// Whether a result or constraint has no value at some point.
bool partial(const IndexingMap& map) {
  IndexingMap box = map;
  box.constraints.clear();
  for (const Constraint& constraint : map.constraints) box.results.push_back(constraint.expr);
  bool missing = false;
  for_each_point(box, [&](const Point& point) { return !(missing = !evaluate(box, point)); });
  return missing;
}

using Images = std::set<std::vector<int64_t>>;

/// The images of one value of the dimensions over all values of the other variables.
std::map<std::vector<int64_t>, Images> images(const IndexingMap& map) {
  std::map<std::vector<int64_t>, Images> result;
  for_each_point(map, [&](const Point& point) {
    const auto values = evaluate(map, point);
    if (values) result[{point.dims.begin(), point.dims.end()}].insert(*values);
    return true;
  });
  return result;
}

RC_GTEST_PROP(MapProperties, DroppingVariablesKeepsImages, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  for (int i = 0; i < kBatch; ++i) {
    const IndexingMap map = with_distinct_runtime(random_map(random, 400));
    if (partial(map)) continue;
    RC_ASSERT(images(map) == images(simplify(map)));
  }
}

RC_GTEST_PROP(MapProperties, ReshapesThereAndBackAreTheIdentity, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  for (int i = 0; i < kBatch; ++i) {
    const int64_t count = random_between(random, 1, 2000) * random_extent(random);
    const std::vector<int64_t> shape = random_factors(random, count);
    IndexingMap map = identity_map(shape);
    std::vector<int64_t> current = shape;
    for (int step = 0; step < 4; ++step) {
      const std::vector<int64_t> next = step == 3 ? shape : random_factors(random, count);
      IndexingMap reshape = identity_map(current);
      reshape.results = delinearize(linearize(reshape.results, *row_major_strides(current)), next);
      map = compose(map, reshape);
      if (random.below(2) == 0) map = simplify(map);
      current = next;
    }
    const IndexingMap back = simplify(map);
    if (back != simplify(identity_map(shape))) RC_FAIL(to_string(map) + " became " + to_string(back));
  }
}

RC_GTEST_PROP(MapProperties, CompositionIsPointwise, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  for (int i = 0; i < kBatch; ++i) {
    IndexingMap second = random_map(random, 60);
    // Some of the results lie outside the dimensions' ranges.
    const IndexingMap first = random_map(random, 60, static_cast<int>(second.dims.size()));
    const IndexingMap both = compose(first, second);
    RC_ASSERT(both.ranges.size() == first.ranges.size() + second.ranges.size());
    for_each_point(first, [&](const Point& outer) {
      const auto between = evaluate(first, outer);
      if (!between) return true;
      IndexingMap inner = second;
      for (size_t d = 0; d < inner.dims.size(); ++d) inner.dims[d] = {(*between)[d], (*between)[d]};
      inner.constraints.clear();
      for_each_point(inner, [&](const Point& point) {
        std::vector<int64_t> ranges(outer.ranges.begin(), outer.ranges.end());
        ranges.insert(ranges.end(), point.ranges.begin(), point.ranges.end());
        std::vector<int64_t> runtime(outer.runtime.begin(), outer.runtime.end());
        runtime.insert(runtime.end(), point.runtime.begin(), point.runtime.end());
        const Point joined{outer.dims, ranges, runtime};
        RC_ASSERT(in_domain(both, joined) == in_domain(second, point));
        RC_ASSERT(evaluate(both, joined) == evaluate(second, point));
        return true;
      });
      return true;
    });
  }
}

RC_GTEST_PROP(MapProperties, RangesContainAllValues, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  for (int i = 0; i < kBatch; ++i) {
    const IndexingMap map = random_map(random, 400);
    ExprRange free(map);
    ExprRange constrained(map, ExprRange::Facts::VariablesAndConstraints);
    IndexingMap box = map;
    box.constraints.clear();
    const auto type = narrowest_index_type(map);
    for_each_point(box, [&](const Point& point) {
      const bool inside = in_domain(map, point);
      for (const Expr& result : map.results) {
        const auto value = evaluate(result, point);
        if (!value) continue;
        RC_ASSERT(free(result).contains(*value));
        RC_ASSERT(!inside || constrained(result).contains(*value));
        RC_ASSERT(type != IndexType::I32 || (*value >= INT32_MIN && *value <= INT32_MAX));
      }
      return true;
    });
  }
}

RC_GTEST_PROP(MapProperties, PrintedMapsParseToThemselves, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  for (int i = 0; i < 2 * kBatch; ++i) {
    IndexingMap map = random_map(random, 1 << 20, static_cast<int>(random.below(4)));
    if (random.below(5) == 0) map = simplify(map);
    const std::string text = to_string(map);
    const auto parsed = parse_indexing_map(text);
    if (!parsed) RC_FAIL(parsed.error().to_string() + " in " + text);
    if (*parsed != map || to_string(*parsed) != text) RC_FAIL(text + " became " + to_string(*parsed));
    RC_ASSERT(parsed->hash() == map.hash());
  }
}

/// The text with some of its words, numbers or characters changed.
std::string mutated(Random& random, std::string text) {
  static const char* const kPieces[] = {"d0",
                                        "s1",
                                        "rt0",
                                        "mod ",
                                        "floordiv ",
                                        "(",
                                        ")",
                                        "[",
                                        "]",
                                        "-",
                                        " * ",
                                        ",",
                                        "0",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "4611686018427387904",
                                        " in ",
                                        "->",
                                        ":",
                                        "empty"};
  for (uint64_t i = 1 + random.below(3); i > 0; --i) {
    const size_t at = random.below(text.size());
    // Numbers most often, for these still parse.
    const bool digit = std::isdigit(static_cast<unsigned char>(text[at])) != 0;
    const std::string piece = digit ? kPieces[12 + random.below(4)] : kPieces[random.below(std::size(kPieces))];
    text.replace(at, digit ? 1 : random.below(3), piece);
  }
  return text;
}

RC_GTEST_PROP(MapProperties, MutatedTextsParseOrFailWithAPlace, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  for (int i = 0; i < 2 * kBatch; ++i) {
    const std::string text = mutated(random, to_string(random_map(random)));
    const auto map = parse_indexing_map(text);
    if (!map) {
      RC_ASSERT(map.error().location.known());
      continue;
    }
    const auto again = parse_indexing_map(to_string(*map));
    if (!again || *again != *map) RC_FAIL(text + " became " + to_string(*map));
    // Numbers at the ends of int64_t: nothing overflows silently.
    const IndexingMap simple = simplify(*map);
    if (simplify(simple) != simple) RC_FAIL(text + " became " + to_string(simple));
    narrowest_index_type(simple);
  }
}

}  // namespace
}  // namespace strata::indexing
