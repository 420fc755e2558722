#include "superopt/optimize/epilogue.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "interpret/interpret.h"
#include "ir/text.h"
#include "ir/validate.h"
#include "machine/target.h"
#include "support/random.h"

namespace strata {
namespace {

GraphPtr graph_of(const std::string& text) {
  const auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string() << "\n" << text;
  return graph ? *graph : nullptr;
}

/// A product over a grid and a loop, and what comes behind it; the result is O.
std::string product(int grid, int loop, const std::string& inputs, const std::string& behind,
                    const std::string& outputs = "  output O\n") {
  const std::string sum = loop > 1 ? "    s = accum(p, kind=sum)\n" : "    s = scale(p, factor=1)\n";
  return fmt::format(R"(graph g {{
  input A: f32[4, 64]
  input B: f32[64, 16]
{}  P = block(A, B, grid=[{}], loop={}) {{
    a = in_iter(A, imap=[_]{})
    b = in_iter(B, imap=[1]{})
    p = matmul(a, b)
{}    P = out_saver(s, omap=[1])
  }}
{}{}}})",
                     inputs, grid, loop, loop > 1 ? ", fmap=1" : "", loop > 1 ? ", fmap=0" : "", sum, behind, outputs);
}

void expect_equal(const Graph& a, const Graph& b, uint64_t seed) {
  Random random(seed);
  std::vector<Tensor<double>> inputs;
  for (const TensorId id : a.inputs()) {
    Tensor<double> tensor(a.type(id).shape);
    for (double& value : tensor.data) value = random.uniform(-1, 1);
    inputs.push_back(std::move(tensor));
  }
  Float64Arithmetic exact;
  const auto before = execute(a, exact, inputs);
  const auto after = execute(b, exact, inputs);
  ASSERT_TRUE(before && after);
  ASSERT_EQ(before->size(), after->size());
  for (size_t o = 0; o < before->size(); ++o) {
    for (size_t i = 0; i < (*before)[o].data.size(); ++i)
      ASSERT_NEAR((*before)[o].data[i], (*after)[o].data[i], 1e-12) << print(b);
  }
}

TEST(JoinEpilogues, AResidualIsAddedByTheBlocksOfTheProduct) {
  const GraphPtr graph = graph_of(product(2, 4, "  input X: f32[4, 16]\n", R"(
  O = block(X, P, grid=[4, 2]) {
    x = in_iter(X, imap=[0, 1])
    q = in_iter(P, imap=[0, 1])
    o = add(x, q)
    O = out_saver(o, omap=[0, 1])
  }
)"));
  const auto joined = join_epilogues(graph);
  ASSERT_TRUE(joined) << joined.error().to_string();
  ASSERT_EQ((*joined)->operations().size(), 1U) << print(**joined);
  EXPECT_TRUE(validate(**joined, default_target()));
  EXPECT_EQ((*joined)->operations()[0].body->launch(), graph->operations()[0].body->launch());
  expect_equal(*graph, **joined, 1);
}

TEST(JoinEpilogues, WhatIsNoEpilogueStays) {
  const std::vector<std::string> texts{// The product is a result, or two kernels read it.
                                       product(2, 4, "  input X: f32[4, 16]\n", "  O = add(P, X)\n", "  output O, P\n"),
                                       product(2, 4, "", "  Q = sqr(P)\n  R = exp(P)\n  O = add(Q, R)\n"),
                                       // No elementwise operator, or one whose result is larger.
                                       product(2, 4, "", "  O = sum(P, dim=1)\n"),
                                       product(2, 4, "  input X: f32[3, 4, 16]\n", "  O = add(P, X)\n"),
                                       // A block that reads other elements than it writes.
                                       product(2, 4, "  input X: f32[4, 16]\n", R"(  O = block(X, P, grid=[2, 2]) {
    x = in_iter(X, imap=[0, 1])
    q = in_iter(P, imap=[1, 0])
    r = reshape(q, shape=[2, 8])
    o = add(x, r)
    O = out_saver(o, omap=[0, 1])
  }
)"),
                                       product(2, 4, "", R"(  O = block(P, grid=[2]) {
    q = in_iter(P, imap=[0])
    t = sum(q, dim=1)
    o = sub(q, t)
    O = out_saver(o, omap=[0])
  }
)")};
  for (const std::string& text : texts) {
    const GraphPtr graph = graph_of(text);
    const auto joined = join_epilogues(graph);
    ASSERT_TRUE(joined) << joined.error().to_string();
    EXPECT_EQ(*joined, graph) << print(**joined);
  }
}

/// Chains of operators on the product and on inputs that broadcast to it, some of them block graphs.
TEST(JoinEpilogues, RandomChainsComputeTheSame) {
  size_t joined_kernels = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const char* const shapes[] = {"[4, 16]", "[16]", "[1, 16]", "[4, 1]"};
    const char* const imaps[][2] = {{"0", "1"}, {"_", "0"}, {"_", "1"}, {"0", "_"}};
    const int steps = 1 + static_cast<int>(random.below(4));
    std::string inputs, behind;
    std::string value = "P";
    for (int i = 0; i < steps; ++i) {
      const std::string result = i + 1 == steps ? "O" : fmt::format("V{}", i);
      const auto shape = static_cast<size_t>(random.below(4));
      const bool binary = random.below(4) != 0;
      const bool again = random.below(4) == 0;  // reads an operand of the product's kernel too
      const std::string other = shape == 0 && i > 0 && again ? "X0" : fmt::format("X{}", i);
      const bool is_new = other != "X0" || i == 0;
      const bool known = other == "X0" && i > 0;
      const char* operators[] = {"add", "sub", "mul", "max"};
      const char* name = operators[random.below(4)];
      const bool use = binary && (!known || inputs.find("input X0: f32[4, 16]") != std::string::npos);
      if (use && is_new) inputs += fmt::format("  input {}: f32{}\n", other, shapes[shape]);
      if (random.below(2) == 0) {
        behind += use ? fmt::format("  {} = {}({}, {})\n", result, name, other, value)
                      : fmt::format("  {} = sqr({})\n", result, value);
      } else if (use) {
        behind += fmt::format(R"(  {0} = block({1}, {2}, grid=[4, 2]) {{
    x = in_iter({1}, imap=[{4}, {5}])
    q = in_iter({2}, imap=[0, 1])
    y = {3}(x, q)
    z = {3}(y, x)
    {0} = out_saver(z, omap=[0, 1])
  }}
)",
                              result, other, value, name, imaps[shape][0], imaps[shape][1]);
      } else {
        behind += fmt::format(R"(  {0} = block({1}, grid=[2]) {{
    q = in_iter({1}, imap=[0])
    y = silu(q)
    {0} = out_saver(y, omap=[0])
  }}
)",
                              result, value);
      }
      value = result;
    }
    const std::string text = product(random.below(2) == 0 ? 2 : 4, random.below(3) == 0 ? 1 : 4, inputs, behind);
    const GraphPtr graph = graph_of(text);
    ASSERT_TRUE(graph);
    const auto joined = join_epilogues(graph);
    ASSERT_TRUE(joined) << joined.error().to_string() << text;
    ASSERT_TRUE(validate(**joined, default_target())) << print(**joined);
    EXPECT_EQ((*joined)->operations().size(), 1U) << text << print(**joined);
    joined_kernels += graph->operations().size() - (*joined)->operations().size();
    expect_equal(*graph, **joined, seed);
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << text;
  }
  EXPECT_GE(joined_kernels, 300U);
}

}  // namespace
}  // namespace strata
