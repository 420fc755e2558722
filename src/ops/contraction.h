// The batched matrix product that matmul and concat_matmul share.
#pragma once

#include "ops/elementwise.h"

namespace strata {

/// Type of A × B: innermost two dimensions contracted, leading ones broadcast.
Result<TensorType> infer_matmul(const TensorType& a, const TensorType& b);

/// Labels of A × B: those of the result are its dimensions' numbers; `reduced` is the contracted one's.
IndexLabels matmul_labels(const Shape& a, const Shape& b, int reduced);

/// One matrix of `multiply` over the field: sums of products are reduced once for many of them, and only in the
/// residues that are live.
void multiply_matrix(const FieldArithmetic& arithmetic, const FieldArithmetic::Value* a,
                     const FieldArithmetic::Value* b, FieldArithmetic::Value* out, const std::array<int64_t, 3>& mnk,
                     bool accumulate);

/// result (+)= A × B, accumulated in the arithmetic's own precision, in increasing k.
template <class A, bool kAccumulate>
void multiply(A& arithmetic, const Tensor<typename A::Value>& a, const Tensor<typename A::Value>& b,
              Tensor<typename A::Value>& result) {
  using Value = typename A::Value;
  const size_t rank = result.shape.size();
  const int64_t m = result.shape[rank - 2];
  const int64_t n = result.shape[rank - 1];
  const int64_t k = a.shape.back();
  const Shape batch(result.shape.begin(), result.shape.end() - 2);
  const auto batch_strides = [&](const Shape& shape, int64_t matrix) {
    auto strides = broadcast_strides(Shape(shape.begin(), shape.end() - 2), batch.size());
    for (int64_t& stride : strides) stride *= matrix;
    return strides;
  };
  for_each_index<2>(batch, {batch_strides(a.shape, m * k), batch_strides(b.shape, k * n)},
                    [&](int64_t i, const std::array<int64_t, 2>& at) {
                      if constexpr (std::same_as<A, FieldArithmetic>) {
                        multiply_matrix(arithmetic, a.data.data() + at[0], b.data.data() + at[1],
                                        result.data.data() + i * m * n, {m, n, k}, kAccumulate);
                        return;
                      }
                      for (int64_t row = 0; row < m; ++row) {
                        Value* out = result.data.data() + (i * m + row) * n;
                        for (int64_t c = 0; c < k; ++c) {
                          const Value x = a[at[0] + row * k + c];
                          const Value* y = b.data.data() + at[1] + c * n;
                          if (c == 0 && !kAccumulate) {
                            for (int64_t j = 0; j < n; ++j) out[j] = arithmetic.mul(x, y[j]);
                          } else {
                            for (int64_t j = 0; j < n; ++j) out[j] = arithmetic.add(out[j], arithmetic.mul(x, y[j]));
                          }
                        }
                      }
                    });
}

}  // namespace strata
