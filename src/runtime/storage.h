// Tensors as they lie in device memory: elements of their type, row-major.
#pragma once

#include <string>

#include "ops/tensor.h"

namespace strata {

/// The elements, rounded to `type`.
std::string encode(const Tensor<double>& tensor, DType type);
/// The other way. `bytes` must hold all elements of `type`.
Tensor<double> decode(const std::string& bytes, const TensorType& type);

/// The largest relative error (Frobenius norm) of an output of this type that is taken for rounding.
double tolerance(DType type);
/// ‖found − expected‖ / ‖expected‖ in the Frobenius norm; where `expected` is 0, ‖found‖. NaN where `found` holds one.
double relative_error(const Tensor<double>& found, const Tensor<double>& expected);

}  // namespace strata
