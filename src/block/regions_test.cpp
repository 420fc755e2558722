#include "block/regions.h"

#include <gtest/gtest.h>

#include <set>

#include "block/overlap.h"
#include "indexing/enumerate.h"
#include "indexing/map_checks.h"
#include "ir/text.h"
#include "support/random.h"

namespace strata {
namespace {

using indexing::IndexingMap;

GraphPtr parsed(const char* text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

int64_t position(const std::vector<int64_t>& index, const Shape& shape) {
  int64_t at = 0;
  for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return at;
}

const char* const kProduct = R"(graph g {
  input A: f16[8, 24]
  input B: f16[24, 12]
  C = block(A, B, grid=[2, 3, 2], loop=3) {
    a = in_iter(A, imap=[0, _, 0], fmap=1)
    b = in_iter(B, imap=[_, 1, _], fmap=0)
    p = matmul(a, b)
    s = accum(p, kind=sum)
    C = out_saver(s, omap=[0, 1, 0])
  }
  output C
})";

/// What in_iter brings, of a tensor whose elements are their own positions.
TEST(Regions, OfBlockGraphsAreWhatIteratorsRead) {
  const GraphPtr graph = parsed(kProduct);
  const Graph& body = *graph->operations()[0].body;
  const std::vector<AccessRegion> regions = block_regions(body);
  ASSERT_EQ(regions.size(), 3U);
  for (size_t n = 0; n < 2; ++n) {
    const Operation& op = body.operations()[n];
    const AccessRegion& region = regions[n];
    EXPECT_EQ(region.argument, static_cast<int>(n));
    EXPECT_FALSE(region.writes);
    EXPECT_TRUE(region.iterates());
    Tensor<double> whole(body.type(op.operands[0]).shape);
    for (int64_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<double>(i);
    Tensor<double> tile(body.type(op.results[0]).shape);
    const std::vector<const Tensor<double>*> operands{&whole};
    Float64Arithmetic arithmetic;
    const OpScope scope = body.scope();
    for (int64_t iteration = 0; iteration < 3; ++iteration) {
      for_each_block(scope.grid, [&](GridPoint point) {
        point.iteration = iteration;
        op_def(op.kind).run(EvalArgs<Float64Arithmetic>{arithmetic, scope, point, op.attributes, operands, tile});
        const std::vector<int64_t> dims{point.block[0], point.block[1], point.block[2], iteration};
        IndexingMap elements;
        elements.dims = region.map.ranges;
        indexing::for_each_point(elements, [&](const indexing::Point& element) {
          const auto index = evaluate(region.map, {dims, element.dims, {}});
          EXPECT_EQ(position(*index, whole.shape),
                    tile[position({element.dims.begin(), element.dims.end()}, tile.shape)]);
          return true;
        });
      });
    }
    const IndexingMap all = of_all_iterations(region);
    EXPECT_EQ(all.dims.size(), 3U);
    EXPECT_EQ(all.ranges.size(), 3U);
    EXPECT_EQ(all.ranges[0], indexing::below(3));
  }
  EXPECT_EQ(to_string(of_all_iterations(regions[0])),
            "(d0, d1, d2)[s0, s1, s2] -> (d0 * 4 + d2 * 2 + s1, s0 * 8 + s2), domain: d0 in [0, 1], d1 in [0, 2], "
            "d2 in [0, 1], s0 in [0, 2], s1 in [0, 1], s2 in [0, 7]");
}

TEST(Regions, OfBlockGraphsWriteEveryElementOnce) {
  const GraphPtr graph = parsed(kProduct);
  const AccessRegion region = block_regions(*graph->operations()[0].body)[2];
  EXPECT_TRUE(region.writes);
  EXPECT_FALSE(region.iterates());
  EXPECT_EQ(region.argument, 0);
  EXPECT_EQ(indexing::writes_bijectively(region.map, {8, 12}).kind, indexing::Verdict::Kind::ProvedByStructure);
}

const char* const kPredefined = R"(graph g {
  input A: f32[6, 10]
  input B: f32[10, 4]
  input X: f32[1, 2, 6, 6]
  input W: f32[3, 2, 3, 3]
  P = matmul(A, B)
  S = sum(A, dim=1, every=5)
  T = transpose(A, perm=[1, 0])
  R = reshape(T, shape=[4, 15])
  E = repeat(B, dim=1, times=2)
  H = slice(A, dim=1, start=3, size=4)
  K = concat(P, H, dim=0)
  M = mul(K, P_row)
  V = conv2d(X, W, padding=1)
  output P, S, R, E, M, V
})";

