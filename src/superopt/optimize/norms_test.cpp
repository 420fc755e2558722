#include "superopt/optimize/norms.h"

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

/// Root mean squares of rows, and a gated product of them over a grid and a loop.
struct Norm {
  int rows = 4;
  int rows_of_block = 4;  // of the product's blocks
  std::string factors = "    f = in_iter(F, imap=[_, 0])\n";
  std::string scaled = "    x = mul(f, a)\n    y = mul(x, g)\n";
  std::string after = "    r = silu(sp)\n    o = mul(r, sq)\n";
  std::string more;  // statements after both
  std::string outputs = "  output O\n";
  std::string norm = R"(  F = block(A, grid=[2]) {
    a = in_iter(A, imap=[0])
    s = sqr(a)
    t = sum(s, dim=1)
    u = scale(t, factor=1/32)
    v = add_constant(u, value=1/8)
    w = rsqrt(v)
    F = out_saver(w, omap=[0])
  }
)";

  std::string text() const {
    return fmt::format(R"(graph g {{
  input A: f32[{0}, 32]
  input G: f32[32]
  input B: f32[32, 16]
  input C: f32[32, 16]
{1}  O = block(A, G, B, C, F, grid=[2, {2}], loop=4) {{
    a = in_iter(A, imap=[_, 0], fmap=1)
    g = in_iter(G, imap=[_, _], fmap=0)
    b = in_iter(B, imap=[1, _], fmap=0)
    c = in_iter(C, imap=[1, _], fmap=0)
{3}{4}    p = matmul(y, b)
    q = matmul(y, c)
    sp = accum(p, kind=sum)
    sq = accum(q, kind=sum)
{5}    O = out_saver(o, omap=[1, 0])
  }}
{6}{7}}})",
                       rows, norm, rows / rows_of_block, factors, scaled, after, more, outputs);
  }
};

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

void expect_joined(const std::string& text, size_t kernels) {
  const GraphPtr graph = graph_of(text);
  const auto joined = join_norms(graph);
  ASSERT_TRUE(joined) << joined.error().to_string() << "\n" << text;
  EXPECT_EQ((*joined)->operations().size(), kernels) << print(**joined);
  const auto valid = validate(**joined, default_target());
  EXPECT_TRUE(valid) << valid.error().to_string() << "\n" << print(**joined);
  expect_equal(*graph, **joined, 3);
}

TEST(JoinNorms, FactorsOfRowsAreMadeByTheBlocksOfTheProducts) {
  for (const int rows_of_block : {4, 2, 1}) expect_joined(Norm{.rows_of_block = rows_of_block}.text(), 1);
  // Factors and weights in any order, divisions and constants between.
  expect_joined(Norm{.scaled = "    z = mul(a, g)\n    x = mul(z, f)\n    y = scale(x, factor=3)\n"}.text(), 1);
  expect_joined(Norm{.scaled = "    z = exp(g)\n    x = mul(a, f)\n    y = div(x, z)\n"}.text(), 1);
  // What follows the loop reads the factor too, or only one of the sums has it.
  expect_joined(Norm{.after = "    r = silu(sp)\n    z = mul(r, sq)\n    o = add(z, f)\n"}.text(), 1);
  // A loop of its own, of other parts of a row.
  expect_joined(Norm{.norm = R"(  F = block(A, grid=[4], loop=2) {
    a = in_iter(A, imap=[0], fmap=1)
    s = sqr(a)
    t = sum(s, dim=1)
    u = scale(t, factor=1/32)
    n = accum(u, kind=sum)
    w = add_constant(n, value=1/8)
    F = out_saver(w, omap=[0])
  }
)"}
                    .text(),
                1);
}

TEST(JoinNorms, OthersStay) {
  const std::vector<Norm> others{
      // The factors are a result, or somebody else reads them.
      {.outputs = "  output O, F\n"},
      {.more = "  P = sqr(F)\n", .outputs = "  output O, P\n"},
      // No factor of what is added up.
      {.scaled = "    x = add(f, a)\n    y = mul(x, g)\n"},
      {.scaled = "    x = mul(f, a)\n    z = mul(x, f)\n    y = mul(z, g)\n"},
      {.scaled = "    x = mul(f, a)\n    z = exp(x)\n    y = mul(z, g)\n"},
      {.scaled = "    x = mul(f, g)\n    y = mul(x, a)\n"},
      {.scaled = "    x = div(f, a)\n    y = mul(x, g)\n"},
      // Squares of sums of other parts of a row.
      {.norm = R"(  F = block(A, grid=[4], loop=2) {
    a = in_iter(A, imap=[0], fmap=1)
    t = sum(a, dim=1)
    u = sqr(t)
    n = accum(u, kind=sum)
    F = out_saver(n, omap=[0])
  }
)"},
  };
  for (const Norm& norm : others) expect_joined(norm.text(), 2 + (norm.more.empty() ? 0 : 1));
}

}  // namespace
}  // namespace strata
