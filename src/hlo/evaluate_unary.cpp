#include <bit>
#include <cmath>
#include <type_traits>

#include "hlo/elementwise_loops.h"
#include "hlo/evaluate_parts.h"

namespace strata::hlo {
namespace {

using Complex = std::complex<double>;

Complex log_plus_one(Complex z) {
  const double x = z.real();
  const double y = z.imag();
  return {0.5 * std::log1p(x * (x + 2) + y * y), std::atan2(y, 1 + x)};
}
double log_plus_one(double x) { return std::log1p(x); }

Complex exp_minus_one(Complex z) {
  const double half = std::sin(z.imag() / 2);
  return {std::expm1(z.real()) * std::cos(z.imag()) - 2 * half * half, std::exp(z.real()) * std::sin(z.imag())};
}
double exp_minus_one(double x) { return std::expm1(x); }

/// Functions of floats and complex numbers, in W.
template <class W>
W transcendental(Opcode opcode, W x) {
  switch (opcode) {
    case Opcode::Acos:
      return std::acos(x);
    case Opcode::Acosh:
      return std::acosh(x);
    case Opcode::Asin:
      return std::asin(x);
    case Opcode::Asinh:
      return std::asinh(x);
    case Opcode::Atanh:
      return std::atanh(x);
    case Opcode::Cosh:
      return std::cosh(x);
    case Opcode::Cosine:
      return std::cos(x);
    case Opcode::Exp:
      return std::exp(x);
    case Opcode::Expm1:
      return exp_minus_one(x);
    case Opcode::Log:
      return std::log(x);
    case Opcode::Log1p:
      return log_plus_one(x);
    case Opcode::Logistic:
      return W(1) / (W(1) + std::exp(-x));
    case Opcode::Rsqrt:
      return W(1) / std::sqrt(x);
    case Opcode::Sine:
      return std::sin(x);
    case Opcode::Sinh:
      return std::sinh(x);
    case Opcode::Sqrt:
      return std::sqrt(x);
    case Opcode::Tan:
      return std::tan(x);
    case Opcode::Tanh:
      return std::tanh(x);
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<W>) {
    switch (opcode) {
      case Opcode::Cbrt:
        return std::cbrt(x);
      case Opcode::Erf:
        return std::erf(x);
      case Opcode::Ceil:
        return std::ceil(x);
      case Opcode::Floor:
        return std::floor(x);
      case Opcode::RoundNearestAfz:
        return std::round(x);
      case Opcode::RoundNearestEven:
        return std::nearbyint(x);
      default:
        break;
    }
  }
  assert(false && "no unary function");
  return x;
}

template <class T>
void unary_integer(Opcode opcode, const Literal& operand, Literal& result) {
  const int bits = bit_width(operand.type());
  const auto low_bits = [bits](T x) { return wrap_unsigned(static_cast<uint64_t>(x), bits); };
  switch (opcode) {
    case Opcode::Abs:
      return map_unary<T>(operand, result, [](T x) {
        if constexpr (std::is_signed_v<T>) return x < 0 ? static_cast<T>(-static_cast<uint64_t>(x)) : x;
        return x;
      });
    case Opcode::Negate:
      return map_unary<T>(operand, result, [](T x) { return static_cast<T>(-static_cast<uint64_t>(x)); });
    case Opcode::Sign:
      return map_unary<T>(operand, result, [](T x) { return static_cast<T>((x > 0) - (x < T{})); });
    case Opcode::Not:
      if (operand.type() == ElementType::Pred) return map_unary<T>(operand, result, [](T x) { return T{x == 0}; });
      return map_unary<T>(operand, result, [](T x) { return static_cast<T>(~x); });
    case Opcode::Popcnt:
      return map_unary<T>(operand, result, [&](T x) { return static_cast<T>(std::popcount(low_bits(x))); });
    case Opcode::Clz:
      return map_unary<T>(operand, result,
                          [&](T x) { return static_cast<T>(std::countl_zero(low_bits(x)) - (64 - bits)); });
    default:
      assert(false && "no function of integers");
  }
}

template <class T>
void unary_float(Opcode opcode, const Literal& operand, Literal& result) {
  switch (opcode) {
    case Opcode::Abs:
      return map_unary<T>(operand, result, [](T x) { return std::abs(x); });
    case Opcode::Negate:
      return map_unary<T>(operand, result, [](T x) { return -x; });
    case Opcode::Real:
      return map_unary<T>(operand, result, [](T x) { return x; });
    case Opcode::Imag:
      return map_unary<T>(operand, result, [](T) { return T{}; });
    case Opcode::Sign:
      return map_unary<T>(operand, result, [](T x) { return x > 0 ? T{1} : x < 0 ? T{-1} : x; });
    case Opcode::IsFinite:
      return map_unary<T, uint64_t>(operand, result, [](T x) { return uint64_t{std::isfinite(x)}; });
    case Opcode::Sqrt:
      return map_unary<T>(operand, result, [](T x) { return std::sqrt(x); });
    default:
      return map_unary<T>(operand, result, [opcode](T x) {
        return static_cast<T>(transcendental<double>(opcode, static_cast<double>(x)));
      });
  }
}

template <class T>
void unary_complex(Opcode opcode, const Literal& operand, Literal& result) {
  using Part = typename T::value_type;
  switch (opcode) {
    case Opcode::Abs:
      return map_unary<T, Part>(operand, result, [](T x) { return std::abs(x); });
    case Opcode::Real:
      return map_unary<T, Part>(operand, result, [](T x) { return x.real(); });
    case Opcode::Imag:
      return map_unary<T, Part>(operand, result, [](T x) { return x.imag(); });
    case Opcode::Negate:
      return map_unary<T>(operand, result, [](T x) { return -x; });
    case Opcode::Sign:
      return map_unary<T>(operand, result, [](T x) {
        const Complex wide(x);
        const double size = std::abs(wide);
        return size == 0 ? x : T(wide / size);
      });
    default:
      return map_unary<T>(operand, result, [opcode](T x) { return T(transcendental(opcode, Complex(x))); });
  }
}

}  // namespace

Literal evaluate_unary(Opcode opcode, const Shape& shape, const Literal& operand) {
  Literal result(shape);
  visit_compute_type(operand.type(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      unary_integer<T>(opcode, operand, result);
    } else if constexpr (std::is_floating_point_v<T>) {
      unary_float<T>(opcode, operand, result);
    } else {
      unary_complex<T>(opcode, operand, result);
    }
  });
  return result;
}

}  // namespace strata::hlo
