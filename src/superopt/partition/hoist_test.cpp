#include "superopt/partition/hoist.h"

#include <gtest/gtest.h>

#include "interpret/interpret.h"
#include "ir/text.h"
#include "support/random.h"

namespace strata {
namespace {

GraphPtr parsed(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

/// Both programs make the same of random inputs.
void expect_same(const Graph& a, const Graph& b) {
  Random random(3);
  std::vector<Tensor<double>> inputs;
  for (TensorId id : a.inputs()) {
    Tensor<double> tensor(a.type(id).shape);
    for (double& value : tensor.data) value = random.uniform(0.5, 1.5);
    inputs.push_back(std::move(tensor));
  }
  Float64Arithmetic exact;
  const auto first = execute(a, exact, inputs);
  const auto second = execute(b, exact, inputs);
  ASSERT_TRUE(first && second);
  for (size_t n = 0; n < first->size(); ++n) {
    ASSERT_EQ((*first)[n].shape, (*second)[n].shape);
    for (size_t i = 0; i < (*first)[n].data.size(); ++i) {
      EXPECT_NEAR((*first)[n].data[i], (*second)[n].data[i], 1e-9);
    }
  }
}

/// Whether every transpose of the program reads an input.
bool all_at_inputs(const Graph& graph) {
  for (const Operation& op : graph.operations()) {
    if (op.kind == OpKind::Transpose && graph.tensor(op.operands[0]).producer >= 0) return false;
  }
  return true;
}

TEST(Hoist, NormalisedKeysAreTransposedBeforeTheirNorm) {
  const GraphPtr program = parsed(R"(graph g {
  input Q: f16[2, 3, 8]
  input Kt: f16[2, 5, 8]
  S = sqr(Kt)
  Z = sum(S, dim=2)
  R = sqrt(Z)
  N = div(Kt, R)
  K = transpose(N, perm=[0, 2, 1])
  O = matmul(Q, K)
  output O
})");
  const auto hoisted = hoist_transposes(program);
  ASSERT_TRUE(hoisted) << hoisted.error().to_string();
  EXPECT_TRUE(all_at_inputs(**hoisted)) << print(**hoisted);
  EXPECT_NE(*hoisted, program);
  expect_same(*program, **hoisted);
}

TEST(Hoist, TransposedProductsAreProductsOfTransposes) {
  const GraphPtr program = parsed(R"(graph g {
  input A: f16[3, 4]
  input B: f16[4, 5]
  P = matmul(A, B)
  T = transpose(P, perm=[1, 0])
  U = transpose(T, perm=[1, 0])
  O = exp(U)
  output O
})");
  const auto hoisted = hoist_transposes(program);
  ASSERT_TRUE(hoisted) << hoisted.error().to_string();
  EXPECT_TRUE(all_at_inputs(**hoisted));
  expect_same(*program, **hoisted);
}

TEST(Hoist, WhatOthersReadStays) {
  const GraphPtr program = parsed(R"(graph g {
  input A: f16[3, 4]
  E = exp(A)
  T = transpose(E, perm=[1, 0])
  output T, E
})");
  const auto hoisted = hoist_transposes(program);
  ASSERT_TRUE(hoisted) << hoisted.error().to_string();
  EXPECT_EQ(*hoisted, program);  // exp would be computed twice
}

TEST(Hoist, OutputsThatTransposesCancelOutOfKeepTheirNames) {
  const GraphPtr program = parsed(R"(graph g {
  input A: f16[3, 4]
  input B: f16[3, 4]
  T = transpose(A, perm=[1, 0])
  E = exp(T)
  U = transpose(E, perm=[1, 0])
  S = mul(B, U)
  V = transpose(S, perm=[1, 0])
  W = transpose(V, perm=[1, 0])
  output W, U
})");
  const auto hoisted = hoist_transposes(program);
  ASSERT_TRUE(hoisted) << hoisted.error().to_string();
  for (size_t n = 0; n < 2; ++n) {
    EXPECT_EQ((*hoisted)->tensor((*hoisted)->outputs()[n]).name, program->tensor(program->outputs()[n]).name);
  }
  expect_same(*program, **hoisted);
  // Where the output would be an input, or another output, the program stays as it is.
  for (const char* text : {"graph g {\n input A: f16[3, 4]\n T = transpose(A, perm=[1, 0])\n"
                           " U = transpose(T, perm=[1, 0])\n output U\n}",
                           "graph g {\n input A: f16[3, 4]\n E = exp(A)\n T = transpose(E, perm=[1, 0])\n"
                           " U = transpose(T, perm=[1, 0])\n output U, E\n}"}) {
    EXPECT_FALSE(hoist_transposes(parsed(text))) << text;
  }
}

TEST(Hoist, OutputsKeepTheirOrderAndNames) {
  const GraphPtr program = parsed(R"(graph g {
  input A: f16[3, 4]
  S = sqr(A)
  T = transpose(S, perm=[1, 0])
  M = sum(T, dim=0)
  output T, M
})");
  const auto hoisted = hoist_transposes(program);
  ASSERT_TRUE(hoisted) << hoisted.error().to_string();
  EXPECT_TRUE(all_at_inputs(**hoisted)) << print(**hoisted);
  expect_same(*program, **hoisted);
}

}  // namespace
}  // namespace strata
