#include "runtime/matrix_spectrum.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <vector>

#include "runtime/matrix_work.h"

namespace strata {
namespace {

using namespace matrix_work;

constexpr std::array<std::string_view, 2> kKinds{"eigen", "singular"};
constexpr std::array<std::string_view, 3> kVectors{"none", "thin", "full"};
/// What kernels of one block for a matrix are for.
constexpr int64_t kMostRotated = 32;
/// Larger eigenvalues that a graph held: 512 rows, of 1,024 none.
constexpr int64_t kMostRecorded = 512;
/// A call of fewer matrices where a workspace would be larger: some KB for each of up to 32 rows, else some hundred.
constexpr int64_t kMostWorkspace = int64_t{256} << 20;
/// What rotations need is said in elements of 32 bits: of so many matrices it fits.
constexpr int64_t kMostOfCall = 1 << 15;

class PreparedSpectrum final : public PreparedWork {
 public:
  PreparedSpectrum(const SolverLibrary& library, const MatrixSpectrum& spectrum)
      : library_(library), spectrum_(spectrum), count_(std::min(spectrum.batch, kMostOfCall)) {}

  Result<void> make() {
    STRATA_CHECK(library_.solver().check(ask(), describe(spectrum_)));
    while (work_bytes() > kMostWorkspace && count_ > 1) {
      count_ = (count_ + 1) / 2;
      STRATA_CHECK(library_.solver().check(ask(), describe(spectrum_)));
    }
    on_host_.resize(host_bytes_);
    return {};
  }

  int64_t workspace_bytes() const override { return aligned(work_bytes()) + unread_left() + unread_right(); }

  Result<void> run(CudaStream stream, const std::vector<CudaPointer>& arguments, CudaPointer workspace) const override {
    assert(arguments.size() == spectrum_.arguments());
    const std::scoped_lock lock(library_.in_use());
    const std::string what = describe(spectrum_);
    const CudaPointer to = arguments[1];
    STRATA_CHECK(copy(library_.driver(), to, arguments[0], spectrum_.batch * spectrum_.matrix_bytes(), stream, what));
    STRATA_CHECK(library_.use(stream, 0));
    for (int64_t first = 0; first < spectrum_.batch; first += count_) {
      const auto at = [&](CudaPointer of, int64_t bytes) { return of + static_cast<CudaPointer>(first * bytes); };
      Matrices some{std::min(count_, spectrum_.batch - first),
                    at(to, spectrum_.matrix_bytes()),
                    at(arguments[2], spectrum_.values_bytes()),
                    workspace + static_cast<CudaPointer>(aligned(work_bytes())),
                    workspace + static_cast<CudaPointer>(aligned(work_bytes()) + unread_left()),
                    at(arguments.back(), 4),
                    workspace};
      if (spectrum_.has_factors()) {
        some.left = at(arguments[3], spectrum_.left_bytes());
        some.right = at(arguments[4], spectrum_.right_bytes());
      }
      STRATA_CHECK(library_.solver().check(run_some(some), what));
    }
    return {};
  }

 private:
  /// Of one call.
  struct Matrices {
    int64_t count;
    CudaPointer elements, values, left, right, info, work;
  };

  bool is_eigen() const { return spectrum_.kind == SpectrumKind::Eigen; }
  int64_t work_bytes() const { return static_cast<int64_t>(device_bytes_) + elements_ * spectrum_.element.bytes(); }

  /// Routines for singular values may use vectors' places even where none are asked for.
  int64_t unread(int64_t order) const {
    if (is_eigen() || spectrum_.has_factors()) return 0;
    return aligned(count_ * order * order * spectrum_.element.bytes());
  }
  int64_t unread_left() const { return unread(spectrum_.rows); }
  int64_t unread_right() const { return unread(spectrum_.columns); }

  int type() const { return spectrum_.element.wide ? Cusolver::kF64 : Cusolver::kF32; }
  int wanted() const { return spectrum_.vectors == SpectrumVectors::None ? Cusolver::kNoVectors : Cusolver::kVectors; }
  int triangle() const { return spectrum_.upper ? Cublas::kUpper : Cublas::kLower; }
  int rows() const { return static_cast<int>(spectrum_.rows); }
  int columns() const { return static_cast<int>(spectrum_.columns); }
  size_t element() const { return spectrum_.element.wide ? 1 : 0; }

