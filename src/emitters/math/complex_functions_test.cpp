// Errors and special values of the complex functions, against the C library.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>

#include "emitters/math/math_testing.h"
#include "emitters/math/strata_math.h"

namespace strata::emitters {
namespace {

using Wide = std::complex<long double>;
using C128 = std::complex<double>;
using C64 = std::complex<float>;

namespace reference {

using std::acos, std::acosh, std::asin, std::asinh, std::atanh, std::cos, std::cosh, std::exp, std::log, std::pow;
using std::sin, std::sinh, std::sqrt, std::tan, std::tanh;

// As src/hlo/evaluate_unary.cpp and evaluate_elementwise.cpp have them, but for log1p where they cancel.
template <class C>
C expm1(C z) {
  const auto half = std::sin(z.imag() / 2);
  return {std::expm1(z.real()) * std::cos(z.imag()) - 2 * half * half, std::exp(z.real()) * std::sin(z.imag())};
}
template <class C>
C log1p(C z) {
  const auto x = z.real();
  const auto y = z.imag();
  if (std::norm(C(1) + z) < 0.25) return std::log(C(1) + z);
  return {std::log1p(x * (x + 2) + y * y) / 2, std::atan2(y, 1 + x)};
}
template <class C>
C logistic(C z) {
  return C(1) / (C(1) + std::exp(-z));
}
template <class C>
C rsqrt(C z) {
  return C(1) / std::sqrt(z);
}
template <class C>
C sign(C z) {
  const auto size = std::abs(z);
  return size == 0 ? z : z / size;
}
template <class C>
C atan2(C y, C x) {
  const C i(0, 1);
  return -i * std::log((x + i * y) / std::sqrt(x * x + y * y));
}
template <class C>
C divide(C a, C b) {
  return a / b;
}
template <class C>
C multiply(C a, C b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

}  // namespace reference

template <class T>
using Function1 = void (*)(T, T, T*, T*);
template <class T>
using Function2 = void (*)(T, T, T, T, T*, T*);

template <class T>
std::complex<T> call(Function1<T> function, std::complex<T> z) {
  T re;
  T im;
  function(z.real(), z.imag(), &re, &im);
  return {re, im};
}
template <class T>
std::complex<T> call(Function2<T> function, std::complex<T> z, std::complex<T> w) {
  T re;
  T im;
  function(z.real(), z.imag(), w.real(), w.imag(), &re, &im);
  return {re, im};
}

/// |result - exact| / |exact| in units of T's epsilon; 0 where that is no normal number.
template <class T>
double norm_error(std::complex<T> result, Wide exact) {
  const long double size = std::abs(exact);
  using Limits = std::numeric_limits<T>;
  if (!(size > static_cast<long double>(Limits::min()) * 4 && size < static_cast<long double>(Limits::max()) / 2)) {
    return 0;
  }
  const auto error = static_cast<double>(std::abs(Wide(result) - exact) / size / Limits::epsilon());
  return std::isnan(error) ? 1e30 : error;
}

constexpr int kArguments = 60000;

/// Parts of all sizes, and of about 1; sometimes nothing but a real or an imaginary part.
template <class T>
std::complex<T> next_number(std::mt19937_64& random) {
  const auto part = [&]() -> T {
    const double unit = std::uniform_real_distribution<double>(-1, 1)(random);
    switch (random() % 6) {
      case 0:
        return static_cast<T>(unit * 30);
      case 1:
        return static_cast<T>(std::ldexp(unit, static_cast<int>(random() % 40) - 30));
      case 2:
        return static_cast<T>((random() % 2 == 0 ? 1 : -1) + std::ldexp(unit, -static_cast<int>(random() % 30)));
      default:
        return static_cast<T>(unit * 2);
    }
  };
  const uint64_t kind = random() % 16;
  const T re = kind == 0 ? T{0} : part();
  const T im = kind == 1 ? T{0} : part();
  if (kind == 2) {  // on the unit circle but for rounding, where logarithms cancel
    const T size = std::hypot(re, im);
    if (size > 0) return {re / size, im / size};
  }
  return {re, im};
}

/// How much larger than an epsilon errors of single steps may become in the functions that have poles or cancel: the
/// bounds of those are of errors divided by this.
template <class... Numbers>
long double condition(const std::string& name, Wide z, Numbers... rest) {
  if constexpr (sizeof...(rest) == 0) {
    if (name == "logistic") return 1 + 1 / std::abs(std::exp(z) + 1.0L);
  } else {
    const Wide w(rest...);
    if (name == "pow") return 1 + std::abs(w * std::log(z));
    if (name == "atan2") {
      const long double squares = (std::norm(z) + std::norm(w)) / std::abs(z * z + w * w);
      const long double parts = (std::abs(z) + std::abs(w)) / std::abs(w + Wide(0, 1) * z);
      return 1 + (squares + parts) / std::abs(reference::atan2(z, w));
    }
  }
  return 1;
}

struct WorstComplex {
  double error = 0;
  std::string where;

