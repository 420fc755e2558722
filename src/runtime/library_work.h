// What a library computes as one launch of a program, whichever library it is.
#pragma once

#include <variant>

#include "runtime/convolution.h"
#include "runtime/fft.h"
#include "runtime/matrix_product.h"

namespace strata {

using LibraryWork = std::variant<MatrixProduct, Convolution, Fft>;

/// "cuBLASLt", "cuDNN" or "cuFFT".
std::string_view library_of(const LibraryWork& work);
std::string describe(const LibraryWork& work);
/// How many buffers a launch of it takes.
size_t arguments_of(const LibraryWork& work);

}  // namespace strata
