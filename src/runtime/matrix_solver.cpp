#include "runtime/matrix_solver.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <mutex>

#include "runtime/matrix_work.h"

namespace strata {
namespace {

using namespace matrix_work;

constexpr std::array<std::string_view, 4> kElements{"f32", "f64", "c64", "c128"};  // by MatrixElement::number()
constexpr std::array<std::string_view, 4> kFactors{"Cholesky", "LU", "QR", "orthogonal"};
constexpr std::array<std::string_view, 3> kOperations{"none", "transpose", "adjoint"};
constexpr int64_t kPointerBytes = 8;
/// What cuBLAS asks for on GPUs of the Hopper generation.
constexpr int64_t kBlasWorkspace = int64_t{32} << 20;

class PreparedFactor final : public PreparedWork {
 public:
  PreparedFactor(const SolverLibrary& library, const MatrixFactor& factor)
      : library_(library),
        factor_(factor),
        rows_(static_cast<int>(factor.rows)),
        columns_(static_cast<int>(factor.columns)) {}

  Result<void> make() {
    if (factor_.together) {
      STRATA_TRY(pointers_, library_.pointers());
      return {};
    }
    const Cusolver& solver = library_.solver();
    return solver.check(ask(solver, library_.solver_handle(), factor_.element.number()), describe(factor_));
  }

  int64_t workspace_bytes() const override {
    if (!factor_.together) return kAlignment + aligned(work_elements_ * factor_.element.bytes());
    return pointer_bytes() + (factor_.kind == FactorKind::Cholesky ? 0 : kBlasWorkspace);
  }

  Result<void> run(CudaStream stream, const std::vector<CudaPointer>& arguments, CudaPointer workspace) const override {
    assert(arguments.size() == factor_.arguments());
    const std::scoped_lock lock(library_.in_use());
    const std::string what = describe(factor_);
    // Of Orthogonal factors are read, and the result comes after them.
    const bool orthogonal = factor_.kind == FactorKind::Orthogonal;
    const CudaPointer to = arguments[orthogonal ? 2 : 1];
    STRATA_CHECK(copy(library_.driver(), to, arguments[0], factor_.batch * factor_.matrix_bytes(), stream, what));
    const bool numbers = factor_.kind == FactorKind::Cholesky || factor_.kind == FactorKind::Lu;
    const CudaPointer steps = orthogonal ? arguments[1] : factor_.kind == FactorKind::Cholesky ? 0 : arguments[2];
    if (factor_.together) return run_together(stream, to, steps, arguments.back(), workspace);
    STRATA_CHECK(library_.use(stream, 0));
    for (int64_t i = 0; i < factor_.batch; ++i) {
      const auto at = [&](CudaPointer of, int64_t bytes) { return of + static_cast<CudaPointer>(i * bytes); };
      const Matrix one{at(to, factor_.matrix_bytes()), at(steps, factor_.steps_bytes()),
                       numbers ? at(arguments.back(), 4) : workspace, workspace + kAlignment};
      STRATA_CHECK(library_.solver().check(run_one(one), what));
    }
    return {};
  }

 private:
  struct Matrix {
    CudaPointer elements, steps, info, work;
  };

  int triangle() const { return factor_.upper ? Cublas::kUpper : Cublas::kLower; }
  int reflectors() const { return static_cast<int>(factor_.reflectors); }
  int64_t pointer_bytes() const { return aligned(factor_.batch * 2 * kPointerBytes); }

  int ask(const Cusolver& solver, Cusolver::Handle handle, size_t element) {
    switch (factor_.kind) {
      case FactorKind::Cholesky:
        return solver.cholesky_work[element](handle, triangle(), columns_, 0, rows_, &work_elements_);
      case FactorKind::Lu:
        return solver.lu_work[element](handle, rows_, columns_, 0, rows_, &work_elements_);
      case FactorKind::Qr:
        return solver.qr_work[element](handle, rows_, columns_, 0, rows_, &work_elements_);
      case FactorKind::Orthogonal:
        return solver.orthogonal_work[element](handle, rows_, columns_, reflectors(), 0, rows_, 0, &work_elements_);
    }
    return 0;
  }

