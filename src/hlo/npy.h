// Literals as NumPy's .npy files: how `strata run` exchanges arrays of HLO programs.
#pragma once

#include <string>

#include "hlo/literal.h"
#include "support/error.h"

namespace strata::hlo {

/// Reads an array of the shape, in C or Fortran order. Integers may be of any width that holds their values; floats of
/// any width are rounded to the shape's type; types that NumPy lacks may also be raw bytes (V1, V2). Error, naming the
/// file, where it cannot be read or holds anything else.
Result<Literal> read_npy(const std::string& path, const Shape& shape);
/// In C order. Types that NumPy lacks become wider ones: s4 is i1, bf16 and f8 are f4.
std::string npy_bytes(const Literal& literal);

}  // namespace strata::hlo
