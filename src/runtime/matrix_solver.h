// Factors of matrices and solves of triangular systems that cuSOLVER and cuBLAS compute, as launches of a program.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cusolver.h"
#include "runtime/matrix_pointers.h"
#include "runtime/prepared_work.h"

namespace strata {

/// Elements of a matrix: f32, f64, c64, c128.
struct MatrixElement {
  bool wide = false;
  bool complex = false;

  /// Of ByElement.
  size_t number() const { return (wide ? 1 : 0) + (complex ? 2 : 0); }
  int64_t bytes() const { return (wide ? 8 : 4) * (complex ? 2 : 1); }
  friend bool operator==(const MatrixElement&, const MatrixElement&) = default;
};
std::string_view name_of(MatrixElement element);
Result<MatrixElement> parse_matrix_element(std::string_view name);

enum class FactorKind : uint8_t { Cholesky, Lu, Qr, Orthogonal };
std::string_view name_of(FactorKind kind);
Result<FactorKind> parse_factor_kind(std::string_view name);

/// Of each of `batch` matrices, which lie one after the other, column by column:
///  - Cholesky: of a square one, of which one triangle is read and becomes the factor; the other one stays.
///  - Lu: l below u, by partial pivoting, and min(rows, columns) numbers of 32 bits: the row from 1 that each row was
///    exchanged with.
///  - Qr: r on the diagonal and above, reflectors below it, and min(rows, columns) factors of these.
///  - Orthogonal: of such a matrix and its factors the first columns of the reflectors' product.
/// Of the first two a number of 32 bits for each matrix, too: 0, or the first column from 1 where there is no factor,
/// or where u has a 0.
struct MatrixFactor {
  FactorKind kind = FactorKind::Cholesky;
  MatrixElement element{};
  int64_t rows = 1, columns = 1, batch = 1;
  int64_t reflectors = 0;  ///< of Orthogonal
  bool upper = false;      ///< of Cholesky: the triangle
  bool together = false;   ///< one call for all matrices, which are square but of Qr; else one for each
  int64_t algorithm = 0;   ///< there is one

  int64_t steps() const { return kind == FactorKind::Orthogonal ? reflectors : rows < columns ? rows : columns; }
  int64_t matrix_bytes() const { return rows * columns * element.bytes(); }
  /// The matrices' bytes of pivots, or of reflectors' factors.
  int64_t steps_bytes() const { return steps() * (kind == FactorKind::Lu ? 4 : element.bytes()); }
  /// The factors, the pivots of Lu or factors of reflectors, the numbers.
  size_t results() const { return kind == FactorKind::Lu ? 3 : kind == FactorKind::Orthogonal ? 1 : 2; }
  /// The matrices, of Orthogonal the factors of reflectors, and these.
  size_t arguments() const { return (kind == FactorKind::Orthogonal ? 2 : 1) + results(); }
  friend bool operator==(const MatrixFactor&, const MatrixFactor&) = default;
};

/// x of op(a) · x = b, or of x · op(a) = b, for each of `batch` triangular matrices a of `order` rows, all of which lie
/// column by column.
struct MatrixSolve {
  enum class Operation : uint8_t { None, Transpose, Adjoint };

  MatrixElement element{};
  int64_t order = 1, sides = 1, batch = 1;  ///< sides: columns of b, or its rows where `right`
  bool right = false;                       ///< x · op(a) = b
  bool upper = false;                       ///< the triangle of a
  bool unit = false;                        ///< its diagonal is taken to be 1
  Operation operation = Operation::None;
  bool together = false;  ///< one call for all matrices
  int64_t algorithm = 0;  ///< there is one

  int64_t matrix_bytes() const { return order * order * element.bytes(); }
  int64_t side_bytes() const { return order * sides * element.bytes(); }
  static constexpr size_t results() { return 1; }
  /// a, b, x.
  static constexpr size_t arguments() { return 3; }
  friend bool operator==(const MatrixSolve&, const MatrixSolve&) = default;
};
std::string_view name_of(MatrixSolve::Operation operation);
Result<MatrixSolve::Operation> parse_solve_operation(std::string_view name);

/// "Cholesky f32 257 of 33×33, upper, together".
std::string describe(const MatrixFactor& factor);
/// "right solve f32 129 of 19 for 3, upper, transposed, unit, together".
std::string describe(const MatrixSolve& solve);

/// What launches of the manifest say that are a factor or a solve.
constexpr std::string_view kFactorLibrary = "cusolver";
constexpr std::string_view kSolveLibrary = "cublas";

/// Both libraries in the current context.
class SolverLibrary {
 public:
  /// Error (Environment) where one is missing.
  static Result<std::unique_ptr<SolverLibrary>> open(const CudaDriver& driver);
  ~SolverLibrary();
  SolverLibrary(const SolverLibrary&) = delete;
  SolverLibrary& operator=(const SolverLibrary&) = delete;

  const CudaDriver& driver() const { return driver_; }
  const Cusolver& solver() const { return solver_; }
  const Cublas& blas() const { return blas_; }
  Cusolver::Handle solver_handle() const { return solver_handle_; }
  /// As the library has them at first: rotations to the type's precision, values in order.
  const Cusolver::Settings& settings() const { return settings_; }
  Cublas::Handle blas_handle() const { return blas_handle_; }
  /// What follows goes to the stream, with this memory for cuBLAS. Says so only where it is new: a stream that a graph
  /// is made of shall see launches alone.
  Result<void> use(CudaStream stream, CudaPointer work) const;
  Result<const MatrixPointers*> pointers() const;
  /// Threads share the handles, whose stream and memory are set before each call: held from there to the call.
  std::mutex& in_use() const { return in_use_; }

 private:
  SolverLibrary(const CudaDriver& driver, const Cusolver& solver, const Cublas& blas)
      : driver_(driver), solver_(solver), blas_(blas) {}

  const CudaDriver& driver_;
  Cusolver solver_;
  Cublas blas_;
  Cusolver::Handle solver_handle_ = nullptr;
  Cusolver::Settings settings_;
  Cublas::Handle blas_handle_ = nullptr;
  mutable std::mutex in_use_;
  mutable CudaStream stream_ = nullptr;
  mutable CudaPointer work_ = 0;
  mutable bool used_ = false;
  mutable std::unique_ptr<MatrixPointers> pointers_;
};

/// Whether the libraries have such work: its sizes are of 32 bits, and an orthogonal factor has no more columns than
/// rows.
bool is_supported(const MatrixFactor& factor);
bool is_supported(const MatrixSolve& solve);

/// Error (Unsupported) where they have not (is_supported), or where another algorithm than 0 is asked for.
Result<std::unique_ptr<PreparedWork>> prepare(const SolverLibrary& library, const MatrixFactor& factor);
Result<std::unique_ptr<PreparedWork>> prepare(const SolverLibrary& library, const MatrixSolve& solve);

}  // namespace strata
