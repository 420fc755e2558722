// Eigenvalues and singular values of matrices that cuSOLVER computes, as launches of a program.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/matrix_solver.h"

namespace strata {

enum class SpectrumKind : uint8_t { Eigen, Singular };
std::string_view name_of(SpectrumKind kind);
Result<SpectrumKind> parse_spectrum_kind(std::string_view name);

/// None, as many as there are values, or all that make up a square matrix.
enum class SpectrumVectors : uint8_t { None, Thin, Full };
std::string_view name_of(SpectrumVectors vectors);
Result<SpectrumVectors> parse_spectrum_vectors(std::string_view name);

/// Of each of `batch` matrices of real numbers, which lie one after the other, column by column:
///  - Eigen: of a symmetric one, of which one triangle is read, eigenvalues, ascending, and in its place eigenvectors,
///    each a column.
///  - Singular: a = u · diag · vᵀ of one with no fewer rows than columns, singular values, descending, and the columns
///    of u and of v. Its place is overwritten.
/// Of both a number of 32 bits for each matrix, too: 0, or another one where the routine has come to no end. Where no
/// vectors are asked for, the matrices' place holds anything.
struct MatrixSpectrum {
  SpectrumKind kind = SpectrumKind::Eigen;
  MatrixElement element{};
  int64_t rows = 1, columns = 1, batch = 1;
  SpectrumVectors vectors = SpectrumVectors::None;
  bool upper = false;     ///< of Eigen: the triangle
  int64_t algorithm = 0;  ///< there is one

  /// Whether rotations of one kernel, for all matrices at once, find them: of up to 32 rows.
  bool is_small() const;
  /// Whether the routine asks on the host how far it has come. Those that no graph holds leave the library's handle in
  /// disorder where they are recorded.
  bool waits_on_host() const;
  int64_t values() const { return rows < columns ? rows : columns; }
  /// Columns of u, where there are vectors, and of v.
  int64_t left() const { return vectors == SpectrumVectors::Full ? rows : values(); }
  int64_t right() const { return vectors == SpectrumVectors::Full ? columns : values(); }
  bool has_factors() const { return kind == SpectrumKind::Singular && vectors != SpectrumVectors::None; }
  int64_t matrix_bytes() const { return rows * columns * element.bytes(); }
  int64_t values_bytes() const { return values() * element.bytes(); }
  int64_t left_bytes() const { return rows * left() * element.bytes(); }
  int64_t right_bytes() const { return columns * right() * element.bytes(); }
  /// The matrices, the values, u and v where it has them, the numbers.
  size_t results() const { return has_factors() ? 5 : 3; }
  /// The matrices, and these.
  size_t arguments() const { return 1 + results(); }
  friend bool operator==(const MatrixSpectrum&, const MatrixSpectrum&) = default;
};

/// "eigenpairs f32 100 of 33×33, lower".
std::string describe(const MatrixSpectrum& spectrum);

/// Whether the library has such work: real numbers, sizes of 32 bits; singular values of up to 32 rows, with all
/// vectors that make up square matrices or none. Of larger ones the library's routines either return vectors that are
/// not orthogonal where the rank is low (Xgesvdp, on an H200), or take longer than loops may (Xgesvd).
bool is_supported(const MatrixSpectrum& spectrum);
/// Whether this version of it does: larger eigenvalues are there from CUDA 12.6 on.
bool is_there(const Cusolver& solver, const MatrixSpectrum& spectrum);

/// Error (Unsupported) where it has not (is_supported, is_there), or where another algorithm than 0 is asked for.
Result<std::unique_ptr<PreparedWork>> prepare(const SolverLibrary& library, const MatrixSpectrum& spectrum);

}  // namespace strata
