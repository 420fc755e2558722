// NumPy's .npy files: how `strata run` exchanges tensors. Format: numpy.lib.format, versions 1 to 3.
#pragma once

#include <string>

#include "ops/tensor.h"

namespace strata {

/// Reads little-endian f2, f4 or f8 in C or Fortran order. Error, naming the file, where it cannot be read or is
/// anything else.
Result<Tensor<double>> read_npy(const std::string& path);
/// C order, in <f8, or the elements as they are in a narrower type: f16 as <f2, f32 and bf16 as <f4.
std::string npy_bytes(const Tensor<double>& tensor, DType type = DType::F64);

}  // namespace strata
