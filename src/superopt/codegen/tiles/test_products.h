// Random products in block graphs, for tests of how their tiles are loaded.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>

#include "support/random.h"

namespace strata {

inline int64_t one_of(Random& random, std::initializer_list<int64_t> choices) {
  return choices.begin()[random.below(choices.size())];
}

/// O = (X ∘ g)·W, of tiles of random sizes: rows of W of 32 to 256 bytes along either dimension, 1 to 72 rows of X, in
/// a batch or not.
inline std::string random_product(Random& random) {
  const int64_t rows = one_of(random, {1, 3, 8, 16, 24, 64, 72});
  const int64_t depth = one_of(random, {16, 32, 64, 128});
  const int64_t columns = one_of(random, {16, 32, 64, 128});
  const int64_t batch = one_of(random, {0, 0, 2});
  const int64_t loop = one_of(random, {2, 4, 8});
  const int64_t across = one_of(random, {2, 4});  // blocks along columns
  const bool transposed = random.below(2) == 1;
  const bool batched = batch > 0;
  const std::string b = batched ? fmt::format("{}, ", batch) : "";
  const std::string type = random.below(2) == 1 ? "f16" : "bf16";
  const int dim = batched ? 1 : 0;  // of rows
  std::string text = "graph product {\n";
  text += fmt::format("  input X: {}[{}{}, {}]\n", type, b, rows, depth * loop);
  text += transposed ? fmt::format("  input Wt: {}[{}{}, {}]\n", type, b, columns * across, depth * loop)
                     : fmt::format("  input W: {}[{}{}, {}]\n", type, b, depth * loop, columns * across);
  text += fmt::format("  input G: {}[{}]\n", type, depth * loop);
  if (transposed) text += fmt::format("  W = transpose(Wt, perm={})\n", batched ? "[0, 2, 1]" : "[1, 0]");
  const std::string grid = batched ? fmt::format("[{}, {}]", batch, across) : fmt::format("[{}]", across);
  const auto map = [&](int column) {
    const std::string last = column < 0 ? "_" : std::to_string(column);
    return batched ? fmt::format("[0, {}]", last) : fmt::format("[{}]", last);
  };
  text += fmt::format("  O = block(X, W, G, grid={}, loop={}) {{\n", grid, loop);
  text += fmt::format("    x = in_iter(X, imap={}, fmap={})\n", map(-1), dim + 1);
  text += fmt::format("    w = in_iter(W, imap={}, fmap={})\n", map(dim + 1), dim);
  text += fmt::format("    g = in_iter(G, imap={}, fmap=0)\n", batched ? "[_, _]" : "[_]");
  text += "    y = mul(x, g)\n    p = matmul(y, w)\n    a = accum(p, kind=sum)\n";
  text += fmt::format("    O = out_saver(a, omap={})\n  }}\n  output O\n}}\n", map(dim + 1));
  return text;
}

}  // namespace strata
