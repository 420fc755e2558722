#include "superopt/optimize/retile.h"

#include <gtest/gtest.h>

#include "interpret/interpret.h"
#include "ir/text.h"
#include "support/random.h"

namespace strata {
namespace {

const char* const kProduct = R"(graph g {
  input A: f16[4, 256]
  input B: f16[256, 8]
  O = block(A, B, grid=[2], loop=2) {
    a = in_iter(A, imap=[_], fmap=1)
    b = in_iter(B, imap=[1], fmap=0)
    p = matmul(a, b)
    s = accum(p, kind=sum)
    O = out_saver(s, omap=[1])
  }
  output O
})";

TEST(Retile, LoopsAreCutUntilTilesAreShort) {
  const auto graph = parse_graph(kProduct);
  ASSERT_TRUE(graph);
  const auto cut = retile_loops(**graph, 32);
  ASSERT_TRUE(cut) << cut.error().to_string();
  const Graph& body = *(*cut)->operations()[0].body;
  EXPECT_EQ(body.launch().loop, 8);
  EXPECT_EQ(body.type(*body.find_tensor("a")).shape, (Shape{4, 32}));
  EXPECT_EQ(body.type(*body.find_tensor("b")).shape, (Shape{32, 4}));

  Random random(5);
  std::vector<Tensor<double>> inputs;
  for (TensorId id : (*graph)->inputs()) {
    Tensor<double> tensor((*graph)->type(id).shape);
    for (double& value : tensor.data) value = random.uniform(-1, 1);
    inputs.push_back(std::move(tensor));
  }
  Float64Arithmetic exact;
  const auto before = execute(**graph, exact, inputs);
  const auto after = execute(**cut, exact, inputs);
  ASSERT_TRUE(before && after);
  for (size_t i = 0; i < (*before)[0].data.size(); ++i) {
    EXPECT_NEAR((*before)[0].data[i], (*after)[0].data[i], 1e-9);
  }
}

TEST(Retile, ShortTilesAndBlocksWithoutProductsStay) {
  const auto graph = parse_graph(kProduct);
  ASSERT_TRUE(graph);
  EXPECT_TRUE(same_structure(**retile_loops(**graph, 128), **graph));
  const auto rows = parse_graph(R"(graph g {
  input A: f16[4, 256]
  O = block(A, grid=[2], loop=2) {
    a = in_iter(A, imap=[0], fmap=1)
    s = sum(a, dim=1)
    t = accum(s, kind=sum)
    O = out_saver(t, omap=[0])
  }
  output O
})");
  ASSERT_TRUE(rows);
  EXPECT_TRUE(same_structure(**retile_loops(**rows, 16), **rows));
}

TEST(Retile, OperatorsThatNameSizesAreRefused) {
  const auto graph = parse_graph(R"(graph g {
  input A: f16[4, 256]
  input B: f16[256, 8]
  O = block(A, B, grid=[2], loop=2) {
    a = in_iter(A, imap=[_], fmap=1)
    b = in_iter(B, imap=[1], fmap=0)
    r = reshape(a, shape=[4, 128])
    p = matmul(r, b)
    s = accum(p, kind=sum)
    O = out_saver(s, omap=[1])
  }
  output O
})");
  ASSERT_TRUE(graph) << graph.error().to_string();
  EXPECT_FALSE(retile_loops(**graph, 32));
}

}  // namespace
}  // namespace strata