  int run_one(const Matrix& one) const {
    const Cusolver& solver = library_.solver();
    const Cusolver::Handle handle = library_.solver_handle();
    const size_t element = factor_.element.number();
    switch (factor_.kind) {
      case FactorKind::Cholesky:
        return solver.cholesky[element](handle, triangle(), columns_, one.elements, rows_, one.work, work_elements_,
                                        one.info);
      case FactorKind::Lu:
        return solver.lu[element](handle, rows_, columns_, one.elements, rows_, one.work, one.steps, one.info);
      case FactorKind::Qr:
        return solver.qr[element](handle, rows_, columns_, one.elements, rows_, one.steps, one.work, work_elements_,
                                  one.info);
      case FactorKind::Orthogonal:
        return solver.orthogonal[element](handle, rows_, columns_, reflectors(), one.elements, rows_, one.steps,
                                          one.work, work_elements_, one.info);
    }
    return 0;
  }

  Result<void> run_together(CudaStream stream, CudaPointer to, CudaPointer steps, CudaPointer info,
                            CudaPointer workspace) const {
    const std::string what = describe(factor_);
    const bool qr = factor_.kind == FactorKind::Qr;
    const MatrixPointers::Matrices matrices{to, factor_.matrix_bytes()}, factors{steps, factor_.steps_bytes()};
    STRATA_CHECK(pointers_->write(stream, workspace, {matrices, qr ? factors : matrices}, factor_.batch));
    const size_t element = factor_.element.number();
    const auto batch = static_cast<int>(factor_.batch);
    if (factor_.kind == FactorKind::Cholesky) {
      STRATA_CHECK(library_.use(stream, 0));
      const Cusolver& solver = library_.solver();
      return solver.check(solver.cholesky_batched[element](library_.solver_handle(), triangle(), columns_, workspace,
                                                           rows_, info, batch),
                          what);
    }
    STRATA_CHECK(library_.use(stream, workspace + static_cast<CudaPointer>(pointer_bytes())));
    const Cublas& blas = library_.blas();
    if (!qr)
      return blas.check(blas.lu_batched[element](library_.blas_handle(), rows_, workspace, rows_, steps, info, batch),
                        what);
    int mistake = 0;
    const CudaPointer second = workspace + static_cast<CudaPointer>(factor_.batch * kPointerBytes);
    return blas.check(
        blas.qr_batched[element](library_.blas_handle(), rows_, columns_, workspace, rows_, second, &mistake, batch),
        what);
  }

  const SolverLibrary& library_;
  MatrixFactor factor_;
  const MatrixPointers* pointers_ = nullptr;
  int rows_, columns_;
  int work_elements_ = 0;
};

class PreparedSolve final : public PreparedWork {
 public:
  PreparedSolve(const SolverLibrary& library, const MatrixSolve& solve) : library_(library), solve_(solve) {}

  Result<void> make() {
    if (!solve_.together) return {};
    STRATA_TRY(pointers_, library_.pointers());
    return {};
  }

  int64_t workspace_bytes() const override { return pointer_bytes() + kBlasWorkspace; }

