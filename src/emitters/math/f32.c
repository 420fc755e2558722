#include "emitters/math/polynomials.h"
#include "emitters/math/strata_math.h"

#define REAL float
#define BITS uint32_t
#define SIGNED int32_t
#define N(name) name##_f32
#define PUBLIC(name) STRATA_MATH_SYMBOL(strata_##name##_f32)

#define MANTISSA_BITS 23
#define MANTISSA_MASK 0x7fffffU
#define EXPONENT_BIAS 127
#define INFINITE __builtin_inff()
#define NOT_A_NUMBER __builtin_nanf("")
#define SMALLEST_NORMAL 0x1p-126F
#define INVERSE_SMALLEST_NORMAL 0x1p126F
#define SUBNORMAL_SCALE 0x1p24F
#define TINY 0x1p-26F
#define LARGE 0x1p60F
#define EVEN_FROM 0x1p24F
#define COUNTED 0x1p22F
#define ROUNDER 0x1.8p23F
#define LOG2_E 0x1.715476p+0F
#define LOG2_E_LOW 0x1.4ae0c0p-26F
#define LN2 0x1.62e430p-1F
#define LN2_HIGH 0x1.62e430p-1F
#define LN2_LOW (-0x1.05c610p-29F)
// The conversion of an exponent at its place is exact, and the factor is in the constants.
#define LN2_HIGH_OF_EXPONENT (LN2_HIGH * 0x1p-23F)
#define LN2_LOW_OF_EXPONENT (LN2_LOW * 0x1p-23F)
#define TWO_THIRDS 0x1.555556p-1F
#define HALF_PI_HIGH 0x1.921fb6p+0F
#define HALF_PI_LOW (-0x1.777a5cp-25F)
#define HALF_PI_LOWEST (-0x1.ee59dap-50F)
#define QUARTER_PI_HIGH 0x1.921fb0p-1F
#define QUARTER_PI_LOW 0x1.5110b4p-23F
#define TWO_OVER_PI 0x1.45f306p-1F
// Below, three numbers are enough for pi/2, and the polynomials' interval holds what rounding leaves.
#define SHORT_ANGLE 16384.0F
// The overflow of sinh and cosh is the last one, and halves of what is lost below the subnormal numbers are 0.
#define EXP_LOWEST (-104.0F)
#define EXP_HIGHEST 90.0F
#define EXPM1_LOWEST (-20.0F)
#define EXPM1_HIGHEST 88.8F
#define ERF_IS_ONE 4.0F
#define ERFC_IS_ZERO 10.1F
#define ERF_INV_FAR (-7.3F)
#define CBRT_STEPS 1
#define REMAINDER_STEP 40

/// In double, where neither the logarithm nor its product needs a second number.
static inline float pow_of_positive_f32(float x, float y) {
  const uint64_t bits = bits_f64((double)x);
  const int k = (int)((int64_t)(bits - bits_f64(0x1.6a09e667f3bcdp-1)) >> 52);
  const double f = of_bits_f64(bits - ((uint64_t)(int64_t)k << 52)) - 1;
  const double exponent = clamp_f64((double)y * fma_f64(f, pow_log2_f64(f), (double)k), -160, 160);
  const double shifted = exponent + 0x1.8p52;
  const double rest = exponent - (shifted - 0x1.8p52);
  const int n = (int)(uint32_t)bits_f64(shifted);
  return (float)(pow_exp2_f64(rest) * power_of_two_f64(n));
}

#if defined(__NVPTX__) || defined(STRATA_MATH_EMULATE_NVPTX)
#define EXP_BY_INSTRUCTION

/// exp(x) = 2^n · 2^rest, the first by its bits, the second by an instruction. n is within [-126, 126] whatever x is;
/// the rest, which is at most 1/2 elsewhere, is what lies beyond.
static inline float exp_by_instruction_f32(float x) {
  const float share = saturated_fma_f32(x, LOG2_E / 252, 0.5F);  // (n + 126) / 252
  const float shifted = fma_f32(share, 252, ROUNDER + 1);
  const float n = shifted - (ROUNDER + 127);
  const float rest = fma_f32(x, LOG2_E_LOW, fma_f32(x, LOG2_E, -n));
  return approximate_exp2_normal_f32(rest) * of_bits_f32(bits_f32(shifted) << MANTISSA_BITS);
}
#endif

static inline float number_of_exponent_f32(int32_t exponent) { return (float)exponent; }

#include "emitters/math/exp_log.inc"
#include "emitters/math/real_functions.inc"
#include "emitters/math/trigonometric.inc"

static __attribute__((noinline)) int long_quarter_turns_f32(float x, float* rest) {
  double wide;
  const int quarters = STRATA_MATH_SYMBOL(strata_quarter_turns_f64)((double)x, &wide);
  *rest = (float)wide;
  return quarters;
}

float PUBLIC(tanh)(float x) {
  const float size = abs_f32(x);
  const float z = x * x;
  const float near = fma_f32(size * z, tanh_tail_f32(z), size);
#ifdef EXP_BY_INSTRUCTION
  const float sum = approximate_exp2_normal_f32(size * (2 * LOG2_E)) + 1;
  const float far = fma_f32(-2, approximate_reciprocal_f32(sum), 1);
#else
  const float far = 1 - 2 / (exp_normal_f32(2 * at_most_f32(size, 10)) + 1);
#endif
  return copysign_f32(size < 0.66F ? near : far, x);
}

