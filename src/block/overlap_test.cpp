#include "block/overlap.h"

#include <gtest/gtest.h>

#include <set>

#include "block/regions.h"
#include "indexing/enumerate.h"
#include "indexing/random_maps.h"

namespace strata {
namespace {

using indexing::Expr;
using indexing::IndexingMap;
using indexing::random_between;
using Block = std::vector<int64_t>;

/// By block, the positions of the elements that the map names; those outside of the tensor are nobody's.
std::map<Block, std::set<int64_t>> touched(const IndexingMap& map, const Shape& tensor) {
  std::map<Block, std::set<int64_t>> elements;
  IndexingMap blocks;
  blocks.dims = map.dims;
  for_each_point(blocks, [&](const indexing::Point& point) {
    elements[{point.dims.begin(), point.dims.end()}];
    return true;
  });
  for_each_point(map, [&](const indexing::Point& point) {
    const auto index = evaluate(map, point);
    int64_t position = 0;
    for (size_t d = 0; d < tensor.size(); ++d) {
      if (!index || !indexing::below(tensor[d]).contains((*index)[d])) return true;
      position = position * tensor[d] + (*index)[d];
    }
    elements[{point.dims.begin(), point.dims.end()}].insert(position);
    return true;
  });
  return elements;
}

/// Compares everything that a BlockOverlap says with all pairs of blocks.
void check(const IndexingMap& write, const IndexingMap& read, const Shape& tensor, const BlockOverlap& overlap) {
  SCOPED_TRACE(to_string(write) + "\nread by " + to_string(read));
  const auto written = touched(write, tensor);
  const auto wanted = touched(read, tensor);
  std::set<std::pair<Block, Block>> pairs, said;
  for (const auto& [p, elements] : written) {
    for (const auto& [c, others] : wanted) {
      const bool meet = std::any_of(elements.begin(), elements.end(), [&](int64_t e) { return others.count(e) > 0; });
      if (meet) pairs.emplace(p, c);
      if (overlap.overlaps(p, c)) said.emplace(p, c);
    }
  }
  EXPECT_TRUE(std::includes(said.begin(), said.end(), pairs.begin(), pairs.end()));
  if (overlap.exact()) {
    EXPECT_EQ(said, pairs);
  }
  EXPECT_EQ(overlap.empty() && !said.empty(), false);
  const auto partners = [&](bool of_consumers, const Block& block, const BlockSet& set) {
    std::set<Block> found;
    set.for_each([&](const Block& other) {
      EXPECT_TRUE(found.insert(other).second) << "twice";
      EXPECT_TRUE(set.contains(other));
    });
    EXPECT_EQ(set.count(), static_cast<int64_t>(found.size()));
    for (const auto& [p, c] : said) {
      if ((of_consumers ? c : p) != block) continue;
      EXPECT_TRUE(found.count(of_consumers ? p : c));
    }
    if (!set.exact) return;
    for (const Block& other : found) {
      EXPECT_TRUE(of_consumers ? pairs.count({other, block}) : pairs.count({block, other}));
    }
  };
  for (const auto& [c, elements] : wanted) partners(true, c, overlap.producers_of(c));
  for (const auto& [p, elements] : written) partners(false, p, overlap.consumers_of(p));
  if (const auto count = overlap.count()) {
    EXPECT_EQ(*count, static_cast<int64_t>(said.size()));
  }
  EXPECT_TRUE(!overlap.is_all_to_all() || said.size() == written.size() * wanted.size());
  bool one_to_one = written.size() == wanted.size() && pairs.size() == wanted.size();
  std::set<Block> from, to;
  for (const auto& [p, c] : pairs) one_to_one = from.insert(p).second && to.insert(c).second && one_to_one;
  EXPECT_TRUE(!overlap.is_one_to_one() || one_to_one);
  for (size_t g = 0; g < write.dims.size(); ++g) {
    for (size_t h = 0; h < read.dims.size(); ++h) {
      for (int64_t parts = 2; parts <= write.dims[g].hi + 1; ++parts) {
        const int64_t a = (write.dims[g].hi + 1) / parts;
        const int64_t b = (read.dims[h].hi + 1) / parts;
        if (a * parts != write.dims[g].hi + 1 || b * parts != read.dims[h].hi + 1) continue;
        if (!overlap.keeps_parts(g, a, h, b)) continue;
        for (const auto& [p, c] : pairs) EXPECT_EQ(p[g] / a, c[h] / b);
      }
    }
  }
}

/// Tiles of a tensor, side by side, by a grid whose dimensions cut random dimensions of it; others, and a loop, are
/// range variables.
IndexingMap random_tiles(Random& random, const Shape& tensor, bool replicate) {
  IndexingMap map;
  std::vector<Expr> position(tensor.size());
  std::vector<int64_t> left = tensor;
  const auto cut = [&](size_t d, const Expr& by, int64_t count) {
    position[d] = position[d] * count + by;
    left[d] /= count;
  };
  for (uint64_t g = random.below(4); g > 0; --g) {
    const size_t d = random.below(tensor.size());
    int64_t count = random_between(random, 1, std::min<int64_t>(left[d], 4));
    while (left[d] % count != 0) --count;
    map.dims.push_back(indexing::below(count));
    if (replicate && random.below(4) == 0) continue;
    cut(d, Expr::dim(static_cast<int>(map.dims.size()) - 1), count);
  }
  for (size_t d = 0; d < tensor.size(); ++d) {
    if (left[d] % 2 == 0 && random.below(2) == 0) {
      map.ranges.push_back(indexing::below(2));
      cut(d, Expr::range(static_cast<int>(map.ranges.size()) - 1), 2);
    }
    map.ranges.push_back(indexing::below(left[d]));
    map.results.push_back(position[d] * left[d] + Expr::range(static_cast<int>(map.ranges.size()) - 1));
  }
  return map;
}

/// Tiles of any size, the last of them partly outside, with elements around them.
IndexingMap random_windows(Random& random, const Shape& tensor) {
  IndexingMap map;
  for (size_t d = 0; d < tensor.size(); ++d) {
    const int64_t step = random_between(random, 1, tensor[d]);
    const int64_t around = random.below(2) * random_between(random, 0, 2);
    const int64_t before = random_between(random, 0, around);
    map.dims.push_back(indexing::below(indexing::ceil_div(tensor[d], step)));
    map.ranges.push_back(indexing::below(step + around));
    const auto number = static_cast<int>(d);
    map.results.push_back(Expr::dim(number) * step + Expr::range(number) - before);
    map.constraints.push_back({map.results.back(), indexing::below(tensor[d])});
  }
  return map;
}

Shape random_tensor(Random& random) {
  Shape tensor;
  int64_t elements = 1;
  for (uint64_t d = 1 + random.below(3); d > 0; --d) {
    static constexpr int64_t kSizes[] = {1, 2, 3, 4, 6, 8, 12};
    const int64_t size = kSizes[random.below(std::size(kSizes))];
    if (elements * size > 150) continue;
    elements *= size;
    tensor.push_back(size);
  }
  if (tensor.empty()) tensor.push_back(5);
  return tensor;
}

/// The map to a view's indices as one to those of the tensor: a transpose of a reshape of it.
IndexingMap through_random_view(Random& random, const Shape& tensor, bool tiles) {
  Shape shape = random.below(2) == 0 ? tensor : indexing::random_factors(random, element_count(tensor));
  if (shape.empty()) shape.push_back(1);
  std::vector<size_t> order(shape.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  for (size_t d = order.size(); d-- > 1;) std::swap(order[d], order[random.below(d + 1)]);
  Shape view;
  for (size_t d : order) view.push_back(shape[d]);
  const IndexingMap map = tiles ? random_tiles(random, view, true) : random_windows(random, view);
  IndexingMap back = indexing::identity_map(view);
  std::vector<Expr> index(shape.size());
  for (size_t d = 0; d < order.size(); ++d) index[order[d]] = Expr::dim(static_cast<int>(d));
  back.results = indexing::delinearize(indexing::linearize(index, row_major_strides(shape)), tensor);
  return compose(map, back);
}

TEST(Overlap, OfTilesIsExact) {
  Random random(1);
  for (int test = 0; test < 2000; ++test) {
    const Shape tensor = random_tensor(random);
    const IndexingMap write = random_tiles(random, tensor, false);
    const IndexingMap read = random_tiles(random, tensor, true);
    const BlockOverlap overlap(write, read, tensor);
    EXPECT_TRUE(overlap.exact()) << to_string(write) << "\n" << to_string(read);
    EXPECT_TRUE(overlap.count().has_value()) << to_string(write) << "\n" << to_string(read);
    check(write, read, tensor, overlap);
    if (HasFailure()) return;
  }
}

TEST(Overlap, OfWindowsAndPartialTilesIsExact) {
  Random random(2);
  for (int test = 0; test < 1500; ++test) {
    const Shape tensor = random_tensor(random);
    const IndexingMap write =
        random.below(2) == 0 ? random_tiles(random, tensor, false) : random_windows(random, tensor);
    const IndexingMap read = random_windows(random, tensor);
    const BlockOverlap overlap(write, read, tensor);
    EXPECT_TRUE(overlap.exact()) << to_string(write) << "\n" << to_string(read);
    check(write, read, tensor, overlap);
    if (HasFailure()) return;
  }
}

TEST(Overlap, ThroughViewsIsExactOrTooMuch) {
  Random random(3);
  int exact = 0;
  constexpr int kTests = 1500;
  for (int test = 0; test < kTests; ++test) {
    const Shape tensor = random_tensor(random);
    const IndexingMap write = random_tiles(random, tensor, false);
    const IndexingMap read = through_random_view(random, tensor, random.below(4) != 0);
    const BlockOverlap overlap(write, read, tensor);
    exact += overlap.exact();
    check(write, read, tensor, overlap);
    if (HasFailure()) return;
  }
  RecordProperty("exact", exact);
  EXPECT_GT(exact, kTests * 3 / 4);
}

/// Anything at all: quotients, products, runtime variables.
TEST(Overlap, OfAnyMapsIsNotTooLittle) {
  Random random(4);
  for (int test = 0; test < 150; ++test) {
    const Shape tensor{random_between(random, 1, 20), random_between(random, 1, 20)};
    const auto draw = [&] {
      for (;;) {
        IndexingMap map = indexing::random_map(random, 300);
        bool from_zero = true;
        for (const auto& dim : map.dims) from_zero = from_zero && dim.lo == 0 && !dim.empty();
        if (!from_zero) continue;
        for (size_t d = 0; d < tensor.size(); ++d) {
          map.results[d] = mod(map.results[d], tensor[d]);
          if (random.below(2) == 0) map.constraints.push_back({map.results[d], indexing::below(tensor[d])});
        }
        return map;
      }
    };
    const IndexingMap write = draw();
    const IndexingMap read = draw();
    check(write, read, tensor, BlockOverlap(write, read, tensor));
    if (HasFailure()) return;
  }
}

TEST(Overlap, OfGathersTakesAllThatRuntimeVariablesMayBe) {
  IndexingMap write =
      indexing::parse_indexing_map("(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 9], s0 in [0, 3]").value();
  IndexingMap read = indexing::parse_indexing_map(
                         "(d0)[s0]{rt0} -> (rt0 + s0), domain: d0 in [0, 99], s0 in [0, 1], rt0 = 5:1[d0] in [8, 18]")
                         .value();
  const BlockOverlap overlap(write, read, {40});
  EXPECT_FALSE(overlap.exact());
  const BlockSet producers = overlap.producers_of(Block{7});
  EXPECT_EQ(producers.boxes, (std::vector<BlockBox>{{{2, {{1, 3}}}}}));
  EXPECT_EQ(overlap.count(), 300);
}

/// A grid of 10⁴ × 10⁴ blocks, as of tasks of a large program, and others that read what it writes.
class LargeGrids : public testing::Test {
 protected:
  static constexpr int64_t kSide = 10000;
  static constexpr int64_t kTile = 64;
  static constexpr int64_t kMostSteps = 100;

  static IndexingMap tiles(int64_t rows, int64_t columns) {
    const Shape tensor{kSide * kTile, kSide * kTile};
    IndexingMap map;
    map.dims = indexing::positions({tensor[0] / rows, tensor[1] / columns});
    map.ranges = indexing::positions({rows, columns});
    map.results = {Expr::dim(0) * rows + Expr::range(0), Expr::dim(1) * columns + Expr::range(1)};
    return map;
  }
  static BlockOverlap overlap_with(const IndexingMap& read) {
    return {tiles(kTile, kTile), read, {kSide * kTile, kSide * kTile}};
  }
};

TEST_F(LargeGrids, OneToOne) {
  const BlockOverlap overlap = overlap_with(tiles(kTile, kTile));
  EXPECT_TRUE(overlap.exact());
  EXPECT_TRUE(overlap.is_one_to_one());
  EXPECT_FALSE(overlap.is_all_to_all());
  EXPECT_EQ(overlap.count(), kSide * kSide);
  int64_t steps = 0;
  Random random(5);
  for (int i = 0; i < 50; ++i) {
    const Block block{random_between(random, 0, kSide - 1), random_between(random, 0, kSide - 1)};
    const BlockSet producers = overlap.producers_of(block);
    EXPECT_EQ(producers.boxes, (std::vector<BlockBox>{{{block[0], {}}, {block[1], {}}}}));
    steps = std::max(steps, producers.steps);
  }
  EXPECT_LT(steps, kMostSteps);
}

TEST_F(LargeGrids, OtherTiles) {
  const BlockOverlap overlap = overlap_with(tiles(128, 40));
  EXPECT_TRUE(overlap.exact());
  const BlockSet producers = overlap.producers_of(Block{4999, 15999});
  // Rows 639872 to 639999, columns 639960 to 639999.
  EXPECT_EQ(producers.boxes, (std::vector<BlockBox>{{{9998, {{1, 2}}}, {9999, {}}}}));
  const BlockSet consumers = overlap.consumers_of(Block{9999, 9999});
  // Rows 639936 to 639999, columns from 639936 on.
  EXPECT_EQ(consumers.boxes, (std::vector<BlockBox>{{{4999, {}}, {15998, {{1, 2}}}}}));
  EXPECT_LT(producers.steps + consumers.steps, kMostSteps);
  // Along rows every block meets one, along columns 5 of 8 blocks two.
  EXPECT_EQ(overlap.count(), kSide * 24000);
}

TEST_F(LargeGrids, WholeRows) {
  IndexingMap read;
  read.dims = {indexing::below(kSide)};
  read.ranges = indexing::positions({kTile, kSide * kTile});
  read.results = {Expr::dim(0) * kTile + Expr::range(0), Expr::range(1)};
  const BlockOverlap overlap = overlap_with(read);
  const BlockSet producers = overlap.producers_of(Block{1234});
  EXPECT_EQ(producers.count(), kSide);
  EXPECT_LT(producers.steps, kMostSteps);
  EXPECT_EQ(overlap.count(), kSide * kSide);
  EXPECT_TRUE(overlap.keeps_parts(0, 1, 0, 1));
  EXPECT_FALSE(overlap.keeps_parts(1, 1, 0, 1));
}

TEST_F(LargeGrids, Transposed) {
  // Strided in the memory's own shape: blocks of columns of a transposed view of rows of 10⁴.
  IndexingMap write;
  write.dims = {indexing::below(kSide * kSide)};
  write.results = {Expr::dim(0)};
  IndexingMap read;
  read.dims = {indexing::below(kSide)};
  read.ranges = {indexing::below(kSide)};
  read.results = {Expr::range(0) * kSide + Expr::dim(0)};
  const BlockOverlap overlap(write, read, {kSide * kSide});
  EXPECT_TRUE(overlap.exact());
  const BlockSet producers = overlap.producers_of(Block{77});
  EXPECT_EQ(producers.boxes, (std::vector<BlockBox>{{{77, {{kSide, kSide}}}}}));
  EXPECT_EQ(overlap.consumers_of(Block{5 * kSide + 77}).boxes, (std::vector<BlockBox>{{{77, {}}}}));
  EXPECT_LT(producers.steps, kMostSteps);
}

TEST_F(LargeGrids, AllToAll) {
  IndexingMap read;
  read.dims = {indexing::below(kSide)};
  read.ranges = indexing::positions({kSide * kTile, kSide * kTile});
  read.results = {Expr::range(0), Expr::range(1)};
  const BlockOverlap overlap = overlap_with(read);
  EXPECT_TRUE(overlap.is_all_to_all());
  EXPECT_EQ(overlap.count(), kSide * kSide * kSide);
  EXPECT_EQ(overlap.producers_of(Block{3}).count(), kSide * kSide);
}

}  // namespace
}  // namespace strata
