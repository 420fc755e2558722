#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "hlo/compute.h"
#include "hlo/evaluate_parts.h"
#include "hlo/small_float.h"
#include "hlo/strided.h"

namespace strata::hlo {
namespace {

template <class T>
constexpr bool is_complex_number = false;
template <class T>
constexpr bool is_complex_number<std::complex<T>> = true;

/// Towards zero, clamped to integers of `bits` bits; NaN as 0.
template <class To, class From>
To saturate(From value, int bits) {
  if (std::isnan(value)) return 0;
  const From whole = std::trunc(value);
  const int magnitude_bits = std::is_signed_v<To> ? bits - 1 : bits;
  const From limit = std::ldexp(From{1}, magnitude_bits);
  const uint64_t largest = wrap_unsigned(~uint64_t{0}, std::max(magnitude_bits, 1)) * (magnitude_bits > 0 ? 1 : 0);
  if (whole >= limit) return static_cast<To>(largest);
  if constexpr (std::is_signed_v<To>) {
    return whole < -limit ? static_cast<To>(~largest) : static_cast<To>(whole);
  } else {
    return whole < 0 ? To{0} : static_cast<To>(whole);
  }
}

template <class To, class From>
To convert(From value, ElementType type) {
  if constexpr (is_complex_number<From>) {
    if constexpr (is_complex_number<To>) {
      using Part = typename To::value_type;
      return To(static_cast<Part>(value.real()), static_cast<Part>(value.imag()));
    } else {
      return convert<To>(value.real(), type);
    }
  } else if constexpr (is_complex_number<To>) {
    return To(static_cast<typename To::value_type>(value));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    if (type == ElementType::Pred) return To{value != From{0}};
    return saturate<To>(value, bit_width(type));
  } else {
    return static_cast<To>(value);
  }
}

uint64_t get_code(const Literal& literal, int64_t index) {
  uint64_t code = 0;
  const size_t width = static_cast<size_t>(byte_width(literal.type()));
  std::memcpy(&code, literal.bytes() + static_cast<size_t>(index) * width, width);
  return wrap_unsigned(code, literal.type() == ElementType::Pred ? 8 : bit_width(literal.type()));
}

void put_code(ElementType type, std::byte* bytes, int64_t index, uint64_t code) {
  if (is_signed(type)) code = static_cast<uint64_t>(wrap_signed(static_cast<int64_t>(code), bit_width(type)));
  const size_t width = static_cast<size_t>(byte_width(type));
  std::memcpy(bytes + static_cast<size_t>(index) * width, &code, width);
}

}  // namespace

Literal evaluate_convert(const Literal& operand, const Shape& shape) {
  Literal result(shape);
  std::byte* bytes = result.mutable_bytes();
  constexpr int64_t kChunk = 1024;
  const int64_t stride = operand.size() == 1 && result.size() != 1 ? 0 : 1;
  visit_compute_type(operand.type(), [&](auto from_zero) {
    using From = decltype(from_zero);
    visit_compute_type(shape.type, [&](auto to_zero) {
      using To = decltype(to_zero);
      // A double is rounded to a small float at once, not by way of f32.
      using Kept = std::conditional_t<std::is_same_v<From, double> && std::is_same_v<To, float>, double, To>;
      std::array<From, kChunk> x;
      std::array<Kept, kChunk> y;
      for (int64_t begin = 0; begin < result.size(); begin += kChunk) {
        const int64_t count = std::min(kChunk, result.size() - begin);
        load(operand, begin * stride, stride, count, x.data());
        for (size_t i = 0; i < static_cast<size_t>(count); ++i) y[i] = convert<Kept>(x[i], shape.type);
        store(shape.type, bytes, begin, count, y.data());
      }
    });
  });
  return result;
}

Literal evaluate_reduce_precision(const Literal& operand, const Shape& shape, const ReducePrecisionAttributes& how) {
  // On the bits of the type itself: fewer exponent bits make overflow infinite and what is below the smallest normal
  // number 0; mantissas are rounded to nearest even.
  const ElementType type = operand.type();
  if (type == ElementType::F8E8M0FNU || format_of(type).special != FloatFormat::Special::Ieee) {
    // Formats with other specials go through one that has infinities.
    const Shape wide = array_shape(ElementType::F32, operand.shape().dims);
    return evaluate_convert(evaluate_reduce_precision(evaluate_convert(operand, wide), wide, how), shape);
  }
  const FloatFormat own = format_of(type);
  const int width = bit_width(type);
  const uint64_t sign_bit = uint64_t{1} << (width - 1);
  const uint64_t infinity = ((uint64_t{1} << own.exponent_bits) - 1) << own.mantissa_bits;
  const int64_t reduced_bias = (int64_t{1} << (std::min(how.exponent_bits, own.exponent_bits) - 1)) - 1;
  const int64_t largest_exponent = own.bias + reduced_bias;
  const int64_t smallest_exponent = own.bias - reduced_bias;
  Literal result(shape);
  std::byte* bytes = result.mutable_bytes();
  const int64_t stride = operand.size() == 1 && result.size() != 1 ? 0 : 1;
  for (int64_t i = 0; i < result.size(); ++i) {
    const uint64_t code = get_code(operand, i * stride);
    const uint64_t sign = code & sign_bit;
    uint64_t magnitude = code & (sign_bit - 1);
    if (magnitude <= infinity) {
      if (how.mantissa_bits < own.mantissa_bits) {
        const int dropped = own.mantissa_bits - how.mantissa_bits;
        const uint64_t odd = (magnitude >> dropped) & 1;
        magnitude = (magnitude + odd + (uint64_t{1} << (dropped - 1)) - 1) >> dropped << dropped;
      }
      if (how.exponent_bits < own.exponent_bits) {
        const int64_t exponent = static_cast<int64_t>(magnitude >> own.mantissa_bits);
        if (exponent > largest_exponent) magnitude = infinity;
        if (exponent <= smallest_exponent) magnitude = 0;
      }
    }
    put_code(type, bytes, i, sign | magnitude);
  }
  return result;
}

Literal reinterpret_bits(const Literal& operand, const Shape& shape) {
  Literal result(shape);
  const auto bits = [](ElementType type) { return type == ElementType::Pred ? 8 : bit_width(type); };
  const int from = bits(operand.type());
  const int to = bits(shape.type);
  std::byte* bytes = result.mutable_bytes();
  if (from % 8 == 0 && to % 8 == 0) {
    if (result.byte_size() > 0) std::memcpy(bytes, operand.bytes(), result.byte_size());
    return result;
  }
  if (from >= to) {
    const int parts = from / to;
    for (int64_t i = 0; i < result.size(); ++i) {
      put_code(shape.type, bytes, i, wrap_unsigned(get_code(operand, i / parts) >> (i % parts * to), to));
    }
    return result;
  }
  const int parts = to / from;
  for (int64_t i = 0; i < result.size(); ++i) {
    uint64_t code = 0;
    for (int part = 0; part < parts; ++part) code |= get_code(operand, i * parts + part) << (part * from);
    put_code(shape.type, bytes, i, code);
  }
  return result;
}

Literal evaluate_iota(const Shape& shape, int64_t dimension) {
  Literal result(shape);
  std::byte* bytes = result.mutable_bytes();
  const size_t d = static_cast<size_t>(dimension);
  const int64_t inner = row_major_strides(shape.dims)[d];
  visit_accumulator_type(shape.type, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < result.size(); ++i) {
      T value{};
      if constexpr (is_complex_number<T>) {
        value = static_cast<double>(i / inner % shape.dims[d]);
      } else {
        value = static_cast<T>(i / inner % shape.dims[d]);
      }
      store(shape.type, bytes, i, 1, &value);
    }
  });
  return result;
}

}  // namespace strata::hlo