/// erfc(a) = 2^(-a² · LOG2_E) · P(q) / (a + 2), q = (a - 2) / (a + 2); P knows what LOG2_E lacks of log2(e).
float PUBLIC(erfc)(float x) {
  const float a = at_most_f32(abs_f32(x), ERFC_IS_ZERO);
  const float inverse = approximate_reciprocal_f32(a + 2);
  const float factor = erfc_factor_f32(fma_f32(-4, inverse, 1)) * inverse;
  const float square = a * a;
  const float lost = fma_f32(a, a, -square);
  // The power of -square - lost is 2^n · 2^rest; 2^(n + 24) is a normal number.
  const float shifted = fma_f32(square, -LOG2_E, ROUNDER + 151);
  const float n = shifted - (ROUNDER + 151);
  float rest = fma_f32(square, -LOG2_E, -n);
  rest = fma_f32(lost, -LOG2_E, rest);
#ifdef EXP_BY_INSTRUCTION
  const float power = approximate_exp2_normal_f32(rest);
#else
  const float r = rest * LN2;
  const float power = 1 + fma_f32(r * r, exp_tail_f32(r), r);
#endif
  const float scaled = factor * power * of_bits_f32(bits_f32(shifted) << MANTISSA_BITS);
  return x < 0 ? fma_f32(scaled, -0x1p-24F, 2) : scaled * 0x1p-24F;
}

/// x · P(log2(1 - x²)), of which an error at 0 is damped; for the few that lie far out (0.3 % of numbers of [-1, 1]) a
/// polynomial of its root. That is a branch: the few share it with neighbours, and the others do without its steps.
float PUBLIC(erf_inv)(float x) {
  const float rest = fma_f32(-x, x, 1);
#ifdef EXP_BY_INSTRUCTION
  const float log = approximate_log2_normal_f32(rest);
#else
  const float log = PUBLIC(log)(rest) * LOG2_E;
#endif
  float factor = erf_inv_near_f32(log);
  if (log < ERF_INV_FAR) {
#ifdef EXP_BY_INSTRUCTION
    const float root = -log * approximate_rsqrt_f32(-log);
#else
    const float root = sqrt_f32(-log);
#endif
    factor = rest == 0 ? INFINITE : erf_inv_far_f32(root - 3);
  }
  return x * factor;
}

/// IEEE's instructions are calls for numbers near the ends of the range. A call ends a basic block, so the loads of a
/// loop's next elements would wait for each quotient. Here is no branch. The residual of an approximate quotient is
/// exact, so what it corrects is nearly as good as rounded once, and exact where the quotient is a float.
float PUBLIC(divide)(float x, float y) {
#if defined(__NVPTX__) || defined(STRATA_MATH_EMULATE_NVPTX)
  // 2^(126 - y's exponent), or 2^-126 if that is larger: the divisor comes to [1/2, 4), subnormal ones to [2^-23, 1).
  const int32_t exponent = (int32_t)(~bits_f32(y) & 0x7f800000U) - 0x1000000;
  const float scale = of_bits_f32((uint32_t)(exponent > 0x800000 ? exponent : 0x800000));
  const float divisor = y * scale;
  const float dividend = x * scale;
  const float inverse = approximate_reciprocal_f32(divisor);
  const float quotient = dividend * inverse;
  const float rest = fma_f32(-divisor, quotient, dividend);
  // Without a rest there is nothing to add: -0 would become 0.
  return abs_f32(rest) < INFINITE && rest != 0 ? fma_f32(rest, inverse, quotient) : quotient;
#else
  return x / y;
#endif
}

float PUBLIC(inverse)(float x) {
#if defined(__NVPTX__) || defined(STRATA_MATH_EMULATE_NVPTX)
  const float inverse = approximate_reciprocal_f32(x);
  const float rest = fma_f32(-x, inverse, 1);
  return abs_f32(rest) < INFINITE ? fma_f32(rest, inverse, inverse) : inverse;
#else
  return 1 / x;
#endif
}

/// As the quotient: without a branch.
float PUBLIC(sqrt)(float x) {
#if defined(__NVPTX__) || defined(STRATA_MATH_EMULATE_NVPTX)
  const int small = x < 0x1p-96F;  // negative numbers, too; the residual would be subnormal
  const float square = small ? x * 0x1p64F : x;
  const float inverse = approximate_rsqrt_normal_f32(square);
  const float near = square * inverse;
  const float root = fma_f32(fma_f32(-near, near, square), 0.5F * inverse, near);
  const float scaled = small ? root * 0x1p-32F : root;
  return x == 0 || x == INFINITE ? x : scaled;
#else
  return sqrt_f32(x);
#endif
}

/// x^(quarters/4) of roots and products. A negative power is a product of inverses, for the power that is inverted
/// could overflow.
float STRATA_MATH_SYMBOL(strata_pow_quarters_f32)(float x, int32_t quarters) {
  const int32_t count = quarters < 0 ? -quarters : quarters;
  const int whole_power = (count & 3) == 0;
  const float size = abs_f32(x);
  const float half = PUBLIC(sqrt)(size);
  float part = 1;
  if ((count & 2) != 0) part = half;
  if ((count & 1) != 0) part *= PUBLIC(sqrt)(half);
  if (quarters < 0 && !whole_power) part = PUBLIC(inverse)(part);
  const float base = whole_power ? x : size;
  const float factor = quarters < 0 ? PUBLIC(divide)(1, base) : base;
  if (count >= 4) part *= factor;
  if (count >= 8) part *= factor;
  if (count >= 12) part *= factor;
  return !whole_power && x < 0 && x > -INFINITE ? NOT_A_NUMBER : part;
}

float PUBLIC(rsqrt)(float x) {
#if defined(__NVPTX__) || defined(STRATA_MATH_EMULATE_NVPTX)
  return approximate_rsqrt_f32(x);
#else
  return 1 / sqrt_f32(x);
#endif
}
