#include "ir/views.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "support/random.h"

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

TEST(Views, ReshapesThatLieRowMajorAreViewsForAll) {
  const GraphPtr graph = parsed(R"(graph g {
  input A: f16[4, 48]
  R = reshape(A, shape=[4, 6, 8])
  S = slice(R, dim=1, start=0, size=3)
  T = transpose(R, perm=[1, 0, 2])
  U = reshape(T, shape=[6, 2, 2, 8])
  V = reshape(T, shape=[24, 8])
  P = sqr(V)
  O = block(U, grid=[6]) {
    u = in_iter(U, imap=[0])
    s = sqr(u)
    O = out_saver(s, omap=[0])
  }
  output O, P, S
})");
  // T lies as nothing that V could be read of, so that it is made: V and U are views of that.
  EXPECT_EQ(view_operations(*graph), (std::vector<bool>{true, false, false, true, true, false, false}));
  EXPECT_EQ(memory_view(*graph, *graph->find_tensor("R")).memory, *graph->find_tensor("A"));
  EXPECT_EQ(memory_view(*graph, *graph->find_tensor("V")).memory, *graph->find_tensor("T"));
  const MemoryView view = memory_view(*graph, *graph->find_tensor("U"));
  EXPECT_EQ(view.memory, *graph->find_tensor("T"));
  EXPECT_EQ(view.strides, (std::vector<int64_t>{32, 16, 8, 1}));
}

TEST(Views, ReshapesOfTransposesAreReadByBlocks) {
  const GraphPtr graph = parsed(R"(graph g {
  input A: f16[4, 6, 8]
  T = transpose(A, perm=[1, 0, 2])
  U = reshape(T, shape=[6, 2, 2, 8])
  O = block(U, grid=[6]) {
    u = in_iter(U, imap=[0])
    s = sqr(u)
    O = out_saver(s, omap=[0])
  }
  output O
})");
  EXPECT_EQ(view_operations(*graph), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(memory_view(*graph, *graph->find_tensor("U")).strides, (std::vector<int64_t>{8, 96, 48, 1}));
}

/// Heads side by side, each of which has rows of its own in memory, as a product reads them; `loop` cuts the columns.
std::string heads(int loop) {
  return fmt::format(R"(graph g {{
  input A: f16[4, 6, 8]
  input B: f16[32, 16]
  T = transpose(A, perm=[1, 0, 2])
  U = reshape(T, shape=[6, 32])
  O = block(U, B, grid=[2], loop={}) {{
    u = in_iter(U, imap=[_], fmap=1)
    b = in_iter(B, imap=[1], fmap=0)
    p = matmul(u, b)
    s = accum(p, kind=sum)
    O = out_saver(s, omap=[1])
  }}
  output O
}})",
                     loop);
}

TEST(Views, BlocksReadFoldsWhereTheirTilesLieInOnePieceEach) {
  for (const int loop : {4, 8, 16}) {
    const GraphPtr graph = parsed(heads(loop).c_str());
    EXPECT_EQ(view_operations(*graph), (std::vector<bool>{true, true, false}));
    // U[i, 8·h + j] = A[h, i, j].
    const MemoryView view = memory_view(*graph, *graph->find_tensor("U"));
    EXPECT_EQ(view.memory, *graph->find_tensor("A"));
    EXPECT_EQ(view.strides, (std::vector<int64_t>{8, 1}));
    EXPECT_EQ(view.folds, (std::vector<Fold>{{1, 8, 48}}));
  }
  // Two heads in a tile.
  const GraphPtr graph = parsed(heads(2).c_str());
  EXPECT_EQ(view_operations(*graph), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(memory_view(*graph, *graph->find_tensor("U")).memory, *graph->find_tensor("T"));
}

TEST(Views, RandomReshapesReadTheSameElements) {
  Random random(7);
  int found = 0;
  int found_folded = 0;
  for (int round = 0; round < 2000; ++round) {
    // A transposed array, and another shape of as many elements.
    Shape shape, to;
    int64_t count = 1;
    for (uint64_t d = random.below(5); d > 0; --d) shape.push_back(std::array{1, 2, 2, 3, 4}[random.below(5)]);
    for (const int64_t size : shape) count *= size;
    int64_t left = count;
    while (left > 1 || random.below(3) == 0) {
      int64_t size = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(left)));
      while (left % size != 0) --size;
      to.push_back(size);
      left /= size;
    }
    std::vector<int64_t> strides = row_major_strides(shape);
    for (size_t i = shape.size(); i > 1; --i) {
      const size_t other = random.below(i);
      std::swap(shape[i - 1], shape[other]);
      std::swap(strides[i - 1], strides[other]);
    }
    const auto made = reshaped_strides(shape, strides, to);
    const auto place = [](const Shape& of, const std::vector<int64_t>& by, int64_t n) {
      int64_t at = 0;
      for (size_t d = of.size(); d-- > 0; n /= of[d]) at += n % of[d] * by[d];
      return at;
    };
    EXPECT_TRUE(made.has_value() || !is_row_major(shape, strides));
    if (const auto folded = folded_strides(shape, strides, to)) {
      found_folded += folded->folds.empty() ? 0 : 1;
      EXPECT_TRUE(!made || folded->folds.empty());
      for (int64_t n = 0; n < count; ++n) {
        int64_t at = 0;
        int64_t rest = n;
        for (size_t d = to.size(); d-- > 0; rest /= to[d]) {
          int64_t index = rest % to[d];
          for (const Fold& fold : folded->folds) {
            if (fold.dim != d) continue;
            at += index / fold.size * fold.stride;
            index %= fold.size;
          }
          at += index * folded->strides[d];
        }
        ASSERT_EQ(at, place(shape, strides, n));
      }
    } else {
      EXPECT_FALSE(made);
    }
    if (!made) continue;
    ++found;
    for (int64_t n = 0; n < count; ++n) ASSERT_EQ(place(to, *made, n), place(shape, strides, n));
  }
  EXPECT_GT(found, 200);
  EXPECT_LT(found, 1900);
  EXPECT_GT(found_folded, 20);
}

TEST(Views, OfAllTensorsAtOnceAndOfEachAreTheSame) {
  const GraphPtr graph = parsed(R"(graph g {
  input A: f16[4, 8]
  T = transpose(A, perm=[1, 0])
  R = reshape(T, shape=[2, 4, 4])
  Q = sqr(A)
  U = transpose(Q, perm=[1, 0])
  P = reshape(Q, shape=[32])
  S = exp(P)
  O = block(T, U, grid=[2]) {
    t = in_iter(T, imap=[0])
    u = in_iter(U, imap=[0])
    s = add(t, u)
    O = out_saver(s, omap=[0])
  }
  output O, R, S
})");
  for (const std::vector<bool>& strided : {std::vector<bool>{}, std::vector<bool>(graph->operations().size(), true)}) {
    const std::vector<MemoryView> all = memory_views(*graph, strided);
    ASSERT_EQ(all.size(), graph->tensors().size());
    int elsewhere = 0;
    for (size_t t = 0; t < all.size(); ++t) {
      const auto id = static_cast<TensorId>(t);
      const MemoryView one = memory_view(*graph, id, strided);
      EXPECT_EQ(one.memory, all[t].memory) << graph->tensor(id).name;
      EXPECT_EQ(one.strides, all[t].strides) << graph->tensor(id).name;
      EXPECT_EQ(one.folds, all[t].folds) << graph->tensor(id).name;
      elsewhere += one.memory != id;
    }
    EXPECT_GE(elsewhere, 2);
  }
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