  Result<void> run(CudaStream stream, const std::vector<CudaPointer>& arguments, CudaPointer workspace) const override {
    const std::scoped_lock lock(library_.in_use());
    assert(arguments.size() == MatrixSolve::arguments());
    const std::string what = describe(solve_);
    const CudaPointer a = arguments[0], x = arguments[2];
    STRATA_CHECK(copy(library_.driver(), x, arguments[1], solve_.batch * solve_.side_bytes(), stream, what));
    STRATA_CHECK(library_.use(stream, workspace + static_cast<CudaPointer>(pointer_bytes())));
    const Cublas& blas = library_.blas();
    const size_t element = solve_.element.number();
    const auto order = static_cast<int>(solve_.order), sides = static_cast<int>(solve_.sides);
    const int rows = solve_.right ? sides : order, columns = solve_.right ? order : sides;
    const int side = solve_.right ? Cublas::kRight : Cublas::kLeft;
    const int triangle = solve_.upper ? Cublas::kUpper : Cublas::kLower;
    const int diagonal = solve_.unit ? Cublas::kUnit : Cublas::kNonUnit;
    const auto operation = static_cast<int>(solve_.operation);
    if (solve_.together) {
      const std::array<MatrixPointers::Matrices, 2> matrices{{{a, solve_.matrix_bytes()}, {x, solve_.side_bytes()}}};
      STRATA_CHECK(pointers_->write(stream, workspace, matrices, solve_.batch));
      return blas.check(blas.solve_batched[element](library_.blas_handle(), side, triangle, operation, diagonal, rows,
                                                    columns, one(), workspace, order,
                                                    workspace + static_cast<CudaPointer>(solve_.batch * kPointerBytes),
                                                    rows, static_cast<int>(solve_.batch)),
                        what);
    }
    for (int64_t i = 0; i < solve_.batch; ++i) {
      STRATA_CHECK(
          blas.check(blas.solve[element](library_.blas_handle(), side, triangle, operation, diagonal, rows, columns,
                                         one(), a + static_cast<CudaPointer>(i * solve_.matrix_bytes()), order,
                                         x + static_cast<CudaPointer>(i * solve_.side_bytes()), rows),
                     what));
    }
    return {};
  }

 private:
  int64_t pointer_bytes() const { return solve_.together ? aligned(solve_.batch * 2 * kPointerBytes) : 0; }

  /// 1 as an element: of complex numbers the first of two.
  const void* one() const {
    static constexpr std::array<float, 2> narrow{1, 0};
    static constexpr std::array<double, 2> wide{1, 0};
    return solve_.element.wide ? static_cast<const void*>(wide.data()) : narrow.data();
  }

  static_assert(static_cast<int>(MatrixSolve::Operation::None) == Cublas::kAsItIs &&
                static_cast<int>(MatrixSolve::Operation::Transpose) == Cublas::kTransposed &&
                static_cast<int>(MatrixSolve::Operation::Adjoint) == Cublas::kAdjoint);

