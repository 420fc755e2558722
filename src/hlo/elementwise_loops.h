// The loops of elementwise operators, over pieces of arrays that stay in the cache.
#pragma once

#include <algorithm>
#include <array>

#include "hlo/compute.h"

namespace strata::hlo {

/// Elements are loaded, computed and stored this many at a time.
inline constexpr int64_t kChunk = 1024;

/// 0 where one element serves for all.
inline int64_t stride_of(const Literal& operand, int64_t count) { return operand.size() == 1 && count != 1 ? 0 : 1; }

/// Calls compute(first, count) for each piece of `size` elements.
template <class Compute>
void in_chunks(int64_t size, Compute compute) {
  for (int64_t begin = 0; begin < size; begin += kChunk) compute(begin, std::min(kChunk, size - begin));
}

/// result[i] = function(operand[i]); T and Out are the types in which the operand and the result are computed.
template <class T, class Out = T, class Function>
void map_unary(const Literal& operand, Literal& result, Function function) {
  std::byte* bytes = result.mutable_bytes();
  const int64_t stride = stride_of(operand, result.size());
  in_chunks(result.size(), [&](int64_t begin, int64_t count) {
    std::array<T, kChunk> x;
    std::array<Out, kChunk> y;
    load(operand, begin * stride, stride, count, x.data());
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) y[i] = function(x[i]);
    store(result.type(), bytes, begin, count, y.data());
  });
}

template <class T, class Out = T, class Function>
void map_binary(const Literal& lhs, const Literal& rhs, Literal& result, Function function) {
  std::byte* bytes = result.mutable_bytes();
  const int64_t left = stride_of(lhs, result.size());
  const int64_t right = stride_of(rhs, result.size());
  in_chunks(result.size(), [&](int64_t begin, int64_t count) {
    std::array<T, kChunk> a;
    std::array<T, kChunk> b;
    std::array<Out, kChunk> y;
    load(lhs, begin * left, left, count, a.data());
    load(rhs, begin * right, right, count, b.data());
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) y[i] = function(a[i], b[i]);
    store(result.type(), bytes, begin, count, y.data());
  });
}

}  // namespace strata::hlo