  void see(double now, const std::string& at) {
    if (now > error) *this = {now, at};
  }
};

template <class T, class Function, class Exact>
WorstComplex worst_norm_error(const std::string& name, Function function, Exact exact) {
  std::mt19937_64 random(7);
  WorstComplex worst;
  for (int i = 0; i < kArguments; ++i) {
    const auto z = next_number<T>(random);
    const Wide wide(z);
    const std::string at = fmt::format("({:a}, {:a})", z.real(), z.imag());
    if constexpr (std::is_same_v<Function, Function1<T>>) {
      const double error = norm_error(call<T>(function, z), exact(wide));
      worst.see(error / static_cast<double>(condition(name, wide)), at);
    } else {
      const auto w = next_number<T>(random);
      const double error = norm_error(call<T>(function, z, w), exact(wide, Wide(w)));
      worst.see(error / static_cast<double>(condition(name, wide, Wide(w))),
                at + fmt::format(" ({:a}, {:a})", w.real(), w.imag()));
    }
  }
  return worst;
}

template <class Function64, class Function128, class Exact>
void check_errors(const char* name, Function64 narrow, Function128 wide, Exact exact, double bound) {
  const WorstComplex c64 = worst_norm_error<float>(name, narrow, exact);
  const WorstComplex c128 = worst_norm_error<double>(name, wide, exact);
  fmt::print("{:10} c64  {:.2f} eps at {}\n", name, c64.error, c64.where);
  fmt::print("{:10} c128 {:.2f} eps at {}\n", name, c128.error, c128.where);
  EXPECT_LE(c64.error, 1) << name << " of c64 at " << c64.where;
  EXPECT_LE(c128.error, bound) << name << " of c128 at " << c128.where;
}

bool same_part(double result, double exact, double tolerance, bool with_sign) {
  if (std::isnan(result) || std::isnan(exact)) return std::isnan(result) && std::isnan(exact);
  if (!with_sign) return same_part(std::fabs(result), std::fabs(exact), tolerance, true);
  if (std::isinf(result) || std::isinf(exact)) return result == exact;
  if (exact == 0 && result == 0) return std::signbit(result) == std::signbit(exact);
  return std::fabs(result - exact) <= tolerance;
}

/// The C library's results where parts are zero, infinite, NaN, huge or tiny.
void check_special(const char* name, Function1<double> function, C128 (*exact)(C128)) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double parts[] = {0.0,   -0.0,   0.5,    -0.5,    1,      -1,    2,      -2,      infinity, -infinity, nan,
                          1e300, 1e-300, -1e300, -1e-300, 5e-324, 710.0, -710.0, 1.7e308, 745,      3.5};
  for (const double re : parts) {
    for (const double im : parts) {
      const C128 result = call<double>(function, {re, im});
      const C128 wanted = exact({re, im});
      double size = 0;
      for (const double part : {wanted.real(), wanted.imag()}) {
        if (std::isfinite(part)) size = std::max(size, std::fabs(part));
      }
      const double tolerance = 1e-13 * size + std::numeric_limits<double>::denorm_min();
      // C leaves signs open where a part is NaN, or both are infinite.
      const bool with_sign = !std::isnan(re) && !std::isnan(im) && (std::isfinite(re) || std::isfinite(im));
      EXPECT_TRUE(same_part(result.real(), wanted.real(), tolerance, with_sign) &&
                  same_part(result.imag(), wanted.imag(), tolerance, with_sign))
          << fmt::format("{}({}, {}) is ({}, {}), not ({}, {})", name, re, im, result.real(), result.imag(),
                         wanted.real(), wanted.imag());
    }
  }
}

/// The C library's quotients of numbers that are zero, infinite or NaN.
TEST(ComplexSpecialValues, Divide) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double parts[] = {0.0, -0.0, 1, -2, infinity, -infinity, std::numeric_limits<double>::quiet_NaN()};
  for (const double a : parts) {
    for (const double b : parts) {
      for (const double c : parts) {
        for (const double d : parts) {
          const C128 result = call<double>(strata_divide_c128, {a, b}, {c, d});
          const C128 wanted = C128(a, b) / C128(c, d);
          EXPECT_TRUE(same_part(result.real(), wanted.real(), 1e-15, true) &&
                      same_part(result.imag(), wanted.imag(), 1e-15, true))
              << fmt::format("({}, {}) / ({}, {}) is ({}, {}), not ({}, {})", a, b, c, d, result.real(), result.imag(),
                             wanted.real(), wanted.imag());
        }
      }
    }
  }
}

/// Of all sizes that floats have, and next to where squares would overflow or vanish.
TEST(ComplexFunctions, abs) {
  std::mt19937_64 random(11);
  WorstComplex c64, c128;
  for (int i = 0; i < kArguments; ++i) {
    const auto part = [&] { return std::uniform_real_distribution<double>(-2, 2)(random); };
    const int scale = static_cast<int>(random() % 272) - 145;
    const int apart = random() % 2 == 0 ? 0 : static_cast<int>(random() % 20);
    const C64 z(static_cast<float>(std::ldexp(part(), scale)), static_cast<float>(std::ldexp(part(), scale - apart)));
    const std::string at = fmt::format("({:a}, {:a})", z.real(), z.imag());
    const long double exact = std::abs(Wide(z));
    if (exact > std::numeric_limits<float>::max()) continue;
    const long double unit = std::max(std::ldexp(exact, -23), std::ldexp(1.0L, -149));
    c64.see(static_cast<double>(std::abs(strata_abs_c64(z.real(), z.imag()) - exact) / unit), at);
    c128.see(static_cast<double>(std::abs(strata_abs_c128(z.real(), z.imag()) - exact) / std::ldexp(exact, -52)), at);
  }
  EXPECT_LE(c64.error, 1) << "c64 at " << c64.where;
  EXPECT_LE(c128.error, 2) << "c128 at " << c128.where;
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float parts[] = {0.0F, -0.0F, 1.0F, -3.0F, infinity, -infinity, nan, 1e-45F, 3e38F, -1e30F};
  for (const float re : parts) {
    for (const float im : parts) {
      const float result = strata_abs_c64(re, im), wanted = std::abs(C64(re, im));
      EXPECT_TRUE(same_part(result, wanted, 1e-7 * std::fabs(wanted), true)) << re << " " << im << ": " << result;
    }
  }
}

#define ERRORS(name, bound)                                                                    \
  TEST(ComplexFunctions, name) {                                                               \
    check_errors(                                                                              \
        #name, Function1<float>(strata_##name##_c64), Function1<double>(strata_##name##_c128), \
        [](Wide z) { return reference::name(z); }, bound);                                     \
  }
#define ERRORS2(name, bound)                                                                   \
  TEST(ComplexFunctions, name) {                                                               \
    check_errors(                                                                              \
        #name, Function2<float>(strata_##name##_c64), Function2<double>(strata_##name##_c128), \
        [](Wide z, Wide w) { return reference::name(z, w); }, bound);                          \
  }
ERRORS(acos, 4)
ERRORS(acosh, 4)
ERRORS(asin, 4)
ERRORS(asinh, 4)
ERRORS(atanh, 4)
ERRORS(cos, 4)
ERRORS(cosh, 4)
ERRORS(exp, 4)
ERRORS(expm1, 4)
ERRORS(log, 4)
ERRORS(log1p, 4)
ERRORS(logistic, 4)
ERRORS(rsqrt, 4)
ERRORS(sign, 4)
ERRORS(sin, 4)
ERRORS(sinh, 4)
ERRORS(sqrt, 4)
ERRORS(tan, 8)
ERRORS(tanh, 8)
ERRORS2(atan2, 4)
ERRORS2(divide, 4)
ERRORS2(multiply, 4)
ERRORS2(pow, 4)

#define SPECIAL(name)                                                                            \
  TEST(ComplexSpecialValues, name) {                                                             \
    check_special(#name, strata_##name##_c128, [](C128 z) { return C128(reference::name(z)); }); \
  }
SPECIAL(acos)
SPECIAL(acosh)
SPECIAL(asin)
SPECIAL(asinh)
SPECIAL(atanh)
SPECIAL(cos)
SPECIAL(cosh)
SPECIAL(exp)
SPECIAL(log)
SPECIAL(sin)
SPECIAL(sinh)
SPECIAL(sqrt)
SPECIAL(tan)
SPECIAL(tanh)

}  // namespace
}  // namespace strata::emitters
