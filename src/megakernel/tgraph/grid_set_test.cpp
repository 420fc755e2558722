#include "megakernel/tgraph/grid_set.h"

#include <gtest/gtest.h>

#include <set>

#include "indexing/interval.h"
#include "support/random.h"

namespace strata::megakernel {
namespace {

/// A random set of blocks, as numbers.
std::set<int64_t> random_numbers(Random& random, int64_t count) {
  std::set<int64_t> numbers;
  const uint64_t density = 1 + random.below(8);
  for (int64_t n = 0; n < count; ++n) {
    if (random.below(8) < density) numbers.insert(n);
  }
  return numbers;
}

std::set<int64_t> numbers_of(const GridSet& set, const std::vector<int64_t>& grid) {
  std::set<int64_t> numbers;
  int64_t before = -2;
  set.for_each_run(grid, [&](int64_t first, int64_t last) {
    EXPECT_LE(first, last);
    EXPECT_GT(first, before + 1) << "runs that are one";
    before = last;
    for (int64_t n = first; n <= last; ++n) numbers.insert(n);
  });
  return numbers;
}

TEST(GridSet, IsASetAndHasOneForm) {
  Random random(1);
  for (int test = 0; test < 1500; ++test) {
    std::vector<int64_t> grid;
    for (uint64_t g = 1 + random.below(3); g > 0; --g) grid.push_back(1 + static_cast<int64_t>(random.below(6)));
    const int64_t count = *indexing::element_count(grid);
    const std::set<int64_t> a = random_numbers(random, count), b = random_numbers(random, count);
    const GridSet x = GridSet::of({a.begin(), a.end()}, grid), y = GridSet::of({b.begin(), b.end()}, grid);
    EXPECT_EQ(numbers_of(x, grid), a);
    EXPECT_EQ(x.count(), static_cast<int64_t>(a.size()));
    std::set<int64_t> either = a, both, rest;
    either.insert(b.begin(), b.end());
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.end()));
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(rest, rest.end()));
    // Equal sets are equal values, however they were made.
    for (const auto& [made, expected] :
         {std::pair(unite(x, y), either), {intersect(x, y), both}, {subtract(x, y), rest}}) {
      EXPECT_EQ(numbers_of(made, grid), expected);
      const GridSet direct = GridSet::of({expected.begin(), expected.end()}, grid);
      EXPECT_EQ(made, direct);
      EXPECT_EQ(made.hash(), direct.hash());
      EXPECT_EQ(made.empty(), expected.empty());
      if (!expected.empty()) {
        EXPECT_EQ(number_of(made.first(), grid), *expected.begin());
      }
    }
    for (int64_t n = 0; n < count; ++n) EXPECT_EQ(x.contains(block_of(n, grid)), a.contains(n));
    EXPECT_EQ(subtract(GridSet::all(grid), GridSet::all(grid)), GridSet());
  }
}

TEST(GridSet, OfStridedBoxes) {
  Random random(2);
  for (int test = 0; test < 500; ++test) {
    BlockBox box;
    std::vector<int64_t> grid;
    for (int g = 0; g < 2; ++g) {
      StridedRange& range = box.emplace_back();
      range.first = static_cast<int64_t>(random.below(4));
      int64_t reach = 1;
      for (uint64_t level = random.below(3); level > 0; --level) {
        const int64_t step = reach + static_cast<int64_t>(random.below(3));
        const int64_t count = 1 + static_cast<int64_t>(random.below(4));
        range.levels.push_back({step, count});
        reach = step * (count - 1) + reach;
      }
      grid.push_back(range.first + reach + 2);
    }
    const GridSet set = GridSet::of(box);
    EXPECT_EQ(set.count(), BlockSet{{box}}.count());
    for (int64_t n = 0; n < grid[0] * grid[1]; ++n) {
      const Coordinates block = block_of(n, grid);
      EXPECT_EQ(set.contains(block), BlockSet{{box}}.contains(block));
    }
  }
}

TEST(GridSet, LargeGridsAreFewParts) {
  const std::vector<int64_t> grid{10000, 10000};
  const GridSet column = GridSet::of(BlockBox{{0, {{1, 10000}}}, {77, {}}});
  const GridSet row = GridSet::of(BlockBox{{77, {}}, {0, {{1, 10000}}}});
  const GridSet rest = subtract(subtract(GridSet::all(grid), column), row);
  EXPECT_EQ(rest.count(), 9999 * 9999);
  EXPECT_EQ(rest.parts().size(), 2U);
  EXPECT_EQ(unite(unite(rest, column), row), GridSet::all(grid));
}

}  // namespace
}  // namespace strata::megakernel
