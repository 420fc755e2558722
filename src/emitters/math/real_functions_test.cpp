// Errors of the functions of real numbers, against the C library in a wider type; see docs/emitters-math.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "emitters/math/emulated_nvptx.h"
#include "emitters/math/math_testing.h"
#include "emitters/math/strata_math.h"

namespace strata::emitters {
namespace {

namespace reference {

using std::acos, std::acosh, std::asin, std::asinh, std::atan2, std::atanh, std::cbrt, std::cos, std::cosh, std::erf,
    std::erfc;
using std::exp, std::expm1, std::log, std::log1p, std::pow, std::sin, std::sinh, std::tan, std::tanh;
template <class W>
W logistic(W x) {
  return 1 / (1 + std::exp(-x));
}
template <class W>
W round_afz(W x) {
  return std::round(x);
}
template <class W>
W rsqrt(W x) {
  return 1 / std::sqrt(x);
}
template <class W>
W remainder(W x, W y) {
  return std::fmod(x, y);
}

}  // namespace reference

constexpr int kArguments = 200000;

/// The largest error of function(x) over special values and random arguments, W being the type of the reference.
template <class T, class W>
Worst worst_of_unary(T (*function)(T), W (*exact)(W)) {
  Worst worst;
  const auto see = [&](T x) { worst.see(ulp_error(function(x), static_cast<long double>(exact(W{x}))), x); };
  for (const T x : special_values<T>()) see(x);
  Arguments<T> arguments;
  for (int i = 0; i < kArguments; ++i) see(arguments.next());
  if constexpr (sizeof(T) == 4) {
    // A walk over all of the bit patterns.
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 9973) {
      see(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    }
  }
  return worst;
}

template <class T, class W>
Worst worst_of_binary(T (*function)(T, T), W (*exact)(W, W)) {
  Worst worst;
  const auto see = [&](T x, T y) {
    worst.see(ulp_error(function(x, y), static_cast<long double>(exact(W{x}, W{y}))), x, y);
  };
  const std::vector<T> special = special_values<T>();
  for (const T x : special) {
    for (const T y : special) see(x, y);
  }
  Arguments<T> arguments;
  for (int i = 0; i < kArguments; ++i) {
    const T x = arguments.next();
    T y = arguments.next();
    // All pairs of kinds of argument, and near the limits of pow.
    if (i % 8 == 0) y = arguments.next();
    if (i % 5 == 0) y = static_cast<T>(static_cast<double>(y) * 100 / std::log2(std::fabs(static_cast<double>(x))));
    see(x, y);
  }
  return worst;
}

void report(const std::string& name, const Worst& worst, double bound) {
  fmt::print("{:24} {:.3f} ulp at {:a} {:a}\n", name, worst.error, static_cast<double>(worst.x),
             static_cast<double>(worst.y));
  EXPECT_LE(worst.error, bound == 0 ? 0 : bound) << name;
}

/// By one step of Newton's method from what was found, which squares its error; 1 - |x| is exact in double.
double erf_inv_near(double x, double found) {
  const double size = std::fabs(x);
  const double y = std::fabs(found);
  const double slope = 2 / std::sqrt(std::acos(-1.0)) * std::exp(-y * y);
  const double rest = size < 0.5 ? std::erf(y) - size : (1 - size) - std::erfc(y);
  return std::copysign(y - rest / slope, x);
}

Worst worst_of_erf_inv(float (*function)(float)) {
  Worst worst;
  const auto see = [&](float x) {
    const float found = function(x);
    const double exact = x == 0              ? static_cast<double>(x)
                         : std::fabs(x) == 1 ? std::copysign(HUGE_VAL, x)
                         : std::fabs(x) < 1  ? erf_inv_near(x, found)
                                             : std::nan("");
    worst.see(ulp_error(found, static_cast<long double>(exact)), x);
  };
  for (const float x : special_values<float>()) see(x);
  Arguments<float> arguments;
  for (int i = 0; i < kArguments; ++i) see(arguments.next());
  for (uint64_t bits = 0; bits <= std::bit_cast<uint32_t>(1.0F); bits += 997) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    see(x);
    see(x - 1);  // far out
  }
  return worst;
}

TEST(RealFunctions, erf_inv) {
  report("erf_inv f32", worst_of_erf_inv(strata_erf_inv_f32), 4);
  report("erf_inv f32, NVPTX", worst_of_erf_inv(emulated_strata_erf_inv_f32), 6);
}

TEST(HalfPrecision, divide) {
  Worst host, nvptx;
  Arguments<float> arguments;
  for (int i = 0; i < kArguments; ++i) {
    const float x = arguments.next();
    const float y = arguments.next();
    const long double exact = static_cast<long double>(x) / y;
    host.see(ulp_error(strata_divide_f32_half(x, y), exact), x, y);
    nvptx.see(ulp_error(emulated_strata_divide_f32_half(x, y), exact), x, y);
  }
  report("divide", host, 0.5);
  report("divide, NVPTX", nvptx, 4);
}

#define STRATA_MATH_REAL1(name, ulp_f32, ulp_nvptx, ulp_f64)                                                  \
  TEST(RealFunctions, name) {                                                                                 \
    report(#name " f32", worst_of_unary<float, double>(strata_##name##_f32, reference::name), ulp_f32);       \
    report(#name " f32, NVPTX", worst_of_unary<float, double>(emulated_strata_##name##_f32, reference::name), \
           ulp_nvptx);                                                                                        \
    report(#name " f64", worst_of_unary<double, long double>(strata_##name##_f64, reference::name), ulp_f64); \
  }
#define STRATA_MATH_REAL2(name, ulp_f32, ulp_nvptx, ulp_f64)                                                   \
  TEST(RealFunctions, name) {                                                                                  \
    report(#name " f32", worst_of_binary<float, double>(strata_##name##_f32, reference::name), ulp_f32);       \
    report(#name " f32, NVPTX", worst_of_binary<float, double>(emulated_strata_##name##_f32, reference::name), \
           ulp_nvptx);                                                                                         \
    report(#name " f64", worst_of_binary<double, long double>(strata_##name##_f64, reference::name), ulp_f64); \
  }
#define STRATA_MATH_HALF(name)                                                               \
  TEST(HalfPrecision, name) {                                                                \
    check_half(#name, strata_##name##_f32_half, reference::name, 0x1p10);                    \
    check_half(#name ", NVPTX", emulated_strata_##name##_f32_half, reference::name, 0x1p10); \
  }
#define STRATA_MATH_BF16(name)                                                                  \
  TEST(Bf16Precision, name) {                                                                   \
    check_half(#name, strata_##name##_f32_bf16, reference::name, 0x1p10);                       \
    check_half(#name ", NVPTX", emulated_strata_##name##_f32_bf16, reference::name, 0x1.01p13); \
  }
#define STRATA_MATH_COMPLEX1(name)
#define STRATA_MATH_COMPLEX2(name)
#define STRATA_MATH_SMALL(type, bits)

/// 2^-13 is 1024 ulp of f32, or up to 2048. Where the result is subnormal the bound holds for the smallest normal
/// number.
void check_half(const std::string& name, float (*function)(float), double (*exact)(double), double bound) {
  const Worst worst = worst_of_unary<float, double>(function, exact);
  fmt::print("{:24} 2^{:.2f} at {:a}\n", name, std::log2(worst.error) - 23, static_cast<double>(worst.x));
  EXPECT_LE(worst.error, bound) << name;
}

#include "emitters/math/strata_math.def"

}  // namespace
}  // namespace strata::emitters