/// Tiles of a predefined operator's result against its row in the table, element by element.
TEST(Regions, OfPredefinedOperatorsAreWhatTheTableSays) {
  const std::string text = [] {
    std::string made = kPredefined;
    made.replace(made.find("  P = matmul"), 0, "  input P_row: f32[4]\n");
    return made;
  }();
  const GraphPtr graph = parsed(text.c_str());
  Random random(3);
  for (const Operation& op : graph->operations()) {
    SCOPED_TRACE(op.name());
    const Shape& shape = graph->type(op.results[0]).shape;
    const OperandReads reads = op_def(op.kind).reads(graph->types(op.operands), op.attributes);
    for (int test = 0; test < 4; ++test) {
      std::vector<int64_t> tile;
      for (int64_t size : shape) tile.push_back(1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(size))));
      const auto regions = test % 2 == 0 ? predefined_regions(*graph, op, tile)
                                         : predefined_regions(*graph, op, 1 + static_cast<int64_t>(random.below(9)));
      ASSERT_EQ(regions.size(), reads.size() + 1);
      const AccessRegion& written = regions.back();
      EXPECT_TRUE(written.writes);
      EXPECT_TRUE(indexing::writes_bijectively(written.map, shape).proved()) << to_string(written.map);
      std::map<std::vector<int64_t>, std::vector<std::vector<int64_t>>> results;  // by block
      indexing::for_each_point(written.map, [&](const indexing::Point& point) {
        results[{point.dims.begin(), point.dims.end()}].push_back(*evaluate(written.map, point));
        return true;
      });
      for (size_t n = 0; n < reads.size(); ++n) {
        std::map<std::vector<int64_t>, std::set<std::vector<int64_t>>> wanted, found;
        for (const auto& [block, elements] : results) {
          for (const auto& element : elements) {
            IndexingMap at = reads[n];
            for (size_t d = 0; d < element.size(); ++d) at.dims[d] = {element[d], element[d]};
            indexing::for_each_point(at, [&](const indexing::Point& point) {
              wanted[block].insert(*evaluate(at, point));
              return true;
            });
          }
        }
        indexing::for_each_point(regions[n].map, [&](const indexing::Point& point) {
          found[{point.dims.begin(), point.dims.end()}].insert(*evaluate(regions[n].map, point));
          return true;
        });
        EXPECT_EQ(found, wanted) << n;
      }
    }
  }
}

TEST(Regions, ThroughViewsAreThoseOfTheMemory) {
  const GraphPtr graph = parsed(R"(graph g {
  input A: f16[4, 6, 8]
  T = transpose(A, perm=[0, 2, 1])
  R = reshape(T, shape=[2, 2, 8, 6])
  U = transpose(R, perm=[3, 0, 2, 1])
  O = block(U, grid=[2, 3], loop=2) {
    u = in_iter(U, imap=[1, 0], fmap=2)
    s = sqr(u)
    a = accum(s, kind=sum)
    O = out_saver(a, omap=[1, 0])
  }
  output O
})");
  const TensorId id = *graph->find_tensor("U");
  const MemoryView view = memory_view(*graph, id);
  ASSERT_EQ(view.memory, *graph->find_tensor("A"));
  const IndexingMap map = block_regions(*graph->operations().back().body)[0].map;
  const MemoryRegion region = through_views(*graph, id, map);
  EXPECT_EQ(region.memory, view.memory);
  indexing::for_each_point(map, [&](const indexing::Point& point) {
    const auto index = evaluate(map, point);
    int64_t strided = 0;
    for (size_t d = 0; d < index->size(); ++d) strided += (*index)[d] * view.strides[d];
    EXPECT_EQ(position(*evaluate(region.map, point), {4, 6, 8}), strided);
    return true;
  });
}

/// Two kernels, from graph to blocks: a product in tiles, and a predefined operator that reads its result.
TEST(Regions, SayWhichBlocksDependOnEachOther) {
  const GraphPtr graph = parsed(R"(graph g {
  input A: f16[65536, 64]
  input B: f16[64, 65536]
  C = block(A, B, grid=[1024, 2048]) {
    a = in_iter(A, imap=[0, _])
    b = in_iter(B, imap=[_, 1])
    p = matmul(a, b)
    C = out_saver(p, omap=[0, 1])
  }
  T = transpose(C, perm=[1, 0])
  S = sum(T, dim=1)
  output S
})");
  const IndexingMap write = block_regions(*graph->operations()[0].body)[2].map;
  const Operation& sum = graph->operations()[2];
  const MemoryRegion read = through_views(*graph, sum.operands[0], predefined_regions(*graph, sum, {256, 1})[0].map);
  // Whether the transpose is a view or a kernel does not matter here: a region of T, as one of C.
  const IndexingMap through = read.memory == *graph->find_tensor("C")
                                  ? read.map
                                  : compose(read.map, op_def(OpKind::Transpose)
                                                          .reads(graph->types({*graph->find_tensor("C")}),
                                                                 graph->operations()[1].attributes)[0]);
  const BlockOverlap overlap(write, through, graph->type(*graph->find_tensor("C")).shape);
  EXPECT_TRUE(overlap.exact());
  // 256 columns of C are 8 blocks along the second dimension of the grid, and all along the first.
  EXPECT_EQ(overlap.producers_of(std::vector<int64_t>{3, 0}).boxes,
            (std::vector<BlockBox>{{{0, {{1, 1024}}}, {24, {{1, 8}}}}}));
  EXPECT_EQ(overlap.count(), 256 * 8 * 1024);
}

}  // namespace
}  // namespace strata
