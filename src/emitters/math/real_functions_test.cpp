// Errors of the functions of real numbers, against the C library in a wider type; see docs/emitters-math.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
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

/// Numbers of all sizes whose quotients are, too: bits at random, and what Arguments has.
float any_number(Arguments<float>& arguments, std::mt19937_64& random) {
  return (random() & 1) != 0 ? std::bit_cast<float>(static_cast<uint32_t>(random())) : arguments.next();
}

/// x / y to `bound`, and 2 ulp below 2^-100; the last numbers before infinity may be infinite.
void check_quotients(const std::string& name, float (*divide)(float, float), double bound) {
  Worst usual, small, largest;
  const auto see = [&](float x, float y) {
    const long double exact = static_cast<long double>(x) / static_cast<long double>(y);
    const long double size = std::fabs(exact);
    Worst& worst = size < 0x1p-100L ? small : size > 0x1.fffff8p127L && size < 0x1p128L ? largest : usual;
    worst.see(ulp_error(divide(x, y), exact), x, y);
  };
  for (const float x : special_values<float>()) {
    for (const float y : special_values<float>()) see(x, y);
  }
  Arguments<float> arguments;
  std::mt19937_64 random(7);
  for (int i = 0; i < kArguments; ++i) see(any_number(arguments, random), any_number(arguments, random));
  report(name, usual, bound);
  report(name + ", small", small, 2);
  report(name + ", largest", largest, 4);
}

TEST(RealFunctions, divide) {
  check_quotients("divide f32", strata_divide_f32, 0.5);
  check_quotients("divide f32, NVPTX", emulated_strata_divide_f32, 0.51);
}

TEST(RealFunctions, QuotientsThatAreFloatsAreExact) {
  std::mt19937_64 random(11);
  for (int i = 0; i < kArguments; ++i) {
    const auto quotient = static_cast<float>(static_cast<int>(random() % 8192) - 4096);
    const auto divisor = std::ldexp(static_cast<float>(1 + random() % 2048), static_cast<int>(random() % 200) - 100);
    EXPECT_EQ(emulated_strata_divide_f32(quotient * divisor, divisor), quotient) << quotient << " times " << divisor;
  }
}

TEST(RealFunctions, inverse) {
  Worst worst;
  const auto see = [&](float x) {
    if (std::fabs(x) < 0x1p-126F && x != 0) return;
    if (std::fabs(x) > 0x1p126F && !std::isinf(x)) return;
    worst.see(ulp_error(emulated_strata_inverse_f32(x), 1 / static_cast<long double>(x)), x);
  };
  for (const float x : special_values<float>()) see(x);
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 9973) {
    see(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  report("inverse f32, NVPTX", worst, 0.51);
  EXPECT_EQ(strata_inverse_f32(4), 0.25F);
}

TEST(RealFunctions, sqrt) {
  const auto exact = [](double x) { return std::sqrt(x); };
  report("sqrt f32", worst_of_unary<float, double>(strata_sqrt_f32, exact), 0.5);
  report("sqrt f32, NVPTX", worst_of_unary<float, double>(emulated_strata_sqrt_f32, exact), 0.51);
  for (int i = 0; i <= 4096; ++i) {
    const auto root = static_cast<float>(i);
    EXPECT_EQ(emulated_strata_sqrt_f32(root * root), root);
  }
}

TEST(RealFunctions, pow_quarters) {
  for (int quarters = -12; quarters <= 12; ++quarters) {
    if (quarters == 0) continue;
    Worst host, nvptx;
    const auto see = [&](float x) {
      const long double exact = std::pow(static_cast<long double>(x), quarters / 4.0L);
      host.see(ulp_error(strata_pow_quarters_f32(x, quarters), exact), x);
      nvptx.see(ulp_error(emulated_strata_pow_quarters_f32(x, quarters), exact), x);
    };
    for (const float x : special_values<float>()) see(x);
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 99991) {
      see(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    }
    report(fmt::format("x^({}/4)", quarters), host, 5);
    report(fmt::format("x^({}/4), NVPTX", quarters), nvptx, 5);
  }
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
