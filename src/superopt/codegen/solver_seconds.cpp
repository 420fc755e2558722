#include "superopt/codegen/solver_seconds.h"

#include <algorithm>

namespace strata {
namespace {

/// The share of the scalar units' rate that large matrices get, and that each of many small ones gets.
constexpr double kLargeShare = 0.5;
constexpr double kSmallShare = 0.05;
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

}  // namespace strata
