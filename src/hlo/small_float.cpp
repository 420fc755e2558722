#include "hlo/small_float.h"

#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

namespace strata::hlo {
namespace {

using Special = FloatFormat::Special;

constexpr uint16_t kE8M0Nan = 0xff;

int largest_code(const FloatFormat& format) {
  const int codes = 1 << (format.exponent_bits + format.mantissa_bits);
  if (format.special == Special::Ieee) return codes - (1 << format.mantissa_bits) - 1;
  return format.special == Special::NanOnly ? codes - 2 : codes - 1;
}

uint16_t nan_code(const FloatFormat& format, bool negative) {
  const int sign = 1 << (format.exponent_bits + format.mantissa_bits);
  if (format.special == Special::NegZeroNan) return static_cast<uint16_t>(sign);
  if (format.special == Special::None) return static_cast<uint16_t>(sign);  // -0, as ml_dtypes has it
  const int all = sign - 1;
  const int quiet = ((1 << format.exponent_bits) - 1) << format.mantissa_bits | 1 << (format.mantissa_bits - 1);
  return static_cast<uint16_t>((negative ? sign : 0) | (format.special == Special::NanOnly ? all : quiet));
}

float decode(const FloatFormat& format, int code) {
  const int sign = 1 << (format.exponent_bits + format.mantissa_bits);
  const int magnitude = code & (sign - 1);
  if (format.special == Special::NegZeroNan && code == sign) return std::numeric_limits<float>::quiet_NaN();
  float value = 0;
  if (magnitude > largest_code(format)) {
    const bool infinite = format.special == Special::Ieee && magnitude == largest_code(format) + 1;
    value = infinite ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else {
    const int exponent = magnitude >> format.mantissa_bits;
    const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
    const int significand = exponent == 0 ? mantissa : mantissa | 1 << format.mantissa_bits;
    value = std::ldexp(static_cast<float>(significand), std::max(exponent, 1) - format.bias - format.mantissa_bits);
  }
  return (code & sign) != 0 ? -value : value;
}

uint16_t encode_e8m0(double value) {
  if (!(value > 0) || std::isinf(value)) return kE8M0Nan;
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);  // in [0.5, 1)
  // Ties go up, as XLA has them: the midpoint of two powers of two is 1.5 times the lower one.
  int code = exponent - 1 + 127;
  if (mantissa >= 0.75) ++code;
  if (code < 0) return 0;
  return code > 254 ? kE8M0Nan : static_cast<uint16_t>(code);
}

std::vector<float> build_table(ElementType type) {
  std::vector<float> table(size_t{1} << bit_width(type));
  for (size_t code = 0; code < table.size(); ++code) {
    if (type == ElementType::F8E8M0FNU) {
      table[code] =
          code == kE8M0Nan ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, static_cast<int>(code) - 127);
    } else {
      table[code] = decode(format_of(type), static_cast<int>(code));
    }
  }
  return table;
}

}  // namespace

FloatFormat format_of(ElementType type) {
  switch (type) {
    case ElementType::F64:
      return {11, 52, 1023, Special::Ieee};
    case ElementType::F32:
      return {8, 23, 127, Special::Ieee};
    case ElementType::F16:
      return {5, 10, 15, Special::Ieee};
    case ElementType::BF16:
      return {8, 7, 127, Special::Ieee};
    case ElementType::F8E3M4:
      return {3, 4, 3, Special::Ieee};
    case ElementType::F8E4M3:
      return {4, 3, 7, Special::Ieee};
    case ElementType::F8E5M2:
      return {5, 2, 15, Special::Ieee};
    case ElementType::F8E4M3FN:
      return {4, 3, 7, Special::NanOnly};
    case ElementType::F8E4M3B11FNUZ:
      return {4, 3, 11, Special::NegZeroNan};
    case ElementType::F8E4M3FNUZ:
      return {4, 3, 8, Special::NegZeroNan};
    case ElementType::F8E5M2FNUZ:
      return {5, 2, 16, Special::NegZeroNan};
    case ElementType::F4E2M1FN:
      return {2, 1, 1, Special::None};
    default:
      break;
  }
  assert(false && "no such format");
  return {};
}

uint16_t encode(const FloatFormat& format, double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const bool negative = (bits >> 63) != 0;
  const int sign_bit = negative ? 1 << (format.exponent_bits + format.mantissa_bits) : 0;
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  const int largest = largest_code(format);
  if (exponent == 1024 && fraction != 0) return nan_code(format, negative);
  int code = largest + 1;
  if (exponent < 1024) {
    const int smallest_exponent = 1 - format.bias;
    const int shift = 52 - format.mantissa_bits + std::max(0, smallest_exponent - exponent);
    if (shift > 53) {
      code = 0;
    } else {
      const uint64_t significand = fraction | (exponent == -1023 ? 0 : uint64_t{1} << 52);
      const uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
      const uint64_t half = uint64_t{1} << (shift - 1);
      int quotient = static_cast<int>(significand >> shift);
      if (rest > half || (rest == half && quotient % 2 != 0)) ++quotient;
      // A quotient that was rounded up to a power of two carries into the exponent by itself.
      code = quotient;
      if (exponent >= smallest_exponent) code += (exponent - smallest_exponent) << format.mantissa_bits;
    }
  }
  if (code > largest) {
    if (format.special == Special::None) return static_cast<uint16_t>(sign_bit | largest);
    if (format.special != Special::Ieee) return nan_code(format, negative);
    code = largest + 1;
  }
  if (code == 0 && format.special == Special::NegZeroNan) return 0;
  return static_cast<uint16_t>(sign_bit | code);
}

uint16_t encode(ElementType type, double value) {
  return type == ElementType::F8E8M0FNU ? encode_e8m0(value) : encode(format_of(type), value);
}

std::span<const float> decode_table(ElementType type) {
  static const auto tables = [] {
    std::array<std::vector<float>, static_cast<size_t>(ElementType::BF16) + 1> all;
    for (size_t i = static_cast<size_t>(ElementType::F4E2M1FN); i < all.size(); ++i) {
      all[i] = build_table(static_cast<ElementType>(i));
    }
    return all;
  }();
  assert(is_float(type) && bit_width(type) <= 16);
  return tables[static_cast<size_t>(type)];
}

}  // namespace strata::hlo
