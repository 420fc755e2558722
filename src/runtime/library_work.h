// What a library computes as one launch of a program, whichever library it is.
#pragma once

#include <optional>
#include <variant>

#include "runtime/convolution.h"
#include "runtime/fft.h"
#include "runtime/matrix_product.h"
#include "runtime/matrix_solver.h"
#include "runtime/matrix_spectrum.h"

namespace strata {

using LibraryWork = std::variant<MatrixProduct, Convolution, Fft, MatrixFactor, MatrixSolve, MatrixSpectrum>;

/// "cuBLASLt", "cuDNN", "cuFFT", "cuSOLVER" or "cuBLAS".
std::string_view library_of(const LibraryWork& work);
std::string describe(const LibraryWork& work);
/// How many buffers a launch of it takes.
size_t arguments_of(const LibraryWork& work);
/// How many of them it writes: the last ones.
size_t results_of(const LibraryWork& work);
/// Which argument it computes its first result in: a launch copies it there where it lies elsewhere. None where it
/// leaves what it reads as it is.
std::optional<size_t> overwritten_argument(const LibraryWork& work);
/// Whether the host waits for some of it, so that no CUDA graph can hold it.
bool waits_on_host(const LibraryWork& work);

}  // namespace strata
