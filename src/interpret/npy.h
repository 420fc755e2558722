// NumPy's .npy files: how `strata run` exchanges tensors. Format: numpy.lib.format, versions 1 to 3.
#pragma once

#include <string>

#include "ops/tensor.h"

namespace strata {

/// Reads little-endian f2, f4 or f8 in C or Fortran order. Error, naming the file, where it cannot be read or is
/// anything else.
Result<Tensor<double>> read_npy(const std::string& path);
/// Writes <f8 in C order.
std::string npy_bytes(const Tensor<double>& tensor);

}  // namespace strata
