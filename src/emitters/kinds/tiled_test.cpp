#include "emitters/kinds/tiled.h"

#include <gtest/gtest.h>

#include <map>
#include <span>

#include "indexing/enumerate.h"

namespace strata::emitters {
namespace {

TiledReduction rows(int64_t length, int64_t threads, int64_t vector) {
  TiledReduction tiled;
  tiled.tiling = {
      {5, length}, {1, threads}, {1, indexing::ceil_div(indexing::ceil_div(length, vector), threads)}, {1, vector}};
  tiled.reduced = {false, true};
  return tiled;
}

/// Every element is in one loop, once; vectors begin at multiples of their length in memory, and where loops that keep
/// their elements in shared memory have them, at multiples there too.
void check(const TiledReduction& tiled) {
  const int64_t length = tiled.tiling.shape[1];
  const int64_t width = tiled.tiling.vector[1];
  std::map<std::pair<int64_t, int64_t>, int> visits;
  int64_t singles = 0;
  for (const ElementLoop& loop : tiled.loops()) {
    indexing::for_each_point(loop.points, [&](const indexing::Point& point) {
      const std::vector<int64_t> at = *indexing::evaluate(loop.points, point);
      ++visits[{at[0], at[1]}];
      const bool vector = loop.points.ranges.back().hi == width - 1;
      singles += vector ? 0 : 1;
      if (vector) {
        EXPECT_EQ((at[0] * length + at[1] - point.ranges.back()) % width, 0);
      }
      if (loop.in_shared) {
        const indexing::Point index{std::span(at).first(2), {}, {}};
        const int64_t place =
            *indexing::evaluate(tiled.place_in_shared({indexing::Expr::dim(0), indexing::Expr::dim(1)}), index);
        EXPECT_GE(place, 0);
        EXPECT_LT(place, tiled.most_in_shared());
        EXPECT_EQ((place - point.ranges.back()) % width, 0);
      }
      return true;
    });
  }
  EXPECT_EQ(visits.size(), static_cast<size_t>(5 * length));
  for (const auto& [at, count] : visits) EXPECT_EQ(count, 1) << at.first << ", " << at.second;
  EXPECT_LE(singles, 5 * 2 * (width - 1));
}

TEST(TiledReduction, RowsThatBeginAnywhere) {
  for (int64_t length = 33; length <= 50; ++length) {
    for (const int64_t width : {2, 4, 8}) {
      for (const int64_t in_registers : {0, 1}) {
        SCOPED_TRACE(testing::Message() << length << " by " << width << ", " << in_registers << " in registers");
        TiledReduction tiled = rows(length, 16, width);
        tiled.aligned_rows = true;
        tiled.in_registers = tiled.tiling.unroll[1] > 1 ? in_registers : 0;
        check(tiled);
      }
    }
  }
}

/// One row, which blocks share.
TEST(TiledReduction, AnArrayOfAnyLength) {
  for (int64_t length = 33; length <= 300; ++length) {
    for (const int64_t width : {2, 4, 8}) {
      if (length % width == 0) continue;
      for (const int64_t unroll : {1, 2, 8}) {
        TiledReduction tiled;
        tiled.tiling = {{length}, {16}, {unroll}, {width}};
        tiled.reduced = {true};
        tiled.aligned_rows = true;
        std::map<int64_t, int> visits;
        int64_t singles = 0;
        for (const ElementLoop& loop : tiled.loops()) {
          indexing::for_each_point(loop.points, [&](const indexing::Point& point) {
            const int64_t at = (*indexing::evaluate(loop.points, point))[0];
            ++visits[at];
            const bool vector = loop.points.ranges.back().hi == width - 1;
            singles += vector ? 0 : 1;
            if (vector) {
              EXPECT_EQ((at - point.ranges.back()) % width, 0);
            }
            return true;
          });
        }
        EXPECT_EQ(visits.size(), static_cast<size_t>(length));
        for (const auto& [at, count] : visits) EXPECT_EQ(count, 1) << at << " of " << length << " by " << width;
        EXPECT_EQ(singles, length % width);
      }
    }
  }
}

/// Rows of three dimensions that begin anywhere, the outer one reduced as well, which blocks share.
TEST(TiledReduction, RowsOfSeveralDimensions) {
  constexpr int64_t kOuter = 3, kKept = 5;
  for (int64_t length = 65; length <= 81; ++length) {
    for (const auto& [unroll, together] : {std::pair(1, 1), std::pair(2, 1), std::pair(8, 1), std::pair(2, 2)}) {
      constexpr int64_t kWidth = 4;
      TiledReduction tiled;
      const int64_t repeat = indexing::ceil_div(kOuter, int64_t{together});
      tiled.tiling = {{kOuter, kKept, length}, {together, 1, 8}, {repeat, 1, unroll}, {1, 1, kWidth}};
      tiled.reduced = {true, false, true};
      tiled.aligned_rows = true;
      std::map<std::vector<int64_t>, int> visits;
      std::map<std::pair<int64_t, int64_t>, int> places;  // of each row that is kept
      int64_t singles = 0;
      for (const ElementLoop& loop : tiled.loops()) {
        indexing::for_each_point(loop.points, [&](const indexing::Point& point) {
          std::vector<int64_t> at = *indexing::evaluate(loop.points, point);
          at.resize(3);
          ++visits[at];
          const bool vector = loop.points.ranges.back().hi == kWidth - 1;
          singles += vector ? 0 : 1;
          if (vector) {
            EXPECT_EQ(((at[0] * kKept + at[1]) * length + at[2] - point.ranges.back()) % kWidth, 0);
          }
          if (!loop.in_shared) return true;
          const indexing::Point index{std::span(at), {}, {}};
          const int64_t place = *indexing::evaluate(
              tiled.place_in_shared({indexing::Expr::dim(0), indexing::Expr::dim(1), indexing::Expr::dim(2)}), index);
          EXPECT_GE(place, 0);
          EXPECT_LT(place, tiled.most_in_shared());
          EXPECT_EQ((place - point.ranges.back()) % kWidth, 0);
          EXPECT_EQ(++places[std::pair(at[1], place)], 1);
          return true;
        });
      }
      EXPECT_EQ(visits.size(), static_cast<size_t>(kOuter * kKept * length));
      for (const auto& [at, count] : visits) EXPECT_EQ(count, 1) << length << " by " << unroll;
      EXPECT_LE(singles, kOuter * kKept * 2 * (kWidth - 1));
    }
  }
}

TEST(TiledReduction, RepetitionsInRegisters) {
  TiledReduction tiled = rows(16 * 4 * 11 + 20, 16, 4);
  for (const int64_t in_registers : {0, 1, 8, 9, 11}) {
    SCOPED_TRACE(in_registers);
    tiled.in_registers = in_registers;
    check(tiled);
  }
  // The one whose elements are in shared memory, then short ones, which disappear.
  tiled.in_registers = 9;
  const std::vector<ElementLoop> loops = tiled.loops();
  ASSERT_EQ(loops.size(), 3u);
  EXPECT_EQ(loops[0].points.ranges[1], (indexing::Interval{9, 11}));
  EXPECT_EQ(loops[1].points.ranges[1], (indexing::Interval{0, 7}));
  EXPECT_EQ(loops[2].points.ranges[1], (indexing::Interval{8, 8}));
  EXPECT_TRUE(loops[0].in_shared);
  EXPECT_FALSE(loops[2].in_shared);
  EXPECT_EQ(tiled.most_in_shared(), 16 * 4 * 2 + 20);
}

}  // namespace
}  // namespace strata::emitters
