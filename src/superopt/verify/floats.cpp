#include "superopt/verify/floats.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "superopt/verify/inputs.h"
#include "superopt/verify/verify.h"
#include "support/random.h"

namespace strata {
namespace {

/// Rounding of equivalent programs in float64 stays far below, visible mistakes far above.
constexpr double kReal = 1e-7;
constexpr double kObvious = 1e-3;
constexpr double kSingle = 1e-4;
/// Within half precision, and large enough for exponentials, squares and products of two to leave it.
constexpr double kLarge = 1e4;

double normal(Random& random) {  // Box–Muller
  return std::sqrt(-2 * std::log(1 - random.uniform())) * std::cos(2 * std::numbers::pi * random.uniform());
}

template <class A>
Result<std::vector<Tensor<double>>> outputs(const Graph& graph, A arithmetic, const std::vector<Tensor<double>>& inputs,
                                            const std::stop_token& stop) {
  if constexpr (std::same_as<typename A::Value, double>) {
    return execute(graph, arithmetic, inputs, stop);
  } else {
    std::vector<Tensor<typename A::Value>> converted;
    for (const auto& input : inputs) converted.push_back({input.shape, {input.data.begin(), input.data.end()}});
    STRATA_TRY(const auto results, execute(graph, arithmetic, converted, stop));
    std::vector<Tensor<double>> widened;
    for (const auto& result : results) widened.push_back({result.shape, {result.data.begin(), result.data.end()}});
    return widened;
  }
}

/// What rounding to the output's type alone may cost.
double unit(DType type) {
  switch (type) {
    case DType::F16:
      return 0x1p-11;
    case DType::BF16:
      return 0x1p-8;
    case DType::F32:
      return 0x1p-24;
    case DType::F64:
      return 0x1p-53;
  }
  return 0;
}

}  // namespace

std::vector<Tensor<double>> random_inputs(const Graph& graph, uint64_t seed) {
  Random random(seed);
  std::vector<Tensor<double>> inputs;
  for (TensorId id : graph.arguments()) {
    const TensorType& type = graph.type(id);
    Tensor<double>& input = inputs.emplace_back(type.shape);
    const double scale = type.shape.size() > 1 ? 1 / std::sqrt(static_cast<double>(type.shape.back())) : 1;
    for (double& x : input.data) x = round_to(normal(random) * scale, type.dtype);
  }
  return inputs;
}

double relative_error(const std::vector<Tensor<double>>& expected, const std::vector<Tensor<double>>& found) {
  double worst = 0;
  for (size_t o = 0; o < expected.size(); ++o) {
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < expected[o].data.size(); ++i) {
      const double x = expected[o].data[i];
      const double y = found[o].data[i];
      if (std::isfinite(x) && !std::isfinite(y)) return std::numeric_limits<double>::infinity();
      if (!std::isfinite(x)) continue;
      largest = std::max(largest, std::fabs(x));
      difference = std::max(difference, std::fabs(x - y));
    }
    if (difference > 0) worst = std::max(worst, difference / std::max(largest, std::numeric_limits<double>::min()));
  }
  return worst;
}

Result<bool> differ_over_reals(const Graph& reference, const Graph& candidate, uint64_t seed,
                               const std::stop_token& stop) {
  // Maxima agree by chance on one sample; small programs can afford more.
  int64_t elements = 0;
  for (TensorId id : reference.arguments()) elements += reference.type(id).elements();
  const uint64_t tests = elements <= 4096 ? 16 : 3;
  bool agreed = false;
  for (uint64_t test = 0; test < tests; ++test) {
    std::vector<Tensor<double>> inputs = random_inputs(reference, mix(seed + test));
    STRATA_TRY(const auto expected, outputs(reference, Float64Arithmetic{}, inputs, stop));
    inputs = reordered(std::move(inputs), input_order(reference, candidate));
    STRATA_TRY(const auto found, outputs(candidate, Float64Arithmetic{}, inputs, stop));
    const double error = relative_error(expected, found);
    if (error > kObvious) return true;
    agreed |= error <= kReal;
  }
  return !agreed;
}

