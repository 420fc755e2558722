// Matrices in memory, column by column, for libraries without a GPU: all types as complex numbers of f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>

#include "host_library.h"

namespace strata::fake {

using Number = std::complex<double>;

/// An element type by its letter: S, D, C, Z.
class Matrix {
 public:
  Matrix(char type, CudaPointer at, int64_t leading)
      : memory_(reinterpret_cast<char*>(at)),
        real_(type == 'S' || type == 'C' ? DType::F32 : DType::F64),
        complex_(type == 'C' || type == 'Z'),
        leading_(leading) {}

  Number operator()(int64_t i, int64_t j) const {
    const int64_t at = i + j * leading_;
    if (!complex_) return load(memory_, real_, at);
    return {load(memory_, real_, 2 * at), load(memory_, real_, 2 * at + 1)};
  }
  void set(int64_t i, int64_t j, Number value) const {
    const int64_t at = i + j * leading_;
    if (!complex_) return store(memory_, real_, at, value.real());
    store(memory_, real_, 2 * at, value.real());
    store(memory_, real_, 2 * at + 1, value.imag());
  }
  /// By the sum of the parts' absolute values, as BLAS compares.
  static double size(Number of) { return std::abs(of.real()) + std::abs(of.imag()); }

 private:
  char* memory_;
  DType real_;
  bool complex_;
  int64_t leading_;
};

inline int* numbers(CudaPointer at) { return reinterpret_cast<int*>(at); }
inline CudaPointer address(CudaPointer list, int64_t i) { return reinterpret_cast<const CudaPointer*>(list)[i]; }

/// Elimination with partial pivoting; pivots from 1.
inline void factor_with_pivots(const Matrix& a, int64_t rows, int64_t columns, int* pivots, int* info) {
  *info = 0;
  for (int64_t k = 0; k < std::min(rows, columns); ++k) {
    int64_t largest = k;
    for (int64_t i = k; i < rows; ++i) {
      if (Matrix::size(a(i, k)) > Matrix::size(a(largest, k))) largest = i;
    }
    pivots[k] = static_cast<int>(largest) + 1;
    for (int64_t j = 0; j < columns && largest != k; ++j) {
      const Number other = a(largest, j);
      a.set(largest, j, a(k, j));
      a.set(k, j, other);
    }
    if (a(k, k) == Number(0)) {
      if (*info == 0) *info = static_cast<int>(k) + 1;
      continue;
    }
    for (int64_t i = k + 1; i < rows; ++i) {
      const Number factor = a(i, k) / a(k, k);
      a.set(i, k, factor);
      for (int64_t j = k + 1; j < columns; ++j) a.set(i, j, a(i, j) - a(i, k) * a(k, j));
    }
  }
}

/// a := (1 - factor · v · vᴴ) · a of the columns from `first` on, with the
/// reflector v of column j of `of`.
inline void reflect(const Matrix& a, const Matrix& of, int64_t j, Number factor, int64_t first, int64_t rows,
                    int64_t columns) {
  const auto v = [&](int64_t i) { return i == j ? Number(1) : of(i, j); };
  for (int64_t c = first; c < columns; ++c) {
    Number sum = 0;
    for (int64_t i = j; i < rows; ++i) sum += std::conj(v(i)) * a(i, c);
    for (int64_t i = j; i < rows; ++i) a.set(i, c, a(i, c) - factor * v(i) * sum);
  }
}

/// Factors of reflectors are the column of a matrix.
inline void factor_by_reflectors(const Matrix& a, int64_t rows, int64_t columns, const Matrix& factors) {
  for (int64_t j = 0; j < std::min(rows, columns); ++j) {
    double rest = 0;
    for (int64_t i = j + 1; i < rows; ++i) rest += std::norm(a(i, j));
    const Number alpha = a(j, j);
    if (rest == 0 && alpha.imag() == 0) {
      factors.set(j, 0, 0);
      continue;
    }
    const double size = std::sqrt(std::norm(alpha) + rest), beta = alpha.real() >= 0 ? -size : size;
    const Number factor = (beta - alpha) / beta;
    for (int64_t i = j + 1; i < rows; ++i) a.set(i, j, a(i, j) / (alpha - beta));
    reflect(a, a, j, std::conj(factor), j + 1, rows, columns);
    a.set(j, j, beta);
    factors.set(j, 0, factor);
  }
}

inline void multiply_reflectors(const Matrix& a, int64_t rows, int64_t columns, int64_t reflectors,
                                const Matrix& factors) {
  std::vector<double> memory(static_cast<size_t>(2 * rows * columns));
  const Matrix made('Z', reinterpret_cast<CudaPointer>(memory.data()), rows);
  for (int64_t i = 0; i < std::min(rows, columns); ++i) made.set(i, i, 1);
  for (int64_t j = reflectors; j-- > 0;) reflect(made, a, j, factors(j, 0), 0, rows, columns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) a.set(i, j, made(i, j));
  }
}

}  // namespace strata::fake
