#include "superopt/codegen/solver_seconds.h"

#include <algorithm>

namespace strata {
namespace {

/// The share of the scalar units' rate that large matrices get, and that each of many small ones gets.
constexpr double kLargeShare = 0.5;
constexpr double kSmallShare = 0.05;
/// Operations of a matrix of n rows, over n³: a reduction to a tridiagonal matrix with its vectors, and sweeps of
/// rotations from both sides and from one.
constexpr double kReduction = 9, kRotations = 30, kSingularRotations = 90;
/// A row of eigenpairs in one call, however many matrices: 7.2 to 10.1 µs of one of 64 to 1024 rows, 6.2 of 100 of 64,
/// 5.3 of 16 of 128, 22 of 4 of 512; of up to 32 rows 3.4 to 4.6. A column of singular vectors of one matrix: 34, 30,
/// 19, 22 and 26 µs of 64 to 1024 columns; of a batch of up to 32 in one call 6.1. f32, H200, 2026-11-29.
constexpr double kEigenColumn = 8e-6, kSmallEigenColumn = 3.2e-6;
constexpr double kSingularColumn = 6e-6;

/// Complex numbers take four products in place of one.
double work_of(MatrixElement element) { return element.complex ? 4 : 1; }
/// Scalar units of f64 are half as many.
double rate_of(MatrixElement element, const Target& target) {
  return target.rates.scalar_rate / (element.wide ? 2 : 1);
}

/// Of calls that take so long a column each, or of one for all matrices.
double seconds_of(bool together, int64_t batch, int64_t columns, double column, double small_column, double operations,
                  double rate, const Target& target) {
  const auto calls = static_cast<double>(together ? 1 : batch);
  const double chain = static_cast<double>(columns) * (together ? small_column : column);
  const double all = operations * static_cast<double>(batch) / ((together ? kSmallShare : kLargeShare) * rate);
  // The kernel that writes addresses is launched, too.
  return calls * (target.rates.solver_start + chain) + all + (together ? target.rates.kernel : 0);
}

}  // namespace

double factor_seconds(const MatrixFactor& factor, const Target& target) {
  const auto m = static_cast<double>(factor.rows), n = static_cast<double>(factor.columns);
  const double steps = std::min(m, n);
  const double rest = steps * steps * (std::max(m, n) - steps / 3);
  const Rates& rates = target.rates;
  const auto seconds = [&](double column, double small_column, double operations) {
    return seconds_of(factor.together, factor.batch, factor.steps(), column, small_column,
                      work_of(factor.element) * operations, rate_of(factor.element, target), target);
  };
  switch (factor.kind) {
    case FactorKind::Cholesky:
      return seconds(rates.cholesky_column, rates.small_cholesky_column, steps * steps * steps / 3);
    case FactorKind::Lu:
      return seconds(rates.lu_column, rates.small_lu_column, rest);
    case FactorKind::Qr:
      return seconds(rates.qr_column, rates.small_qr_column, 2 * rest);
    case FactorKind::Orthogonal:
      return seconds(rates.orthogonal_column, rates.orthogonal_column, 2 * rest);
  }
  return 0;
}

double solve_seconds(const MatrixSolve& solve, const Target& target) {
  const auto order = static_cast<double>(solve.order), sides = static_cast<double>(solve.sides);
  const double row = solve.right ? target.rates.right_solve_row : target.rates.solve_row;
  return seconds_of(solve.together, solve.batch, solve.order, row, target.rates.small_solve_row,
                    work_of(solve.element) * order * order * sides, rate_of(solve.element, target), target);
}

double spectrum_seconds(const MatrixSpectrum& spectrum, const Target& target) {
  const auto m = static_cast<double>(spectrum.rows), n = static_cast<double>(spectrum.columns);
  const auto batch = static_cast<double>(spectrum.batch);
  const bool eigen = spectrum.kind == SpectrumKind::Eigen, small = spectrum.is_small();
  const double column = !eigen ? kSingularColumn : small ? kSmallEigenColumn : kEigenColumn;
  const double operations = m * n * (small ? m : n) * (!small ? kReduction : eigen ? kRotations : kSingularRotations);
  const double all = batch * operations / (kSmallShare * rate_of(spectrum.element, target));
  return target.rates.solver_start + n * column + all;
}

}  // namespace strata