FloatChecker::FloatChecker(GraphPtr reference, uint64_t seed, GraphPtr exact)
    : reference_(std::move(reference)), exact_(exact ? std::move(exact) : reference_), seed_(seed) {}

Result<void> FloatChecker::prepare(const std::stop_token& stop) {
  const std::scoped_lock lock(mutex_);
  if (ready_) return {};
  inputs_ = random_inputs(*reference_, seed_);
  STRATA_TRY(expected_, outputs(*reference_, Float64Arithmetic{}, inputs_, stop));
  STRATA_TRY(const auto own, outputs(*reference_, Float32Arithmetic{true}, inputs_, stop));
  reference_own_ = relative_error(expected_, own);
  Random random(mix(seed_));
  large_inputs_.clear();  // of a call that was stopped
  for (TensorId id : reference_->arguments()) {
    Tensor<double>& input = large_inputs_.emplace_back(reference_->type(id).shape);
    for (double& x : input.data) x = round_to((2 * random.uniform() - 1) * kLarge, reference_->type(id).dtype);
  }
  const auto exact_inputs = reordered(large_inputs_, input_order(*reference_, *exact_));
  STRATA_TRY(large_expected_, outputs(*exact_, Float64Arithmetic{}, exact_inputs, stop));
  ready_ = true;
  return {};
}

Result<FloatErrors> FloatChecker::check(const Graph& candidate, const std::stop_token& stop) {
  STRATA_CHECK(check_interface(*reference_, candidate));
  STRATA_CHECK(prepare(stop));
  // Nothing below writes what prepare wrote.
  const std::vector<Tensor<double>> inputs = reordered(inputs_, input_order(*reference_, candidate));
  FloatErrors errors;
  errors.reference_own = reference_own_;
  STRATA_TRY(const auto f32, outputs(candidate, Float32Arithmetic{}, inputs, stop));
  errors.candidate_f32 = relative_error(expected_, f32);
  STRATA_TRY(const auto own, outputs(candidate, Float32Arithmetic{true}, inputs, stop));
  errors.candidate_own = relative_error(expected_, own);
  STRATA_TRY(const auto f64, outputs(candidate, Float64Arithmetic{}, inputs, stop));
  errors.candidate_f64 = relative_error(expected_, f64);
  const auto large = reordered(large_inputs_, input_order(*reference_, candidate));
  STRATA_TRY(const auto of_large, outputs(candidate, Float32Arithmetic{true}, large, stop));
  errors.stable = true;
  for (size_t o = 0; o < of_large.size(); ++o) {
    const DType type = reference_->type(reference_->outputs()[o]).dtype;
    for (int64_t i = 0; i < of_large[o].size(); ++i) {
      const bool finite = std::isfinite(round_to(large_expected_[o][i], type));
      if (finite && !std::isfinite(of_large[o][i])) errors.stable = false;
    }
  }
  double rounding = 0;
  for (TensorId id : reference_->outputs()) rounding = std::max(rounding, unit(reference_->type(id).dtype));
  const double own_limit = 4 * std::max(errors.reference_own, rounding);
  errors.acceptable =
      errors.candidate_f32 <= kSingle && errors.candidate_f64 <= kReal && errors.candidate_own <= own_limit;
  return errors;
}

Result<FloatErrors> float_errors(const Graph& reference, const Graph& candidate, uint64_t seed,
                                 const std::stop_token& stop, GraphPtr exact) {
  // The checker lives as long as this call, and so does the caller's graph.
  FloatChecker checker(GraphPtr(&reference, [](const Graph*) {}), seed, std::move(exact));
  return checker.check(candidate, stop);
}

}  // namespace strata
