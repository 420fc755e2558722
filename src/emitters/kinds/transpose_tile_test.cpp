#include "emitters/kinds/transpose_tile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "hlo/shape.h"
#include "indexing/enumerate.h"
#include "indexing/map_checks.h"

namespace strata::emitters {
namespace {

Permutation permutation(const std::vector<int64_t>& dims, const std::vector<int64_t>& dimensions) {
  std::vector<int64_t> result;
  for (const int64_t dim : dimensions) result.push_back(dims[static_cast<size_t>(dim)]);
  return permutation_of(hlo::array_shape(hlo::ElementType::F32, dims), hlo::array_shape(hlo::ElementType::F32, result),
                        dimensions)
      .value_or(Permutation{});
}

TransposeTraffic traffic(int64_t bytes) { return {{bytes}, bytes, bytes}; }

TEST(Permutation, NormalForms) {
  EXPECT_EQ(permutation({8, 9}, {1, 0}).text(), "8x9 by 1,0");
  EXPECT_EQ(permutation({2, 3, 4, 5}, {2, 3, 0, 1}).text(), "6x20 by 1,0");
  EXPECT_EQ(permutation({2, 3, 4, 5}, {0, 1, 3, 2}).text(), "6x4x5 by 0,2,1");
  EXPECT_EQ(permutation({2, 1, 4, 1, 5}, {4, 3, 1, 0, 2}).text(), "8x5 by 1,0");
  EXPECT_EQ(permutation({2, 1, 4}, {1, 0, 2}).rank(), 0u);
  EXPECT_EQ(permutation({2, 0, 4}, {1, 0, 2}).rank(), 0u);
  EXPECT_EQ(permutation({2, 3, 4, 5, 6, 7}, {5, 3, 1, 4, 0, 2}).rank(), 6u);
  // The layout moves what the dimensions do not.
  const hlo::Shape a = hlo::array_shape(hlo::ElementType::F32, {8, 9}, {0, 1});
  const hlo::Shape b = hlo::array_shape(hlo::ElementType::F32, {8, 9}, {1, 0});
  EXPECT_EQ(permutation_of(a, b, {0, 1})->text(), "9x8 by 1,0");
}

/// The tile in shared memory of a large transpose, as chosen.
std::string lies(const std::vector<int64_t>& dims, const std::vector<int64_t>& dimensions, int64_t bytes) {
  const TransposeTile tile = choose_transpose_tile(permutation(dims, dimensions), traffic(bytes), default_target());
  const TransposeMaps maps = transpose_maps(tile);
  return fmt::format("{} by {} threads, read {}, write {}x{}; {}", fmt::join(tile.extents, "x"), tile.threads,
                     tile.read_vector, tile.write_vector, tile.pack, choose_shared_layout(tile, maps, bytes).text());
}

TEST(TransposeTile, WhatIsChosenForLargeTransposes) {
  EXPECT_EQ(lies({8192, 8192}, {1, 0}, 1),
            "128x128 by 256 threads, read 16, write 16x4; "
            "128x128 of 1 byte, padded by 16, rows in groups of 1, 0 bank conflicts in 36 accesses");
  EXPECT_EQ(lies({8192, 8192}, {1, 0}, 2),
            "64x128 by 256 threads, read 8, write 8x2; "
            "64x128 of 2 bytes, padded by 8, rows in groups of 1, 0 bank conflicts in 36 accesses");
  EXPECT_EQ(lies({8192, 8192}, {1, 0}, 4),
            "64x64 by 256 threads, read 4, write 4x1; "
            "64x64 of 4 bytes, swizzled by 1, 0 bank conflicts in 32 accesses");
  EXPECT_EQ(lies({8192, 8192}, {1, 0}, 8),
            "32x64 by 256 threads, read 2, write 2x1; "
            "32x64 of 8 bytes, swizzled by 1, 0 bank conflicts in 16 accesses");
  EXPECT_EQ(lies({8192, 8192}, {1, 0}, 16),
            "32x32 by 256 threads, read 1, write 1x1; "
            "32x32 of 16 bytes, swizzled by 1, 0 bank conflicts in 8 accesses");
  EXPECT_EQ(lies({64, 1024, 1000}, {0, 2, 1}, 2),
            "1x64x128 by 256 threads, read 8, write 8x2; "
            "64x128 of 2 bytes, padded by 8, rows in groups of 1, 0 bank conflicts in 36 accesses");
  EXPECT_EQ(lies({64, 1024, 1000}, {0, 2, 1}, 4),
            "1x64x64 by 256 threads, read 4, write 4x1; "
            "64x64 of 4 bytes, swizzled by 1, 0 bank conflicts in 32 accesses");
  EXPECT_EQ(lies({1000, 700, 3}, {1, 0, 2}, 4),
            "32x32x3 by 256 threads, read 4, write 4x1; "
            "32x96 of 4 bytes, padded by 0, 32 bank conflicts in 20 accesses");
  EXPECT_EQ(lies({32, 50176, 3}, {0, 2, 1}, 4),
            "1x1024x3 by 256 threads, read 4, write 4x1; "
            "1024x3 of 4 bytes, padded by 0, rows in groups of 1, 8 bank conflicts in 32 accesses");
}

TEST(TransposeTile, SmallOnesHaveSmallTiles) {
  const TransposeTile tile = choose_transpose_tile(permutation({256, 256}, {1, 0}), traffic(4), default_target());
  EXPECT_EQ(tile.extents, (std::vector<int64_t>{32, 32}));
}

/// As many blocks as there are multiprocessors, or tiles of a sector at each side.
TEST(TransposeTile, SumsAreSharedByManyBlocks) {
  const Permutation attention = permutation({4, 96, 5, 26}, {3, 0, 2, 1});
  TransposeTraffic moved = traffic(2);
  EXPECT_EQ(choose_transpose_tile(attention, moved, default_target()).blocks(), 4);
  moved.terms = 43;
  const TransposeTile tile = choose_transpose_tile(attention, moved, default_target());
  EXPECT_EQ(tile.extents, (std::vector<int64_t>{1, 16, 1, 26}));
  EXPECT_EQ(tile.blocks(), 120);
  // Where there are enough, lines stay whole.
  const Permutation large = permutation({8192, 8192}, {1, 0});
  EXPECT_EQ(choose_transpose_tile(large, moved, default_target()).extents,
            choose_transpose_tile(large, traffic(2), default_target()).extents);
}

/// A permutation of 2 to 6 dimensions.
Permutation random_permutation() {
  const auto rank = static_cast<size_t>(*rc::gen::inRange(2, 7));
  std::vector<int64_t> dimensions(rank), dims;
  std::iota(dimensions.begin(), dimensions.end(), 0);
  for (size_t i = rank - 1; i > 0; --i) std::swap(dimensions[i], dimensions[*rc::gen::inRange<size_t>(0, i + 1)]);
  int64_t left = 4000;
  for (size_t i = 0; i < rank; ++i) {
    dims.push_back(*rc::gen::inRange<int64_t>(1, std::clamp<int64_t>(left, 2, 130)));
    left /= dims.back();
  }
  return permutation(dims, dimensions);
}

RC_GTEST_PROP(TransposeTile, MapsVisitEveryElementOnce, ()) {
  const Permutation moved = random_permutation();
  if (moved.rank() == 0) return;
  const int64_t bytes = *rc::gen::element<int64_t>(1, 2, 4, 8, 16);
  Target target = default_target();
  target.multiprocessors = *rc::gen::element(1, 132);  // larger and smaller tiles
  const TransposeTile tile = choose_transpose_tile(moved, traffic(bytes), target);
  const TransposeMaps maps = transpose_maps(tile);
  constexpr int64_t kPoints = 1 << 20;
  RC_ASSERT(indexing::writes_bijectively(maps.write, moved.result_dims(), kPoints).proved());
  RC_ASSERT(indexing::writes_bijectively(maps.read, moved.dims, kPoints).proved());
  // What is filled for an element is what is drained for it: the same place of the tile, by whichever thread.
  std::map<std::vector<int64_t>, std::vector<int64_t>> places;  // of the operand's indices: block, row and column
  const auto visit = [&](const indexing::IndexingMap& map, const std::vector<indexing::Expr>& shared, bool result) {
    indexing::for_each_point(map, [&](const indexing::Point& point) {
      std::vector<int64_t> index = *indexing::evaluate(map, point);
      if (result) {
        std::vector<int64_t> moved_back(index.size());
        for (size_t i = 0; i < index.size(); ++i) moved_back[static_cast<size_t>(moved.order[i])] = index[i];
        index = moved_back;
      }
      const std::vector<int64_t> place{point.dims[0], *indexing::evaluate(shared[0], point),
                                       *indexing::evaluate(shared[1], point)};
      RC_ASSERT(place[1] < maps.shared_shape[0] && place[2] < maps.shared_shape[1]);
      const auto [known, added] = places.emplace(index, place);
      RC_ASSERT(known->second == place && added != result);
      return true;
    });
  };
  const SharedLayout layout = choose_shared_layout(tile, maps, bytes);
  visit(maps.read, layout.fill, false);
  visit(maps.write, layout.drain, true);
}

}  // namespace
}  // namespace strata::emitters
