// A dense tensor of values of one Arithmetic, and the loops that operators need over it.
#pragma once

#include <span>
#include <vector>

#include "ops/types.h"

namespace strata {

/// Row-major, innermost dimension last.
template <class Value>
struct Tensor {
  Shape shape;
  std::vector<Value> data;

  Tensor() = default;
  explicit Tensor(Shape s) : shape(std::move(s)), data(static_cast<size_t>(element_count(shape))) {}
  Tensor(Shape s, std::vector<Value> d) : shape(std::move(s)), data(std::move(d)) {}

  Value& operator[](int64_t i) { return data[static_cast<size_t>(i)]; }
  const Value& operator[](int64_t i) const { return data[static_cast<size_t>(i)]; }
  int64_t size() const { return static_cast<int64_t>(data.size()); }
};

/// Calls visit(linear index in `shape`, offsets) for every element in row-major order, where offsets[n]
/// advances by strides[n] along each dimension of `shape`.
template <size_t N, class Visit>
void for_each_index(const Shape& shape, const std::array<std::vector<int64_t>, N>& strides, Visit&& visit,
                    std::array<int64_t, N> offsets = {}) {
  const int64_t total = element_count(shape);
  const size_t rank = shape.size();
  std::array<int64_t, kMaxRank> index{};
  for (int64_t linear = 0; linear < total; ++linear) {
    visit(linear, offsets);
    for (size_t d = rank; d-- > 0;) {
      ++index[d];
      for (size_t n = 0; n < N; ++n) offsets[n] += strides[n][d];
      if (index[d] < shape[d]) break;
      for (size_t n = 0; n < N; ++n) offsets[n] -= strides[n][d] * shape[d];
      index[d] = 0;
    }
  }
}

/// Row-major strides in elements, with no zeros for size 1.
std::vector<int64_t> row_major_strides(const Shape& shape);

}  // namespace strata
