#include "ir/views.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace strata {
namespace {

GraphPtr parsed(const char* text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

TEST(Views, TransposesThatBlocksReadAreViews) {
  const GraphPtr graph = parsed(R"(graph g {
  input A: f16[4, 6, 8]
  T = transpose(A, perm=[0, 2, 1])
  U = transpose(T, perm=[1, 0, 2])
  O = block(U, grid=[2]) {
    u = in_iter(U, imap=[0])
    s = sqr(u)
    O = out_saver(s, omap=[0])
  }
  output O
})");
  EXPECT_EQ(view_operations(*graph), (std::vector<bool>{true, true, false}));
  // U[i, j, k] = T[j, i, k] = A[j, k, i].
  const MemoryView view = memory_view(*graph, *graph->find_tensor("U"));
  EXPECT_EQ(view.memory, *graph->find_tensor("A"));
  EXPECT_EQ(view.strides, (std::vector<int64_t>{1, 48, 8}));
  EXPECT_EQ(memory_view(*graph, *graph->find_tensor("O")).memory, *graph->find_tensor("O"));
}

TEST(Views, OutputsAndOperandsOfPredefinedOperatorsAreMade) {
  const GraphPtr graph = parsed(R"(graph g {
  input A: f16[4, 8]
  T = transpose(A, perm=[1, 0])
  U = transpose(A, perm=[1, 0])
  P = sqr(U)
  O = block(T, U, grid=[2]) {
    t = in_iter(T, imap=[0])
    u = in_iter(U, imap=[0])
    s = add(t, u)
    O = out_saver(s, omap=[0])
  }
  output O, P, T
})");
  EXPECT_EQ(view_operations(*graph), (std::vector<bool>{false, false, false, false}));
}

}  // namespace
}  // namespace strata