  int ask() {
    const Cusolver& solver = library_.solver();
    const Cusolver::Handle handle = library_.solver_handle();
    const Cusolver::Settings& settings = library_.settings();
    const auto count = static_cast<int>(count_);
    if (is_eigen() && spectrum_.is_small())
      return solver.eigen_small_work[element()](handle, wanted(), triangle(), rows(), 0, rows(), 0, &elements_,
                                                settings.eigen, count);
    if (is_eigen())
      return solver.eigen_work(handle, settings.general, wanted(), triangle(), rows(), type(), 0, rows(), type(), 0,
                               type(), &device_bytes_, &host_bytes_, count);
    return solver.singular_small_work[element()](handle, wanted(), rows(), columns(), 0, rows(), 0, 0, rows(), 0,
                                                 columns(), &elements_, settings.singular, count);
  }

  int run_some(const Matrices& some) const {
    const Cusolver& solver = library_.solver();
    const Cusolver::Handle handle = library_.solver_handle();
    const Cusolver::Settings& settings = library_.settings();
    const auto count = static_cast<int>(some.count);
    if (is_eigen() && spectrum_.is_small())
      return solver.eigen_small[element()](handle, wanted(), triangle(), rows(), some.elements, rows(), some.values,
                                           some.work, elements_, some.info, settings.eigen, count);
    if (is_eigen())
      return solver.eigen(handle, settings.general, wanted(), triangle(), rows(), type(), some.elements, rows(), type(),
                          some.values, type(), some.work, device_bytes_, on_host_.data(), host_bytes_, some.info,
                          count);
    return solver.singular_small[element()](handle, wanted(), rows(), columns(), some.elements, rows(), some.values,
                                            some.left, rows(), some.right, columns(), some.work, elements_, some.info,
                                            settings.singular, count);
  }

  const SolverLibrary& library_;
  MatrixSpectrum spectrum_;
  int64_t count_;     ///< matrices of one call
  int elements_ = 0;  ///< of the workspace, where a routine says elements
  size_t device_bytes_ = 0, host_bytes_ = 0;
  mutable std::vector<char> on_host_;
};

}  // namespace

std::string_view name_of(SpectrumKind kind) { return kKinds[static_cast<size_t>(kind)]; }

Result<SpectrumKind> parse_spectrum_kind(std::string_view name) {
  const auto number = number_of(kKinds, name);
  if (!number) return invalid("'{}' is no kind of spectrum", name);
  return static_cast<SpectrumKind>(*number);
}

std::string_view name_of(SpectrumVectors vectors) { return kVectors[static_cast<size_t>(vectors)]; }

Result<SpectrumVectors> parse_spectrum_vectors(std::string_view name) {
  const auto number = number_of(kVectors, name);
  if (!number) return invalid("'{}' says nothing about vectors", name);
  return static_cast<SpectrumVectors>(*number);
}

std::string describe(const MatrixSpectrum& spectrum) {
  const bool eigen = spectrum.kind == SpectrumKind::Eigen, vectors = spectrum.vectors != SpectrumVectors::None;
  return fmt::format(
      "{} {} {} of {}×{}{}{}",
      eigen ? (vectors ? "eigenpairs" : "eigenvalues") : (vectors ? "singular vectors" : "singular values"),
      name_of(spectrum.element), spectrum.batch, spectrum.rows, spectrum.columns,
      !eigen           ? ""
      : spectrum.upper ? ", upper"
                       : ", lower",
      !eigen && spectrum.vectors == SpectrumVectors::Full ? ", full" : "");
}

bool MatrixSpectrum::is_small() const { return rows <= kMostRotated && columns <= kMostRotated; }

bool MatrixSpectrum::waits_on_host() const { return rows > kMostRecorded; }

bool is_supported(const MatrixSpectrum& spectrum) {
  if (spectrum.element.complex || spectrum.rows < spectrum.columns) return false;
  const bool has_whole = spectrum.vectors != SpectrumVectors::Thin || spectrum.rows == spectrum.columns;
  if (spectrum.kind == SpectrumKind::Singular && !(spectrum.is_small() && has_whole)) return false;
  return fits(spectrum.rows, spectrum.columns, spectrum.batch);
}

bool is_there(const Cusolver& solver, const MatrixSpectrum& spectrum) {
  return spectrum.is_small() || solver.eigen != nullptr;
}

Result<std::unique_ptr<PreparedWork>> prepare(const SolverLibrary& library, const MatrixSpectrum& spectrum) {
  if (spectrum.algorithm != 0) return unsupported("cuSOLVER has 1 algorithm for {}", describe(spectrum));
  if (!is_supported(spectrum)) return unsupported("cuSOLVER has no {}", describe(spectrum));
  if (!is_there(library.solver(), spectrum))
    return unsupported("cuSOLVER has no {} before CUDA 12.6", describe(spectrum));
  auto made = std::make_unique<PreparedSpectrum>(library, spectrum);
  STRATA_CHECK(made->make());
  return made;
}

}  // namespace strata
