// Thread maps, the checks of what they write and read, their splits, and what their accesses cost.
#include "indexing/thread_maps.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "indexing/enumerate.h"
#include "indexing/index_type.h"
#include "indexing/map_checks.h"
#include "indexing/memory_access.h"
#include "indexing/random_maps.h"
#include "indexing/simplify.h"
#include "indexing/split_interior.h"

namespace strata::indexing {
namespace {

using Kind = Verdict::Kind;

IndexingMap parsed(const std::string& text) {
  auto map = parse_indexing_map(text);
  EXPECT_TRUE(map) << text << "\n" << map.error().to_string();
  return map ? *map : IndexingMap{};
}

TEST(ThreadMaps, LinearMapsCountThroughTheShape) {
  const std::vector<int64_t> shape{100, 50};
  const IndexingMap map = thread_map(linear_tiling(shape, 128, 4, 2), shape);
  EXPECT_EQ(to_string(linear_form(map, shape)),
            "(d0, d1)[s0, s1] -> (d0 * 1024 + d1 * 4 + s0 * 512 + s1), domain: d0 in [0, 4], d1 in [0, 127], "
            "s0 in [0, 1], s1 in [0, 3], d0 * 256 + d1 + s0 * 128 in [0, 1249]");
  const Verdict verdict = writes_bijectively(map, shape, 0);
  EXPECT_EQ(verdict.kind, Kind::ProvedByStructure) << verdict.reason;
  EXPECT_EQ(reads_in_bounds(map, shape, 0).kind, Kind::ProvedByStructure);
}

TEST(ThreadMaps, TilesOfSeveralDimensions) {
  const Tiling tiling{{100, 70}, {4, 32}, {8, 1}, {1, 2}};
  EXPECT_EQ(to_string(tiling), "100x70 threads 4x32 unroll 8x1 vector 1x2, 8 blocks");
  const IndexingMap map = thread_map(tiling);
  const Verdict verdict = writes_bijectively(map, tiling.shape, 0);
  EXPECT_EQ(verdict.kind, Kind::ProvedByStructure) << verdict.reason;
  EXPECT_EQ(reads_in_bounds(map, tiling.shape, 0).kind, Kind::ProvedByStructure);
}

TEST(ThreadMaps, MoreThan31BitsOfElements) {
  const std::vector<int64_t> shape{70001, 70001};
  const IndexingMap map = thread_map(linear_tiling(shape, 128, 4, 1), shape);
  EXPECT_EQ(writes_bijectively(map, shape, 0).kind, Kind::ProvedByStructure);
  EXPECT_EQ(reads_in_bounds(map, shape, 0).kind, Kind::ProvedByStructure);
  EXPECT_EQ(narrowest_index_type(simplify(map)), IndexType::I64);
  const std::vector<int64_t> small{700, 70001};
  EXPECT_EQ(narrowest_index_type(simplify(thread_map(linear_tiling(small, 128, 4, 1), small))), IndexType::I32);
  // 2^32 and more elements, but no number on the way is as large: 16 divides all but the last digit.
  const std::vector<int64_t> even{70000, 70000};
  EXPECT_EQ(narrowest_index_type(simplify(thread_map(linear_tiling(even, 128, 4, 1), even))), IndexType::I32);
}

TEST(MapChecks, RefutesWithACounterexample) {
  const Verdict twice = writes_bijectively(parsed("(d0, d1) -> (d0 + d1), domain: d0 in [0, 3], d1 in [0, 1]"), {5});
  EXPECT_EQ(twice.kind, Kind::Refuted);
  EXPECT_EQ(twice.reason, "[1] is written twice, also at d0 = 1, d1 = 0");
  const Verdict gap = writes_bijectively(parsed("(d0, d1) -> (d0 * 3 + d1), domain: d0 in [0, 3], d1 in [0, 1]"), {11});
  EXPECT_EQ(gap.reason, "8 elements of 11 are written");
  const Verdict unused = writes_bijectively(parsed("(d0, d1) -> (d0), domain: d0 in [0, 3], d1 in [0, 1]"), {4});
  EXPECT_EQ(unused.kind, Kind::Refuted);
  const Verdict diagonal = writes_bijectively(parsed("(d0) -> (d0 mod 4, d0 mod 4), domain: d0 in [0, 15]"), {4, 4});
  EXPECT_EQ(diagonal.kind, Kind::Refuted);
  const Verdict outside = reads_in_bounds(parsed("(d0) -> (d0 * 2 - 1), domain: d0 in [0, 3]"), {7});
  EXPECT_EQ(outside.kind, Kind::Refuted);
  EXPECT_EQ(outside.reason, "the index [-1] at d0 = 0 lies outside of [7]");
  EXPECT_EQ(reads_in_bounds(parsed("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 3], rt0 = 1:1[] in [0, 3]"), {6}).kind,
            Kind::Refuted);
  EXPECT_EQ(reads_in_bounds(parsed("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 3], rt0 = 1:1[] in [0, 3]"), {7}).kind,
            Kind::ProvedByStructure);
  EXPECT_EQ(writes_bijectively(parsed("(d0) -> (d0 * 3 mod 70000), domain: d0 in [0, 69999]"), {70000}).kind,
            Kind::Unknown);
}

RC_GTEST_PROP(MapChecks, AgreeWithEnumeration, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  for (int i = 0; i < 12; ++i) {
    const auto small = [&](int64_t most) { return random_between(random, 1, most); };
    Tiling tiling;
    for (int64_t rank = small(3); rank > 0; --rank) {
      tiling.shape.push_back(small(20));
      tiling.threads.push_back(small(4));
      tiling.unroll.push_back(small(2));
      tiling.vector.push_back(small(3));
    }
    IndexingMap map = thread_map(tiling);
    if (random.below(2) == 0) {
      // Something may be wrong.
      Expr& result = map.results[random.below(map.results.size())];
      if (random.below(2) == 0) result = result * small(2);
      if (random.below(2) == 0) result = mod(result + small(3), small(20));
    }
    if (random.below(3) == 0) map.constraints.pop_back();
    std::set<std::vector<int64_t>> written;
    bool injective = true;
    bool inside = true;
    for_each_point(map, [&](const Point& point) {
      const std::vector<int64_t> index = *evaluate(map, point);
      injective = injective && written.insert(index).second;
      for (size_t d = 0; d < index.size(); ++d) inside = inside && below(tiling.shape[d]).contains(index[d]);
      return true;
    });
    const bool all = static_cast<int64_t>(written.size()) == element_count(tiling.shape);
    const Verdict writes = writes_bijectively(map, tiling.shape, 1 << 20);
    if (writes.proved() != (injective && inside && all)) RC_FAIL(to_string(map) + ": " + writes.reason);
    const Verdict reads = reads_in_bounds(map, tiling.shape, 1 << 20);
    if (reads.proved() != inside) RC_FAIL(to_string(map) + ": " + reads.reason);
    const Verdict quick = writes_bijectively(map, tiling.shape, 0);
    RC_ASSERT(quick.kind != Kind::ProvedByStructure || writes.proved());
  }
}

TEST(SplitInterior, CutsOffTheLastBlock) {
  const std::vector<int64_t> shape{5001};
  const InteriorSplit split = split_interior(thread_map(linear_tiling(shape, 128, 4, 2)));
  EXPECT_EQ(to_string(split.interior),
            "(d0, d1)[s0, s1] -> (d0 * 1024 + d1 * 4 + s0 * 512 + s1), domain: d0 in [0, 3], d1 in [0, 127], "
            "s0 in [0, 1], s1 in [0, 3]");
  ASSERT_EQ(split.edges.size(), 1U);
  EXPECT_EQ(to_string(split.edges[0]),
            "(d0, d1)[s0, s1] -> (d1 * 4 + s0 * 512 + s1 + 4096), domain: d0 in [4, 4], d1 in [0, 127], "
            "s0 in [0, 1], s1 in [0, 3], d1 * 4 + s0 * 512 + s1 in [0, 904]");
}

TEST(SplitInterior, CutsOffTheLastTilesOfEachDimension) {
  const InteriorSplit split = split_interior(tile_map({{100, 70}, {4, 32}, {8, 1}, {1, 1}}));
  EXPECT_EQ(to_string(split.interior),
            "(d0, d1, d2)[s0, s1, s2, s3] -> (d0 * 32 + s0 * 4 + (d2 floordiv 32), d1 * 32 + (d2 mod 32)), domain: "
            "d0 in [0, 2], d1 in [0, 1], d2 in [0, 127], s0 in [0, 7], s1 in [0, 0], s2 in [0, 0], s3 in [0, 0]");
  ASSERT_EQ(split.edges.size(), 2U);
  EXPECT_EQ(split.edges[0].dims[0], (Interval{3, 3}));
  EXPECT_EQ(split.edges[0].dims[1], (Interval{0, 2}));
  EXPECT_EQ(split.edges[1].dims[0], (Interval{0, 2}));
  EXPECT_EQ(split.edges[1].dims[1], (Interval{2, 2}));
}

TEST(SplitInterior, OfAPaddedTensor) {
  const InteriorSplit split =
      split_interior(parsed("(d0)[s0] -> (d0 * 8 + s0 - 3), domain: d0 in [0, 99], s0 in [0, 7], "
                            "d0 * 8 + s0 - 3 in [0, 500]"));
  EXPECT_EQ(to_string(split.interior), "(d0)[s0] -> (d0 * 8 + s0 - 3), domain: d0 in [1, 62], s0 in [0, 7]");
  EXPECT_EQ(split.edges.size(), 1U);  // d0 = 0; the simplifier finds that d0 = 63 is not in the domain
}

RC_GTEST_PROP(SplitInterior, CoversTheDomainOnce, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  for (int i = 0; i < 30; ++i) {
    const IndexingMap map = random_map(random, 400);
    const InteriorSplit split = split_interior(map);
    RC_ASSERT(split.interior.constraints.empty());
    std::vector<IndexingMap> parts = split.edges;
    parts.push_back(split.interior);
    IndexingMap box = map;
    box.constraints.clear();
    for_each_point(box, [&](const Point& point) {
      for (const Constraint& constraint : map.constraints) {
        if (!evaluate(constraint.expr, point)) return true;  // nothing is promised where a divisor is zero
      }
      for (size_t a = 0; a < map.runtime.size(); ++a) {
        // Equal runtime variables have equal values.
        for (size_t b = 0; b < a; ++b) {
          const RuntimeVariable& x = map.runtime[a];
          const RuntimeVariable& y = map.runtime[b];
          if (x.instruction == y.instruction && x.operand == y.operand) return true;
        }
      }
      int covered = 0;
      for (const IndexingMap& part : parts) {
        if (!in_domain(part, point)) continue;
        ++covered;
        for (size_t r = 0; r < map.results.size(); ++r) {
          const auto value = evaluate(map.results[r], point);
          RC_ASSERT(!value || value == evaluate(part.results[r], point));
        }
      }
      if (covered != (in_domain(map, point) ? 1 : 0)) RC_FAIL(to_string(map) + " was split wrongly");
      return true;
    });
  }
}

TEST(MemoryAccess, CountsSectors) {
  const std::vector<int64_t> shape{1024, 1024};
  const IndexingMap rows = thread_map(linear_tiling(shape, 128, 4, 1), shape);
  const AccessCost vectors = global_access(rows, {1024, 1}, 32, 1);
  EXPECT_EQ(vectors.bytes, 512 * vectors.accesses);
  EXPECT_EQ(vectors.ratio(), 1);
  // One element of each vector at a time: a sector holds two of them.
  EXPECT_EQ(global_access(rows, {1024, 1}, 32).ratio(), 4);
  // A transposed tensor: every lane in a sector of its own.
  EXPECT_EQ(global_access(thread_map(linear_tiling(shape, 128, 1, 1), shape), {1, 1024}, 32).ratio(), 8);
  EXPECT_EQ(global_access(thread_map(linear_tiling(shape, 128, 1, 1), shape), {1, 1024}, 16).ratio(), 16);
}

TEST(MemoryAccess, FindsAlignedVectors) {
  const auto width = [](const std::string& text) { return vector_width(parsed(text), 0, 8); };
  EXPECT_EQ(width("(d0, d1)[s0] -> (d0 * 1024 + d1 * 4 + s0), domain: d0 in [0, 9], d1 in [0, 127], s0 in [0, 3]"), 4);
  EXPECT_EQ(width("(d0, d1)[s0] -> (d0 * 1024 + d1 * 4 + s0 + 2), domain: d0 in [0, 9], d1 in [0, 127], s0 in [0, 3]"),
            2);
  EXPECT_EQ(width("(d0, d1)[s0] -> ((d1 mod 32) * 8 + (d0 floordiv 3) * 24 + s0), domain: d0 in [0, 9], "
                  "d1 in [0, 127], s0 in [0, 7]"),
            8);
  EXPECT_EQ(width("(d0, d1)[s0] -> (d1 * 6 + s0), domain: d0 in [0, 9], d1 in [0, 127], s0 in [0, 5]"), 2);
  EXPECT_EQ(width("(d0, d1)[s0] -> (d1 * 4 + s0 * 2), domain: d0 in [0, 9], d1 in [0, 127], s0 in [0, 1]"), 1);
  EXPECT_EQ(width("(d0, d1)[s0] -> (d1 * 4 + s0), domain: d0 in [0, 9], d1 in [0, 127], s0 in [0, 3], "
                  "d1 * 4 + s0 in [0, 401]"),
            1);
  EXPECT_EQ(
      width("(d0, d1)[s0] -> (d1 * 4 + s0), domain: d0 in [0, 9], d1 in [0, 127], s0 in [0, 3], d0 + d1 in [0, 99]"),
      4);
  // Digits of one variable, of which no term is a multiple of the width.
  const std::string digits = "domain: d0 in [0, 9], d1 in [0, 255], s0 in [0, 3]";
  EXPECT_EQ(
      width("(d0, d1)[s0] -> (d1 + s0 - (d1 mod 8) * 121 + (d1 mod 32) * 124 + (d1 floordiv 64) * 3936), " + digits),
      4);
  EXPECT_EQ(width("(d0, d1)[s0] -> (d1 + s0 - (d1 mod 8) * 3), " + digits), 2);
  EXPECT_EQ(width("(d0, d1)[s0] -> (d1 + s0 - (d1 mod 8) + (d1 floordiv 12) * 4), " + digits), 4);
  EXPECT_EQ(width("(d0, d1)[s0] -> (d1 + s0 - (d1 mod 8) + (d1 floordiv 12) * 3), " + digits), 1);
  EXPECT_EQ(width("(d0, d1)[s0] -> (d1 + s0 - (d1 mod 8) + ((d1 floordiv 4) mod 8) * 4), " + digits), 4);
  EXPECT_EQ(width("(d0, d1)[s0] -> ((d1 * 8 + s0) mod 100), domain: d0 in [0, 9], d1 in [0, 127], s0 in [0, 7]"), 1);
}

TEST(MemoryAccess, CountsBankConflicts) {
  const IndexingMap by_row = parsed(
      "(d0, d1)[s0] -> (d1 floordiv 32 + s0 * 4, d1 mod 32), domain: d0 in [0, 0], "
      "d1 in [0, 127], s0 in [0, 7]");
  const IndexingMap by_column = parsed(
      "(d0, d1)[s0] -> (d1 mod 32, d1 floordiv 32 + s0 * 4), domain: d0 in [0, 0], "
      "d1 in [0, 127], s0 in [0, 7]");
  const SharedTile plain{{32, 32}, 4, 0, 0};
  const SharedTile padded{{32, 32}, 4, 1, 0};
  const SharedTile swizzled{{32, 32}, 4, 0, 1};
  EXPECT_EQ(shared_access(by_row, plain).ratio(), 1);
  EXPECT_EQ(shared_access(by_column, plain).ratio(), 32);
  for (const SharedTile& tile : {padded, swizzled}) {
    EXPECT_EQ(shared_access(by_row, tile).ratio(), 1);
    EXPECT_EQ(shared_access(by_column, tile).ratio(), 1);
  }
  EXPECT_EQ(padded.bytes(), 33 * 32 * 4);
  // Two bytes an element: two columns share a bank, so a column of 64 rows conflicts even when padded by one.
  const SharedTile half{{64, 64}, 2, 0, 0};
  EXPECT_EQ(shared_access(by_row, half).units, shared_access(by_row, half).least);
  EXPECT_EQ(shared_access(by_column, half).units, 32 * shared_access(by_column, half).accesses);
  // 16 bytes a lane take four passes, and no more.
  const IndexingMap vectors = parsed(
      "(d0, d1)[s0] -> (d1 floordiv 8, (d1 mod 8) * 4 + s0), domain: d0 in [0, 0], "
      "d1 in [0, 31], s0 in [0, 3]");
  EXPECT_EQ(shared_access(vectors, plain, 0).units, 4);
  EXPECT_EQ(shared_access(vectors, plain, 0).least, 4);
}

}  // namespace
}  // namespace strata::indexing