  const SolverLibrary& library_;
  MatrixSolve solve_;
  const MatrixPointers* pointers_ = nullptr;
};

}  // namespace

std::string_view name_of(MatrixElement element) { return kElements[element.number()]; }

Result<MatrixElement> parse_matrix_element(std::string_view name) {
  const auto number = number_of(kElements, name);
  if (!number) return invalid("'{}' is no type of a matrix's elements", name);
  return MatrixElement{*number % 2 == 1, *number >= 2};
}

std::string_view name_of(FactorKind kind) { return kFactors[static_cast<size_t>(kind)]; }

Result<FactorKind> parse_factor_kind(std::string_view name) {
  const auto number = number_of(kFactors, name);
  if (!number) return invalid("'{}' is no kind of factor", name);
  return static_cast<FactorKind>(*number);
}

std::string_view name_of(MatrixSolve::Operation operation) { return kOperations[static_cast<size_t>(operation)]; }

Result<MatrixSolve::Operation> parse_solve_operation(std::string_view name) {
  const auto number = number_of(kOperations, name);
  if (!number) return invalid("'{}' is nothing that is done with a matrix", name);
  return static_cast<MatrixSolve::Operation>(*number);
}

std::string describe(const MatrixFactor& factor) {
  return fmt::format("{} {} {} of {}×{}{}{}", name_of(factor.kind), name_of(factor.element), factor.batch, factor.rows,
                     factor.columns,
                     factor.kind != FactorKind::Cholesky ? ""
                     : factor.upper                      ? ", upper"
                                                         : ", lower",
                     factor.together ? ", together" : "");
}

std::string describe(const MatrixSolve& solve) {
  return fmt::format("{} solve {} {} of {} for {}, {}{}{}{}", solve.right ? "right" : "left", name_of(solve.element),
                     solve.batch, solve.order, solve.sides, solve.upper ? "upper" : "lower",
                     solve.operation == MatrixSolve::Operation::None        ? ""
                     : solve.operation == MatrixSolve::Operation::Transpose ? ", transposed"
                                                                            : ", adjoint",
                     solve.unit ? ", unit" : "", solve.together ? ", together" : "");
}

Result<std::unique_ptr<SolverLibrary>> SolverLibrary::open(const CudaDriver& driver) {
  STRATA_TRY(const Cusolver solver, open_cusolver());
  STRATA_TRY(const Cublas blas, open_cublas());
  std::unique_ptr<SolverLibrary> made(new SolverLibrary(driver, solver, blas));
  STRATA_CHECK(solver.check(solver.create(&made->solver_handle_), "opening cuSOLVER"));
  Cusolver::Settings& settings = made->settings_;
  STRATA_CHECK(solver.check(solver.create_parameters(&settings.general), "opening cuSOLVER"));
  STRATA_CHECK(solver.check(solver.create_rotations(&settings.eigen), "opening cuSOLVER"));
  STRATA_CHECK(solver.check(solver.create_singular(&settings.singular), "opening cuSOLVER"));
  STRATA_CHECK(blas.check(blas.create(&made->blas_handle_), "opening cuBLAS"));
  return made;
}

SolverLibrary::~SolverLibrary() {
  if (settings_.general != nullptr) solver_.destroy_parameters(settings_.general);
  if (settings_.eigen != nullptr) solver_.destroy_rotations(settings_.eigen);
  if (settings_.singular != nullptr) solver_.destroy_singular(settings_.singular);
  if (solver_handle_ != nullptr) solver_.destroy(solver_handle_);
  if (blas_handle_ != nullptr) blas_.destroy(blas_handle_);
}

Result<void> SolverLibrary::use(CudaStream stream, CudaPointer work) const {
  if (!used_ || stream != stream_) {
    STRATA_CHECK(solver_.check(solver_.use_stream(solver_handle_, stream), "using a stream"));
    STRATA_CHECK(blas_.check(blas_.use_stream(blas_handle_, stream), "using a stream"));
    stream_ = stream;
    work_ = 0;  // which the new stream has made cuBLAS forget
    used_ = true;
  }
  if (work == 0 || work == work_) return {};
  work_ = work;
  return blas_.check(blas_.use_work(blas_handle_, work, static_cast<size_t>(kBlasWorkspace)), "using a workspace");
}

Result<const MatrixPointers*> SolverLibrary::pointers() const {
  if (!pointers_) {
    STRATA_TRY(pointers_, MatrixPointers::load(driver_));
  }
  return pointers_.get();
}

bool is_supported(const MatrixFactor& factor) {
  const bool is_tall = factor.kind != FactorKind::Orthogonal || factor.columns <= factor.rows;
  return is_tall && fits(factor.rows, factor.columns, factor.batch);
}

bool is_supported(const MatrixSolve& solve) {
  return fits(solve.order, std::max(solve.order, solve.sides), solve.batch);
}

Result<std::unique_ptr<PreparedWork>> prepare(const SolverLibrary& library, const MatrixFactor& factor) {
  if (factor.algorithm != 0) return unsupported("cuSOLVER has 1 algorithm for {}", describe(factor));
  if (!is_supported(factor)) return unsupported("cuSOLVER has no {}", describe(factor));
  auto made = std::make_unique<PreparedFactor>(library, factor);
  STRATA_CHECK(made->make());
  return made;
}

Result<std::unique_ptr<PreparedWork>> prepare(const SolverLibrary& library, const MatrixSolve& solve) {
  if (solve.algorithm != 0) return unsupported("cuBLAS has 1 algorithm for {}", describe(solve));
  if (!is_supported(solve)) return unsupported("cuBLAS has no {}", describe(solve));
  auto made = std::make_unique<PreparedSolve>(library, solve);
  STRATA_CHECK(made->make());
  return made;
}

}  // namespace strata
