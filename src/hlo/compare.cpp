#include "hlo/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>

#include "hlo/compute.h"

namespace strata::hlo {
namespace {

/// A few units in the last place.
double tolerance(ElementType type) {
  switch (type) {
    case ElementType::F64:
    case ElementType::C128:
      return 1e-12;
    case ElementType::F32:
    case ElementType::C64:
      return 2e-6;
    case ElementType::F16:
      return 1e-3;
    case ElementType::BF16:
      return 8e-3;
    default:
      // One step of the mantissa, where sums and functions before it were rounded differently.
      return kind(type) == TypeKind::Float ? 0.0625 : 0;
  }
}

bool close(double a, double b, double bound) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= bound;
}

/// The index of the first element that differs, or -1.
template <class T>
int64_t first_difference(const std::vector<T>& a, const std::vector<T>& b, double within, Unit unit) {
  const auto magnitude = [](T value) {
    const double size = std::abs(std::complex<double>(value));
    return std::isfinite(size) ? size : 0.0;
  };
  double largest = 0;
  for (T value : b) largest = std::max(largest, magnitude(value));
  for (size_t i = 0; i < a.size(); ++i) {
    const double bound = within * (unit == Unit::Array ? 4 * largest : std::min(largest, 4.0) + 4 * magnitude(b[i]));
    const std::complex<double> x(a[i]);
    const std::complex<double> y(b[i]);
    if (!close(x.real(), y.real(), bound) || !close(x.imag(), y.imag(), bound)) return static_cast<int64_t>(i);
  }
  return -1;
}

std::string text_of(int64_t value) { return fmt::format("{}", value); }
std::string text_of(uint64_t value) { return fmt::format("{}", value); }
std::string text_of(double value) { return fmt::format("{:.9g}", value); }
std::string text_of(std::complex<double> value) { return fmt::format("({:.9g}, {:.9g})", value.real(), value.imag()); }

}  // namespace

std::optional<std::string> difference(const Literal& actual, const Literal& expected, double slack, Unit unit) {
  if (!same_shape(actual.shape(), expected.shape())) {
    return fmt::format("{} instead of {}", to_string(actual.shape()), to_string(expected.shape()));
  }
  if (expected.shape().is_tuple()) {
    for (size_t i = 0; i < expected.elements().size(); ++i) {
      if (auto found = difference(actual.elements()[i], expected.elements()[i], slack, unit)) {
        return fmt::format("element {}: {}", i, *found);
      }
    }
    return std::nullopt;
  }
  if (!expected.shape().is_array()) return std::nullopt;
  return visit_accumulator_type(expected.type(), [&](auto zero) -> std::optional<std::string> {
    using T = decltype(zero);
    const std::vector<T> a = load_all<T>(actual);
    const std::vector<T> b = load_all<T>(expected);
    int64_t at = -1;
    if constexpr (std::is_integral_v<T>) {
      const auto differ = std::mismatch(a.begin(), a.end(), b.begin()).first;
      if (differ != a.end()) at = differ - a.begin();
    } else {
      at = first_difference(a, b, tolerance(expected.type()) * slack, unit);
    }
    if (at < 0) return std::nullopt;
    const auto i = static_cast<size_t>(at);
    return fmt::format("{} at {} of {}: {} instead of {}", name(expected.type()), at, to_string(expected.shape()),
                       text_of(a[i]), text_of(b[i]));
  });
}

}  // namespace strata::hlo
