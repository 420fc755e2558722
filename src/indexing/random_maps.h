// Random expressions and maps, for property tests.
#pragma once

#include "indexing/indexing_map.h"
#include "support/random.h"

namespace strata::indexing {

inline int64_t random_between(Random& random, int64_t lo, int64_t hi) {
  return lo + static_cast<int64_t>(random.below(static_cast<uint64_t>(hi - lo + 1)));
}

/// An extent or divisor: often a power of two, and often related to others.
inline int64_t random_extent(Random& random) {
  static constexpr int64_t kExtents[] = {1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64, 128, 1000};
  return kExtents[random.below(std::size(kExtents))];
}

inline Expr random_variable(Random& random, const IndexingMap& map) {
  const size_t count = map.dims.size() + map.ranges.size() + map.runtime.size();
  if (count == 0) return Expr::constant(random_between(random, -3, 9));
  size_t i = random.below(count);
  if (i < map.dims.size()) return Expr::dim(static_cast<int>(i));
  i -= map.dims.size();
  if (i < map.ranges.size()) return Expr::range(static_cast<int>(i));
  return Expr::runtime(static_cast<int>(i - map.ranges.size()));
}

/// Nested sums, multiples, quotients and remainders over the variables of the map, few of them by variables.
inline Expr random_expr(Random& random, const IndexingMap& map, int depth) {
  if (depth == 0) return random_variable(random, map);
  const auto inner = [&] { return random_expr(random, map, depth - 1); };
  const int64_t sign = random.below(6) == 0 ? -1 : 1;
  switch (random.below(12)) {
    case 0:
    case 1:
    case 2:
      return inner() * (sign * random_extent(random)) + inner();
    case 3:
      return inner() + inner() * (sign * random_extent(random)) + random_between(random, -20, 20);
    case 4:
    case 5:
      return mod(inner(), sign * random_extent(random));
    case 6:
    case 7:
      return floor_div(inner(), sign * random_extent(random));
    case 8: {
      // A quotient and its remainder, which belong together.
      const Expr x = inner();
      const int64_t c = random_extent(random);
      return mod(x, c) * random_extent(random) + floor_div(x, c) * random_extent(random);
    }
    case 9: {
      // x / c * c + x mod c, in other words.
      const Expr x = inner();
      const int64_t c = random_extent(random);
      const int64_t factor = sign * random_extent(random);
      return floor_div(floor_div(x, c), 2) * (2 * c * factor) + mod(floor_div(x, c), 2) * (c * factor) + mod(x, c);
    }
    case 10:
      return random.below(4) == 0 ? inner() * random_variable(random, map) : inner() - inner();
    default:
      if (random.below(4) == 0) return mod(inner(), random_variable(random, map) + random_extent(random));
      if (random.below(4) == 0) return floor_div(inner(), random_variable(random, map) * sign);
      return random_variable(random, map) * random_extent(random);
  }
}

/// A shape with that many elements.
inline std::vector<int64_t> random_factors(Random& random, int64_t count) {
  std::vector<int64_t> shape;
  while (count > 1) {
    int64_t factor = random_between(random, 2, count);
    while (count % factor != 0) --factor;
    if (factor > 1) shape.push_back(factor);
    count /= std::max<int64_t>(factor, 1);
  }
  if (random.below(3) == 0) shape.push_back(1);
  return shape;
}

/// A map of at most about `max_points` points, constraints or not.
inline IndexingMap random_map(Random& random, int64_t max_points = 3000, int results = 2) {
  IndexingMap map;
  int64_t points = 1;
  const auto range = [&] {
    int64_t extent = random_extent(random);
    while (points * extent > max_points) extent = std::max<int64_t>(extent / 2, 1);
    points *= extent;
    if (random.below(60) == 0) extent = 0;
    const int64_t lo = random.below(4) == 0 ? random_between(random, -9, 9) : 0;
    return Interval{lo, lo + extent - 1};
  };
  for (uint64_t i = random.below(4); i > 0; --i) map.dims.push_back(range());
  for (uint64_t i = random.below(3); i > 0; --i) map.ranges.push_back(range());
  for (uint64_t i = random.below(3); i > 0; --i) {
    const std::vector<Expr> element{random_expr(random, map, 1)};
    map.runtime.push_back({random_between(random, 0, 1), static_cast<int>(random.below(2)), element, range()});
  }
  for (int i = 0; i < results; ++i) map.results.push_back(random_expr(random, map, static_cast<int>(random.below(5))));
  for (uint64_t i = random.below(4); i > 0; --i) {
    const Expr expr = random_expr(random, map, static_cast<int>(random.below(3)));
    const int64_t lo = random_between(random, -40, 20);
    map.constraints.push_back({expr, {lo, lo + random_between(random, 0, random.below(2) == 0 ? 20 : 2000)}});
    if (results == 0 || random.below(3) != 0) continue;
    // A result that the constraint says something of, or nearly so.
    const Expr variable = random_variable(random, map) * random_between(random, -2, 2);
    const Expr near = expr * random_between(random, -3, 3) + variable + random_between(random, -5, 5);
    map.results[random.below(map.results.size())] = floor_div(near, random_extent(random));
  }
  return map;
}

}  // namespace strata::indexing
