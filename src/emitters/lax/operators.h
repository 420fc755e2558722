// Elementwise operators of HLO on values of a program under construction.
#pragma once

#include "emitters/lax/tensors.h"

namespace strata::emitters {

/// Operands have the same dimensions. Constants become attributes, quotients of constants wait for the product that
/// they are a factor of, and x · 1 / (1 + e^−x) is silu. Error (Unsupported): what src/ir has no operator for.
class LaxOperators {
 public:
  explicit LaxOperators(LaxTensors& tensors) : tensors_(tensors) {}

  Result<LaxValue> unary(OpKind kind, const LaxValue& of);
  Result<LaxValue> add(const LaxValue& a, const LaxValue& b);
  Result<LaxValue> subtract(const LaxValue& a, const LaxValue& b);
  Result<LaxValue> multiply(const LaxValue& a, const LaxValue& b);
  Result<LaxValue> divide(const LaxValue& a, const LaxValue& b);
  Result<LaxValue> maximum(const LaxValue& a, const LaxValue& b);
  Result<LaxValue> power(const LaxValue& a, const LaxValue& b);
  Result<LaxValue> logistic(const LaxValue& of);
  /// a where the mask is 1, b where it is 0; all have `dimensions` dimensions, and one of the two may be a constant.
  Result<LaxValue> select(const LaxValue& mask, const LaxValue& a, const LaxValue& b, size_t dimensions);
  Result<LaxValue> negate(const LaxValue& of) { return scaled(of, -1); }
  /// A parameter as a tensor.
  Result<LaxValue> as_tensor(const LaxValue& of);

 private:
  std::vector<int64_t> sizes_of(const LaxValue& value) const;
  /// A tensor of one element.
  Result<TensorId> constant_tensor(double value);
  Result<LaxValue> with_operator(OpKind kind, const LaxValue& of, Attributes attributes = {});
  Result<LaxValue> with_constant(OpKind kind, const char* name, const LaxValue& of, double constant, bool inverse);
  Result<LaxValue> plus(const LaxValue& of, double constant);
  Result<LaxValue> scaled(const LaxValue& of, double constant, bool inverse = false);
  Result<LaxValue> binary(OpKind kind, const LaxValue& a, const LaxValue& b);
  bool is_logistic_divisor(TensorId tensor, const LaxValue& x) const;

  LaxTensors& tensors_;
};

}  // namespace strata::emitters
