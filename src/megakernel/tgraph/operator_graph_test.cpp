#include "megakernel/tgraph/operator_graph.h"

#include <gtest/gtest.h>

#include "megakernel/tgraph/test_graphs.h"

namespace strata::megakernel {
namespace {

using indexing::Expr;

/// Two operators: `a` writes x by tiles, `b` reads tiles of it and of weights, and writes y.
OperatorGraph good() {
  OperatorGraph graph;
  graph.tensors = {
      {"x", {8, 4}}, {"y", {8, 4}}, {"w", {8, 4}, 2, TensorClass::Constant}, {"h", {8, 4}, 2, TensorClass::History}};
  Operator a{"a", "f", {4}, {}, {tile(0, true, {8, 4}, {4}, {0, -1})}};
  Operator b{"b",
             "g",
             {8},
             {tile(0, false, {8, 4}, {8}, {0, -1}), tile(2, false, {8, 4}, {8}, {-1, -1})},
             {tile(1, true, {8, 4}, {8}, {0, -1})}};
  graph.operators = {a, b};
  return graph;
}

std::string message_of(const OperatorGraph& graph) {
  const auto valid = validate(graph);
  return valid ? "" : valid.error().message;
}

TEST(OperatorGraph, ErrorsNameOperatorAndTensor) {
  EXPECT_EQ(message_of(good()), "");
  const auto with = [](const std::function<void(OperatorGraph&)>& change) {
    OperatorGraph graph = good();
    change(graph);
    return message_of(graph);
  };
  EXPECT_EQ(with([](OperatorGraph& g) { g.operators[1].name = "a"; }), "two operators are named 'a'");
  EXPECT_EQ(with([](OperatorGraph& g) { g.tensors[1].name = "x"; }), "two tensors are named 'x'");
  EXPECT_EQ(with([](OperatorGraph& g) { g.tensors[1].shape = {}; }),
            "tensor 'y' has shape []; expected positive sizes");
  EXPECT_EQ(with([](OperatorGraph& g) { g.operators[0].grid = {0}; }),
            "operator 'a' has grid [0]; expected one to three positive sizes");
  EXPECT_EQ(with([](OperatorGraph& g) { g.operators[0].function = ""; }), "operator 'a' has no function");
  EXPECT_EQ(with([](OperatorGraph& g) { g.operators[0].cost.stages = -1; }), "operator 'a' has a negative cost");
  EXPECT_EQ(with([](OperatorGraph& g) { g.operators[0].cost.stages = 1; }),
            "operator 'a' has 1 stages of 0 bytes; expected a multiple of 16");
  EXPECT_EQ(with([](OperatorGraph& g) { g.operators[1].reads[0].tensor = 9; }),
            "operator 'b' reads tensor 9, which is none of 4");
  EXPECT_EQ(with([](OperatorGraph& g) { g.operators[0].grid = {8}; }).substr(0, 90),
            "operator 'a' writes tensor 'x' by a map whose dimensions are not those of the grid [8]: (d");
  EXPECT_EQ(with([](OperatorGraph& g) { g.tensors[0].shape = {32}; }),
            "operator 'a' writes tensor 'x' by a map with 2 results; its shape is [32]");
  EXPECT_EQ(with([](OperatorGraph& g) { g.operators[0].writes[0].region.writes = false; }),
            "operator 'a' writes tensor 'x' by a region that says the contrary");
  EXPECT_EQ(with([](OperatorGraph& g) {
              g.tensors[0].shape = {7, 4};
            }).substr(0, 54),
            "operator 'a' writes tensor 'x' outside of its shape: t");
  EXPECT_EQ(with([](OperatorGraph& g) { g.operators[0].writes[0].tensor = 2; }),
            "operator 'a' writes 'w', which is a constant");
  // Tiles of two rows that lie one row apart.
  EXPECT_EQ(with([](OperatorGraph& g) {
              auto& map = g.operators[0].writes[0].region.map;
              map.results[0] = Expr::dim(0) + Expr::range(0);
            }),
            "tasks of operator 'a' write the same elements of tensor 'x'");
  EXPECT_EQ(with([](OperatorGraph& g) {
              g.operators[1].reads[0] = tile(1, false, {8, 4}, {8}, {-1, -1});
            }),
            "tasks of operator 'b' read elements of tensor 'y' that others of its tasks write");
  EXPECT_EQ(with([](OperatorGraph& g) { std::swap(g.operators[0], g.operators[1]); }),
            "operator 'b' reads elements of activation 'x' that no operator before it writes: all of them");
  // The last rows are missing.
  EXPECT_EQ(with([](OperatorGraph& g) {
              g.operators[0].grid = {3};
              g.operators[0].writes[0].region.map.dims = {indexing::below(3)};
            }),
            "operator 'b' reads elements of activation 'x' that no operator before it writes: [6, 0] is one");
  // History that this step wrote.
  EXPECT_EQ(with([](OperatorGraph& g) {
              g.operators[0].writes[0].tensor = 3;
              g.operators[1].reads[0].tensor = 3;
            }),
            "operator 'b' reads elements of history 'h' that were written in this step");
}

TEST(OperatorGraph, PartsOfATensorMayHaveSeveralWriters) {
  OperatorGraph graph = good();
  // Rows 0 to 3 and rows 4 to 7.
  Operator& a = graph.operators[0];
  a.grid = {2};
  a.writes[0].region.map.dims = {indexing::below(2)};
  Operator c = a;
  c.name = "c";
  auto& map = c.writes[0].region.map;
  map.results[0] = map.results[0] + 4;
  graph.operators.insert(graph.operators.begin() + 1, c);
  EXPECT_EQ(message_of(graph), "");
  graph.operators.erase(graph.operators.begin());
  EXPECT_EQ(message_of(graph),
            "operator 'b' reads elements of activation 'x' that no operator before it writes: [0, 0] is one");
}

/// A row of a cache at a place that is found at run time, and the rows before it: history by contract.
TEST(OperatorGraph, RowsOfHistoryAreFoundAtRunTime) {
  OperatorGraph graph = good();
  Operator& b = graph.operators[1];
  b.reads.push_back(tile(3, false, {8, 4}, {8}, {-1, -1}));
  Access row = tile(3, true, {8, 4}, {8}, {-1, -1});
  auto& map = row.region.map;
  map.ranges = {indexing::below(4)};
  map.runtime = {{0, 0, {}, indexing::below(8)}};
  map.results = {Expr::runtime(0), Expr::range(0)};
  // The first task alone writes it.
  map.constraints = {{Expr::dim(0), {0, 0}}};
  b.writes.push_back(row);
  EXPECT_EQ(message_of(graph), "");
}

/// a writes x, b reads x; c writes z, and d reads x again.
TEST(OperatorGraph, SharedMemoryHoldsOneTensorAtATime) {
  const auto written_over = [](bool by_reader, bool read_again) {
    OperatorGraph graph = good();
    const Operator b = graph.operators[1];
    const int x = b.reads[0].tensor;
    graph.tensors[static_cast<size_t>(x)].buffer = 0;
    StepTensor z = graph.tensors[static_cast<size_t>(x)];
    z.name = "z";
    graph.tensors.push_back(z);
    Operator c = graph.operators[0];
    c.name = "c";
    c.writes[0].tensor = static_cast<int>(graph.tensors.size()) - 1;
    if (by_reader) c.reads.push_back(tile(x, false, z.shape, c.grid, std::vector<int>(z.shape.size(), -1)));
    graph.operators.push_back(c);
    Operator d = b;
    d.name = "d";
    d.writes.clear();
    if (read_again) graph.operators.push_back(d);
    return message_of(graph);
  };
  EXPECT_EQ(written_over(false, false), "");
  EXPECT_EQ(written_over(true, false), "operator 'c' writes tensor 'z' over 'x', which it reads");
  EXPECT_EQ(written_over(false, true), "operator 'd' reads tensor 'x', over which 'z' was written");
}

TEST(OperatorGraph, RandomGraphsAndDecodeLayersAreValid) {
  Random random(4);
  for (int test = 0; test < 100; ++test) EXPECT_EQ(message_of(random_operator_graph(random)), "");
  DecodeLayers model;
  model.batch = 4;
  model.layers = 2;
  EXPECT_EQ(message_of(decode_layers(model)), "");
}

}  // namespace
}  // namespace strata::megakernel
