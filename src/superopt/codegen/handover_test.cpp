#include "superopt/codegen/handover.h"

#include <gtest/gtest.h>

#include <set>

#include "block/overlap.h"
#include "block/regions.h"
#include "indexing/enumerate.h"
#include "ir/text.h"
#include "support/random.h"

namespace strata {
namespace {

using Block = std::vector<int64_t>;

/// A random grid that cuts a tensor: sizes, and the dimension that each cuts.
struct Cuts {
  std::vector<int64_t> grid;
  std::vector<int64_t> map;
};

Cuts random_cuts(Random& random, std::vector<int64_t> left, bool replicate) {
  static constexpr int64_t kSizes[] = {1, 2, 2, 3, 4, 6};
  Cuts cuts;
  for (uint64_t g = 1 + random.below(3); g > 0; --g) {
    const size_t d = random.below(left.size());
    int64_t size = kSizes[random.below(std::size(kSizes))];
    while (left[d] % size != 0) --size;
    const bool all_read = replicate && random.below(4) == 0;
    if (!all_read) left[d] /= size;
    cuts.grid.push_back(size);
    cuts.map.push_back(all_read ? -1 : static_cast<int64_t>(d));
  }
  return cuts;
}

std::string list(const std::vector<int64_t>& values) {
  std::string text;
  for (int64_t value : values) text += (text.empty() ? "" : ", ") + (value < 0 ? "_" : std::to_string(value));
  return "[" + text + "]";
}

GraphPtr random_pair(Random& random) {
  const std::vector<int64_t> shape{12, 24};
  const Cuts first = random_cuts(random, shape, false);
  const Cuts second = random_cuts(random, shape, true);
  std::vector<int64_t> left = shape;
  for (size_t g = 0; g < second.grid.size(); ++g) {
    if (second.map[g] >= 0) left[static_cast<size_t>(second.map[g])] /= second.grid[g];
  }
  const size_t fmap = random.below(2);
  const int64_t loop = left[fmap] % 2 == 0 && random.below(2) == 0 ? 2 : 1;
  std::vector<int64_t> omap(second.grid.size(), 0);
  const std::string text = fmt::format(
      "graph g {{\n  input X: f32{0}\n  Y = block(X, grid={1}) {{\n    x = in_iter(X, imap={2})\n    y = exp(x)\n"
      "    Y = out_saver(y, omap={2})\n  }}\n  O = block(Y, grid={3}, loop={4}) {{\n    y = in_iter(Y, imap={5}{6})\n"
      "    s = {7}\n    O = out_saver(s, omap={8})\n  }}\n  output O\n}}\n",
      list(shape), list(first.grid), list(first.map), list(second.grid), loop, list(second.map),
      loop > 1 ? fmt::format(", fmap={}", fmap) : "", loop > 1 ? "accum(y, kind=sum)" : "sqr(y)", list(omap));
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << text << graph.error().to_string();
  return graph ? *graph : nullptr;
}

/// Pairs of blocks of which the second reads what the first writes, by their elements.
std::set<std::pair<Block, Block>> pairs_of(const Operation& from, const Operation& to) {
  const auto elements = [](const Operation& op, bool writes) {
    std::map<Block, std::set<std::vector<int64_t>>> touched;
    for (const AccessRegion& region : block_regions(*op.body)) {
      if (region.writes != writes) continue;
      const indexing::IndexingMap map = of_all_iterations(region);
      indexing::for_each_point(map, [&](const indexing::Point& point) {
        touched[{point.dims.begin(), point.dims.end()}].insert(*evaluate(map, point));
        return true;
      });
    }
    return touched;
  };
  std::set<std::pair<Block, Block>> pairs;
  const auto read = elements(to, false);
  for (const auto& [a, written] : elements(from, true)) {
    for (const auto& [b, wanted] : read) {
      if (std::any_of(wanted.begin(), wanted.end(), [&](const auto& e) { return written.count(e) > 0; })) {
        pairs.emplace(a, b);
      }
    }
  }
  return pairs;
}

/// The groups that looking at all pairs finds.
HandoverGroups groups_by_pairs(const std::set<std::pair<Block, Block>>& pairs, const std::vector<int64_t>& from,
                               const std::vector<int64_t>& to) {
  HandoverGroups groups;
  for (int64_t size : from) groups.from.push_back({size, size, -1});
  for (int64_t size : to) groups.to.push_back({size, size, -1});
  const auto divide = [&](size_t g) {
    for (int64_t chunk = 1; chunk < from[g]; ++chunk) {
      if (from[g] % chunk != 0) continue;
      const int64_t count = from[g] / chunk;
      for (size_t h = 0; h < to.size(); ++h) {
        if (groups.to[h].group >= 0 || to[h] % count != 0) continue;
        const bool same = std::all_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
          return pair.first[g] / chunk == pair.second[h] / (to[h] / count);
        });
        if (!same) continue;
        groups.from[g] = {from[g], chunk, static_cast<int>(groups.along.size())};
        groups.to[h] = {to[h], to[h] / count, static_cast<int>(groups.along.size())};
        groups.along.push_back(count);
        return;
      }
    }
  };
  for (size_t g = 0; g < from.size(); ++g) divide(g);
  return groups;
}

TEST(HandoverGroups, AreThoseThatAllPairsOfBlocksGive) {
  Random random(17);
  int several = 0;
  for (int test = 0; test < 400; ++test) {
    const GraphPtr graph = random_pair(random);
    ASSERT_TRUE(graph);
    const Operation& from = graph->operations()[0];
    const Operation& to = graph->operations()[1];
    const auto found = handover_groups(*graph, from, to);
    ASSERT_TRUE(found);
    const HandoverGroups expected =
        groups_by_pairs(pairs_of(from, to), from.body->launch().grid, to.body->launch().grid);
    SCOPED_TRACE(print(*graph));
    EXPECT_EQ(found->along, expected.along);
    for (size_t g = 0; g < expected.from.size(); ++g) EXPECT_EQ(found->from[g].chunk, expected.from[g].chunk);
    for (size_t h = 0; h < expected.to.size(); ++h) EXPECT_EQ(found->to[h].chunk, expected.to[h].chunk);
    several += found->count() > 1;
  }
  EXPECT_GT(several, 100);
}

/// Far more pairs of blocks than could be looked at.
TEST(HandoverGroups, DoNotDependOnTheNumberOfBlocks) {
  const auto graph = parse_graph(R"(graph g {
  input X: f32[40000, 40000]
  Y = block(X, grid=[10000, 10000]) {
    x = in_iter(X, imap=[0, 1])
    y = exp(x)
    Y = out_saver(y, omap=[0, 1])
  }
  O = block(Y, grid=[10000], loop=10000) {
    y = in_iter(Y, imap=[0], fmap=1)
    s = accum(y, kind=sum)
    O = out_saver(s, omap=[0])
  }
  output O
})");
  ASSERT_TRUE(graph) << graph.error().to_string();
  const auto& operations = (*graph)->operations();
  const auto groups = handover_groups(**graph, operations[0], operations[1]);
  ASSERT_TRUE(groups);
  EXPECT_EQ(groups->count(), 10000);
  EXPECT_EQ(groups->producers, 10000);
  EXPECT_EQ(groups->consumers, 1);
  EXPECT_EQ(groups->group(), "block_x");
  EXPECT_EQ(groups->rank(), "block_y");
}

}  // namespace
}  // namespace strata
