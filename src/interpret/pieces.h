// Operations of large tensors piece by piece, so that one that takes long can be stopped inside.
#pragma once

#include <algorithm>
#include <optional>

#include "ir/graph.h"

namespace strata {

/// How an operation of a kernel graph is executed in pieces: slices of its result along one dimension, each of slices
/// of those operands that walk with it.
struct Pieces {
  static constexpr int kWhole = -1;
  size_t dim = 0;             ///< of the result
  int64_t size = 0;           ///< entries of a piece along it; the last piece may have fewer
  std::vector<int> operands;  ///< for each operand the dimension that is sliced with it, or kWhole
};

/// Pieces of which each takes some hundredths of a second. None where the operation is small, has a graph of its own,
/// depends on the grid and the loop, or has no dimension along which its result can be computed slice by slice.
std::optional<Pieces> pieces_of(const Graph& graph, const Operation& op);

/// Calls copy(offset in the whole, offset in the slice, entries) for each contiguous run of the slice [first, first +
/// size) of `shape` along `dim`.
template <class Copy>
void for_each_run(const Shape& shape, size_t dim, int64_t first, int64_t size, Copy&& copy) {
  int64_t inner = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  const int64_t outer = element_count(shape) / (inner * shape[dim]);
  for (int64_t o = 0; o < outer; ++o) copy((o * shape[dim] + first) * inner, o * size * inner, size * inner);
}

/// The slice [first, first + size) along `dim`.
template <class Value>
Tensor<Value> slice_of(const Tensor<Value>& whole, size_t dim, int64_t first, int64_t size) {
  Shape shape = whole.shape;
  shape[dim] = size;
  Tensor<Value> slice(std::move(shape));
  for_each_run(whole.shape, dim, first, size, [&](int64_t from, int64_t to, int64_t count) {
    std::copy_n(whole.data.begin() + from, count, slice.data.begin() + to);
  });
  return slice;
}

/// Writes a slice to its place, from `first` on along `dim`.
template <class Value>
void put_slice(Tensor<Value>& whole, size_t dim, int64_t first, const Tensor<Value>& slice) {
  for_each_run(whole.shape, dim, first, slice.shape[dim], [&](int64_t to, int64_t from, int64_t count) {
    std::copy_n(slice.data.begin() + from, count, whole.data.begin() + to);
  });
}

}  // namespace strata
