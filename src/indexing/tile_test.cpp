#include "indexing/tile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "indexing/enumerate.h"
#include "indexing/random_maps.h"
#include "indexing/simplify.h"
#include "support/random.h"

namespace strata::indexing {
namespace {

IndexingMap parsed(const std::string& text) {
  Result<IndexingMap> map = parse_indexing_map(text);
  EXPECT_TRUE(map) << map.error().message;
  return simplify(*map);
}

/// What a map makes of a tile whose dimensions have these sizes and stand anywhere that is a multiple of them.
std::string image(const std::string& text, const std::vector<int64_t>& sizes) {
  Tile tile;
  for (const int64_t size : sizes) tile.push_back({.size = size, .multiple = size});
  const auto found = image_of(tile, parsed(text));
  return found ? to_string(*found) : "none";
}

TEST(Tile, FollowsWhatMovesElements) {
  EXPECT_EQ(image("(d0, d1) -> (d1, d0), domain: d0 in [0, 99], d1 in [0, 63]", {1, 32}), "[32, 1]");
  EXPECT_EQ(image("(d0, d1) -> (d1), domain: d0 in [0, 99], d1 in [0, 63]", {4, 32}), "[32]");
  EXPECT_EQ(image("(d0) -> (d0 * 3 + 5), domain: d0 in [0, 99]", {32}), "[32:3 from 5]");
  EXPECT_EQ(image("(d0) -> (99 - d0), domain: d0 in [0, 99]", {32}), "[32 from 68]");
  // A sum's terms, all of them.
  EXPECT_EQ(image("(d0)[s0] -> (d0, s0), domain: d0 in [0, 99], s0 in [0, 999]", {4}), "[4, 1000]");
}

TEST(Tile, IsABoxOfAReshapeWhereItFits) {
  const std::string split = "(d0) -> (d0 floordiv 40, d0 mod 40), domain: d0 in [0, 3999]";
  EXPECT_EQ(image(split, {20}), "[1, 20]");
  EXPECT_EQ(image(split, {80}), "[2, 40]");
  // Of others the box around them.
  EXPECT_EQ(image(split, {32}), "[2, 40]");
  const std::string joined = "(d0, d1) -> (d0 * 40 + d1), domain: d0 in [0, 99], d1 in [0, 39]";
  EXPECT_EQ(image(joined, {2, 40}), "[80]");
  EXPECT_EQ(image(joined, {2, 20}), "[2 runs of 20]");
}

TEST(Tile, OverlapsInWindows) {
  const auto window = [](int stride, int dilation) {
    return "(d0)[s0] -> (d0 * " + std::to_string(stride) + " + s0 * " + std::to_string(dilation) +
           "), domain: d0 in [0, 99], s0 in [0, 2]";
  };
  EXPECT_EQ(image(window(1, 1), {8}), "[10]");
  EXPECT_EQ(image(window(2, 1), {8}), "[17]");
  EXPECT_EQ(image(window(4, 1), {8}), "[8 runs of 3]");
  EXPECT_EQ(image(window(1, 16), {8}), "[3 runs of 8]");
}

TEST(Tile, StaysWithinADomain) {
  const std::string padded = "(d0) -> (d0 - 3), domain: d0 in [3, 12]";
  EXPECT_EQ(to_string(*image_of(whole_tile({20}), parsed(padded))), "[10]");
  EXPECT_EQ(image(padded, {16}), "[10 from -3]");
}

TEST(Tile, IsBoundByConstraintsOnResults) {
  EXPECT_EQ(
      to_string(*image_of(whole_tile({100, 10}),
                          parsed("(d0, d1) -> (d0 + d1), domain: d0 in [0, 99], d1 in [0, 9], d0 + d1 in [0, 49]"))),
      "[50]");
}

TEST(Tile, AddsTermsFromTheSmallestStepOn) {
  EXPECT_EQ(
      image("(d0, d1)[s0] -> (d0 + d1 * 100 + s0 * 10), domain: d0 in [0, 9], d1 in [0, 9], s0 in [0, 9]", {10, 10}),
      "[1000]");
}

TEST(Tile, RunsFoldOntoEachOther) {
  const auto folded = [](int pitch, int step) {  // not simplified
    const auto map = parse_indexing_map("(d0)[s0] -> ((d0 * " + std::to_string(pitch) + " + s0 * " +
                                        std::to_string(step) + ") mod 50), domain: d0 in [0, 99], s0 in [0, 9]");
    return to_string(*image_of({{.size = 8, .multiple = 8}}, *map));
  };
  EXPECT_EQ(folded(100, 1), "[10]");
  EXPECT_EQ(folded(100, 7), "[50]") << "all the way around";
  EXPECT_EQ(folded(104, 7), "[50]");
}

TEST(Tile, KnowsWhatItsOffsetsAreMultiplesOf) {
  const auto found = image_of({{.size = 32, .multiple = 32}}, parsed("(d0) -> (d0 * 3), domain: d0 in [0, 99]"));
  EXPECT_EQ((*found)[0].multiple, 96);
}

TEST(Tile, FollowsRuntimeValuesOnce) {
  // Rows of a table, and single elements of one, by two indices each.
  EXPECT_EQ(
      image("(d0, d1){rt0} -> (rt0, d1), domain: d0 in [0, 99], d1 in [0, 63], rt0 = 3:1[d0] in [0, 999]", {4, 64}),
      "[4 runs of 1, 64]");
  EXPECT_EQ(image("(d0){rt0, rt1} -> (rt0, rt1), domain: d0 in [0, 99], rt0 = 3:1[d0, 0] in [0, 999], "
                  "rt1 = 3:1[d0, 1] in [0, 999]",
                  {32}),
            "[32 runs of 1, 1]");
  // There are no more rows than that, but as many elements of all of them.
  EXPECT_EQ(image("(d0){rt0, rt1} -> (rt0, rt1), domain: d0 in [0, 99999], rt0 = 3:1[d0, 0] in [0, 3], "
                  "rt1 = 3:1[d0, 1] in [0, 9999]",
                  {256}),
            "[256 runs of 1, 1]");
  EXPECT_EQ(image("(d0){rt0} -> (rt0), domain: d0 in [0, 99999], rt0 = 3:1[d0] in [0, 3]", {256}), "[4 runs of 1]");
  // Batches have rows of their own, and columns elements.
  EXPECT_EQ(
      image("(d0, d1){rt0} -> (d0, rt0, d1), domain: d0 in [0, 99], d1 in [0, 63], rt0 = 3:1[d0] in [0, 999]", {4, 64}),
      "[1, 4 runs of 1, 64]");
  // One place for all of it.
  EXPECT_EQ(image("(d0){rt0} -> (rt0 + d0), domain: d0 in [0, 99], rt0 = 3:1[] in [0, 999]", {32}), "[32]");
  EXPECT_EQ(image("(d0, d1) -> (d0 * d1), domain: d0 in [0, 99], d1 in [0, 63]", {4, 4}), "none");
}

TEST(Tile, OfNothingIsEmpty) {
  IndexingMap map = parsed("(d0, d1) -> (d1, d0), domain: d0 in [0, 99], d1 in [0, 63]");
  EXPECT_EQ(elements_of(*image_of({{.size = 0}, {.size = 5}}, map)), 0);
  map.known_empty = true;
  EXPECT_EQ(elements_of(*image_of({{.size = 4}, {.size = 5}}, map)), 0);
}

TEST(Tile, JoinsBoxesThatAreOne) {
  const auto joined = [](const Tile& a, const Tile& b) {
    const auto both = union_of(a, b);
    EXPECT_EQ(both.has_value(), union_of(b, a).has_value());
    return both ? to_string(*both) : "none";
  };
  EXPECT_EQ(joined({{.size = 10}, {.size = 5, .offset = 1}}, {{.size = 10}, {.size = 5, .offset = 3}}),
            "[10, 7 from 1]");
  EXPECT_EQ(joined({{.size = 10}, {.size = 20, .offset = 1}}, {{.size = 10}, {.size = 5, .offset = 3}}),
            "[10, 20 from 1]");
  EXPECT_EQ(joined({{.size = 2}}, {{.size = 3, .offset = 2}}), "[5]");
  EXPECT_EQ(joined({{.size = 2}}, {{.size = 3, .offset = 3}}), "none");
  EXPECT_EQ(joined({{.size = 2}, {.size = 2}}, {{.size = 3}, {.size = 3}}), "none");
  EXPECT_EQ(joined({{.size = 2, .multiple = 2}}, {{.size = 3}}), "none");
}

TEST(Tile, LiesAlongMemory) {
  EXPECT_EQ(to_string(tile_along_memory({64, 1024}, {1, 0}, 128)), "[1, 128]");
  EXPECT_EQ(to_string(tile_along_memory({64, 1024}, {0, 1}, 128)), "[64, 2]");
  EXPECT_EQ(to_string(tile_along_memory({1000, 50}, {1, 0}, 128)), "[3, 50]");
  EXPECT_EQ(to_string(tile_along_memory({5, 3}, {1, 0}, 128)), "[5, 3]");
}

TEST(Tile, MovesSectors) {
  const auto bytes = [](const Tile& tile, const std::vector<int64_t>& shape, int64_t element) {
    return moved_bytes(tile, *row_major_strides(shape), element, 32);
  };
  const std::vector<int64_t> shape{4096, 512};
  EXPECT_EQ(bytes(whole_tile(shape), shape, 4), 4096 * 512 * 4);
  EXPECT_EQ(bytes({{.size = 1, .multiple = 1}, {.size = 128, .multiple = 128}}, shape, 4), 512);
  EXPECT_EQ(bytes({{.size = 128, .multiple = 128}, {.size = 1, .multiple = 1}}, shape, 4), 128 * 32);
  // Columns of a slice, aligned or not; every other element; every eighth.
  EXPECT_EQ(bytes({{.size = 4096}, {.size = 16, .offset = 8}}, shape, 4), 4096 * 64);
  EXPECT_EQ(bytes({{.size = 4096}, {.size = 16, .offset = 1}}, shape, 4), 4096 * (64 + 28));
  EXPECT_EQ(bytes({{.size = 4096}, {.size = 256, .stride = 2}}, shape, 4), 4096 * 512 * 4);
  EXPECT_EQ(bytes({{.size = 4096}, {.size = 32, .stride = 16}}, shape, 4), 4096 * 32 * 32);
  // Rows whose pitch is no whole sectors begin anywhere by 16 bytes.
  EXPECT_EQ(moved_bytes({{.size = 8}, {.size = 8}}, {500, 1}, 4, 32), 8 * 48);
  // Gathered rows.
  EXPECT_EQ(bytes({{.runs = 100, .multiple = 1}, {.size = 512}}, shape, 4), 100 * 2048);
}

TEST(Tile, LiesApartByPieces) {
  const auto apart = [](const Tile& tile, int64_t element, int64_t unit) {
    return times_apart(tile, {512, 1}, element, unit);
  };
  EXPECT_EQ(apart({{.size = 1, .multiple = 1}, {.size = 24, .multiple = 24}}, 4, 128), 1) << "less than a line";
  EXPECT_EQ(apart({{.size = 128}, {.size = 1}}, 4, 128), 32);
  EXPECT_EQ(apart({{.size = 128}, {.size = 1}}, 4, 32), 8);
  EXPECT_EQ(apart({{.size = 8}, {.size = 16}}, 4, 128), 2);
  EXPECT_EQ(apart({{.size = 8}, {.size = 16}}, 4, 32), 1);
  EXPECT_EQ(apart({{.size = 1}, {.size = 128, .stride = 2}}, 4, 32), 2);
  EXPECT_EQ(apart({{.size = 0}, {.size = 128}}, 4, 32), 1);
}

/// Whether positions lie in a dimension of a tile, whatever multiple its offset has.
bool holds(const TileDim& dim, std::set<int64_t> positions) {
  const auto begins = [&](int64_t at) {
    const int64_t from = at - dim.offset;
    return dim.multiple == 0 ? from == 0 : from % dim.multiple == 0;
  };
  const auto in_run = [&](int64_t at, int64_t begin) {
    return at >= begin && (at - begin) % dim.stride == 0 && (at - begin) / dim.stride < dim.size;
  };
  // Runs that each hold as many of what is left as they can, the first position among them.
  for (int64_t run = 0; run < dim.runs && !positions.empty(); ++run) {
    int64_t best = 0, most = 0;
    for (int64_t i = 0; i < dim.size; ++i) {
      const int64_t begin = *positions.begin() - i * dim.stride;
      if (dim.runs == 1 && !begins(begin)) continue;
      const auto held = std::ranges::count_if(positions, [&](int64_t at) { return in_run(at, begin); });
      if (held > most) {
        most = held;
        best = begin;
      }
    }
    if (most == 0) return false;
    std::erase_if(positions, [&](int64_t at) { return in_run(at, best); });
  }
  return positions.empty();
}

/// Random maps with constraints on results, ranges that begin anywhere and runtime variables.
IndexingMap random_tiled_map(Random& random) {
  IndexingMap map;
  for (uint64_t d = 0; d < 1 + random.below(3); ++d)
    map.dims.push_back(random.below(4) == 0 ? Interval{random_between(random, 0, 4), random_between(random, 5, 40)}
                                            : Interval{-1000, 1000});
  if (random.below(2) == 0) {
    const int64_t first = random_between(random, -3, 3);
    map.ranges.push_back({first, first + random_between(random, 0, 4)});
  }
  const bool by_runtime = random.below(3) == 0;
  for (int r = 0; by_runtime && r < 2; ++r) {
    RuntimeVariable variable{7, r, {}, below(random_between(random, 1, 40))};
    variable.element.push_back(Expr::dim(static_cast<int>(random.below(map.dims.size()))));
    if (random.below(3) == 0) variable.element.push_back(random_expr(random, {.dims = map.dims}, 1));
    map.runtime.push_back(variable);
  }
  for (uint64_t r = 0; r < 1 + random.below(3); ++r) {
    Expr result = random_expr(random, {.dims = map.dims, .ranges = map.ranges}, static_cast<int>(random.below(4)));
    if (by_runtime && random.below(2) == 0) result = result + Expr::runtime(static_cast<int>(random.below(2)));
    map.results.push_back(result);
    if (random.below(4) == 0) map.constraints.push_back({result, {0, random_between(random, 0, 50)}});
  }
  return map;
}

/// Some value of each runtime variable, the same wherever what it depends on is.
std::vector<int64_t> runtime_values(const IndexingMap& map, const Point& point) {
  std::vector<int64_t> values;
  for (const RuntimeVariable& variable : map.runtime) {
    uint64_t mixed = 88172645463325252ULL + static_cast<uint64_t>(variable.operand);
    for (const Expr& index : variable.element)
      mixed = Random(mixed ^ static_cast<uint64_t>(evaluate(index, point).value_or(0)))();
    values.push_back(static_cast<int64_t>(mixed % static_cast<uint64_t>(variable.range.size())));
  }
  return values;
}

TEST(TileProperty, ImagesHoldWhatMapsReach) {
  int compared = 0, as_large = 0, with_places = 0;
  for (uint64_t seed = 1; seed <= 6000; ++seed) {
    Random random(seed);
    const IndexingMap map = random_tiled_map(random);
    if (map.is_undefined()) continue;
    Tile tile, placed;
    for (size_t d = 0; d < map.dims.size(); ++d) {
      TileDim dim{.size = random_between(random, 1, 6), .stride = random_between(random, 1, 3)};
      dim.offset = random_between(random, -5, 7);
      dim.multiple = random.below(3) == 0 ? 0 : random_extent(random);
      tile.push_back(dim);
      dim.offset += dim.multiple * random_between(random, 0, 5);
      placed.push_back(dim);
    }
    const std::optional<Tile> image = image_of(tile, map);
    if (!image) continue;
    // All points of the tile: numbers along its dimensions.
    IndexingMap points;
    for (const TileDim& dim : placed) points.dims.push_back(below(dim.size));
    points.ranges = map.ranges;
    std::vector<std::set<int64_t>> reached(map.results.size());
    std::set<std::vector<int64_t>> together;
    for_each_point(points, [&](const Point& at) {
      std::vector<int64_t> dims;
      for (size_t d = 0; d < placed.size(); ++d) dims.push_back(placed[d].offset + at.dims[d] * placed[d].stride);
      const std::vector<int64_t> values = runtime_values(map, {dims, at.ranges, {}});
      const Point point{dims, at.ranges, values};
      for (size_t d = 0; d < dims.size(); ++d)
        if (!map.dims[d].contains(dims[d])) return true;
      if (!in_domain(map, point)) return true;
      const auto found = evaluate(map, point);
      if (!found) return true;
      for (size_t r = 0; r < found->size(); ++r) reached[r].insert((*found)[r]);
      together.insert(*found);
      return true;
    });
    const auto text = [&] {
      return "seed " + std::to_string(seed) + ": " + to_string(map) + "\nof " + to_string(tile) + "\nis " +
             to_string(*image);
    };
    ASSERT_LE(static_cast<double>(together.size()), elements_of(*image)) << text();
    const bool by_runtime =
        std::ranges::any_of(map.results, [](const Expr& result) { return result.uses(ExprKind::Runtime); });
    with_places += by_runtime ? 1 : 0;
    for (size_t r = 0; r < reached.size() && !by_runtime; ++r) {
      ++compared;
      as_large += static_cast<int64_t>(reached[r].size()) == (*image)[r].count() ? 1 : 0;
      ASSERT_TRUE(holds((*image)[r], reached[r])) << text();
    }
  }
  EXPECT_GT(compared, 3000);
  EXPECT_GT(with_places, 500);
  EXPECT_GT(as_large, compared / 3) << "boxes far larger than what is in them";
}

TEST(TileProperty, BytesAreThoseOfTheUnitsTouched) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Random random(seed);
    const std::vector<int64_t> shape{random_between(random, 40, 90), random_between(random, 40, 90),
                                     random_between(random, 40, 90)};
    const std::vector<int64_t> strides = *row_major_strides(shape);
    const int64_t element = int64_t{1} << random.below(4);
    // The mean over where the tile may stand.
    Tile tile;
    for (int d = 0; d < 3; ++d) {
      TileDim dim{.size = random_between(random, 1, 8), .stride = random_between(random, 1, 2), .multiple = 1};
      tile.push_back(dim);
    }
    double units = 0;
    constexpr int kPlaces = 32;
    for (int place = 0; place < kPlaces; ++place) {
      std::set<int64_t> touched;
      const int64_t at[3] = {random_between(random, 0, 20), random_between(random, 0, 20), place % 20};
      for (int64_t i = 0; i < tile[0].size; ++i)
        for (int64_t j = 0; j < tile[1].size; ++j)
          for (int64_t k = 0; k < tile[2].size; ++k) {
            const int64_t element_at = (at[0] + i * tile[0].stride) * strides[0] +
                                       (at[1] + j * tile[1].stride) * strides[1] + at[2] + k * tile[2].stride;
            touched.insert(element_at * element / 32);
          }
      units += static_cast<double>(touched.size()) / kPlaces;
    }
    const double bytes = moved_bytes(tile, strides, element, 32);
    ASSERT_NEAR(bytes / (32 * units), 1, 0.25) << "seed " << seed << ": " << to_string(tile) << ", bytes " << element;
  }
}

}  // namespace
}  // namespace strata::indexing
