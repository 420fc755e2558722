// Conversions of small floats, bit for bit those of src/hlo/small_float.h.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "emitters/math/strata_math.h"
#include "hlo/small_float.h"

namespace strata::emitters {
namespace {

using hlo::ElementType;

template <class Bits>
struct Conversions {
  ElementType type;
  Bits (*from_f32)(float);
  Bits (*from_f64)(double);
  float (*to_f32)(Bits);
};

/// Compares f32's and f64's conversion at x with the reference, and at the doubles next to x.
template <class Bits>
void check_near(const Conversions<Bits>& conversions, double x) {
  const auto narrow = static_cast<float>(x);
  ASSERT_EQ(conversions.from_f32(narrow), hlo::encode(conversions.type, static_cast<double>(narrow)))
      << static_cast<double>(narrow);
  for (const double near : {x, std::nextafter(x, -HUGE_VAL), std::nextafter(x, HUGE_VAL)}) {
    ASSERT_EQ(conversions.from_f64(near), hlo::encode(conversions.type, near)) << near;
  }
  for (const float near : {std::nextafter(narrow, -HUGE_VALF), std::nextafter(narrow, HUGE_VALF)}) {
    ASSERT_EQ(conversions.from_f32(near), hlo::encode(conversions.type, static_cast<double>(near)))
        << static_cast<double>(near);
  }
}

template <class Bits>
void check(const Conversions<Bits>& conversions) {
  const std::span<const float> values = hlo::decode_table(conversions.type);
  double before = 0;
  for (size_t code = 0; code < values.size(); ++code) {
    const float decoded = conversions.to_f32(static_cast<Bits>(code));
    if (std::isnan(values[code])) {
      ASSERT_TRUE(std::isnan(decoded)) << code;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(decoded), std::bit_cast<uint32_t>(values[code])) << code;
    }
    const auto value = static_cast<double>(values[code]);
    check_near(conversions, value);
    check_near(conversions, (before + value) / 2);  // where ties are
    before = value;
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double x : {infinity, nan, 1e308, 3.4028235677973366e38, 1e-45, 7e-46, 5e-324, 1e-310}) {
    check_near(conversions, x);
    check_near(conversions, -x);
  }
  // Every exponent of f32, and f64's at random.
  std::mt19937_64 random(5);
  for (int i = 0; i < 500000; ++i) {
    const uint64_t bits = random();
    const auto narrow = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_EQ(conversions.from_f32(narrow), hlo::encode(conversions.type, static_cast<double>(narrow)))
        << static_cast<double>(narrow);
    const double wide =
        std::ldexp(1 + std::ldexp(static_cast<double>(bits >> 12), -52), static_cast<int>(bits % 64) - 32);
    const double x = (bits >> 11 & 1) != 0 ? -wide : wide;
    ASSERT_EQ(conversions.from_f64(x), hlo::encode(conversions.type, x)) << x;
  }
}

#define STRATA_MATH_REAL1(name, ulp_f32, ulp_nvptx, ulp_f64)
#define STRATA_MATH_REAL2(name, ulp_f32, ulp_nvptx, ulp_f64)
#define STRATA_MATH_HALF(name)
#define STRATA_MATH_BF16(name)
#define STRATA_MATH_COMPLEX1(name)
#define STRATA_MATH_COMPLEX2(name)
#define STRATA_MATH_SMALL(type, bits)                                                                       \
  TEST(SmallFloats, type) {                                                                                 \
    const auto type_of = hlo::element_type_named(#type);                                                    \
    ASSERT_TRUE(type_of);                                                                                   \
    check(Conversions<bits>{*type_of, strata_f32_to_##type, strata_f64_to_##type, strata_##type##_to_f32}); \
  }
#include "emitters/math/strata_math.def"

}  // namespace
}  // namespace strata::emitters
