#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "hlo/elementwise_loops.h"
#include "hlo/evaluate_parts.h"

namespace strata::hlo {
namespace {

template <class T>
constexpr bool is_complex_number = false;
template <class T>
constexpr bool is_complex_number<std::complex<T>> = true;

using Complex = std::complex<double>;

int64_t integer_divide(int64_t a, int64_t b) {
  if (b == 0) return -1;
  return b == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(a)) : a / b;
}
uint64_t integer_divide(uint64_t a, uint64_t b) { return b == 0 ? ~uint64_t{0} : a / b; }
int64_t integer_remainder(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
uint64_t integer_remainder(uint64_t a, uint64_t b) { return b == 0 ? a : a % b; }

/// By squaring, modulo 2^64; negative exponents leave only what is invertible.
template <class T>
T integer_power(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
  }
  uint64_t result = 1;
  uint64_t factor = static_cast<uint64_t>(base);
  for (uint64_t rest = static_cast<uint64_t>(exponent); rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) result *= factor;
    factor *= factor;
  }
  return static_cast<T>(result);
}

/// The upper half of the product of two integers of `bits` bits.
template <class T>
T high_product(T a, T b, int bits) {
  __extension__ using Product = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  return static_cast<T>((static_cast<Product>(a) * static_cast<Product>(b)) >> bits);
}

template <class T>
void binary_integer(Opcode opcode, const Literal& lhs, const Literal& rhs, Literal& result) {
  const int bits = bit_width(lhs.type());
  // Amounts are unsigned: a negative one is past every width.
  const auto amount = [bits](T b) { return wrap_unsigned(static_cast<uint64_t>(b), bits); };
  const auto past = [bits](uint64_t shift) { return shift >= static_cast<uint64_t>(bits); };
  const auto u = [](T x) { return static_cast<uint64_t>(x); };
  const auto map = [&](auto function) { map_binary<T>(lhs, rhs, result, function); };
  switch (opcode) {
    case Opcode::Add:
      return map([u](T a, T b) { return static_cast<T>(u(a) + u(b)); });
    case Opcode::Subtract:
      return map([u](T a, T b) { return static_cast<T>(u(a) - u(b)); });
    case Opcode::Multiply:
      return map([u](T a, T b) { return static_cast<T>(u(a) * u(b)); });
    case Opcode::Divide:
      return map([](T a, T b) { return integer_divide(a, b); });
    case Opcode::Remainder:
      return map([](T a, T b) { return integer_remainder(a, b); });
    case Opcode::Power:
      return map([](T a, T b) { return integer_power(a, b); });
    case Opcode::Mulhi:
      return map([bits](T a, T b) { return high_product(a, b, bits); });
    case Opcode::Maximum:
      return map([](T a, T b) { return std::max(a, b); });
    case Opcode::Minimum:
      return map([](T a, T b) { return std::min(a, b); });
    case Opcode::And:
      return map([](T a, T b) { return a & b; });
    case Opcode::Or:
      return map([](T a, T b) { return a | b; });
    case Opcode::Xor:
      return map([](T a, T b) { return a ^ b; });
    case Opcode::ShiftLeft:
      return map([=](T a, T b) { return past(amount(b)) ? T{0} : static_cast<T>(u(a) << amount(b)); });
    case Opcode::ShiftRightLogical:
      return map(
          [=](T a, T b) { return past(amount(b)) ? T{0} : static_cast<T>(wrap_unsigned(u(a), bits) >> amount(b)); });
    case Opcode::ShiftRightArithmetic:
      return map([=](T a, T b) {
        const int64_t value = wrap_signed(static_cast<int64_t>(a), bits);
        return static_cast<T>(value >> (past(amount(b)) ? 63 : amount(b)));
      });
    default:
      assert(false && "no function of two integers");
  }
}

template <class T>
T float_maximum(T a, T b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b);
}
template <class T>
T float_minimum(T a, T b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b);
}

template <class T>
void binary_float(Opcode opcode, const Literal& lhs, const Literal& rhs, Literal& result) {
  const auto map = [&](auto function) { map_binary<T>(lhs, rhs, result, function); };
  switch (opcode) {
    case Opcode::Add:
      return map([](T a, T b) { return a + b; });
    case Opcode::Subtract:
      return map([](T a, T b) { return a - b; });
    case Opcode::Multiply:
      return map([](T a, T b) { return a * b; });
    case Opcode::Divide:
      return map([](T a, T b) { return a / b; });
    case Opcode::Remainder:
      return map([](T a, T b) { return std::fmod(a, b); });
    case Opcode::Power:
      return map([](T a, T b) { return static_cast<T>(std::pow(static_cast<double>(a), static_cast<double>(b))); });
    case Opcode::Atan2:
      return map([](T a, T b) { return static_cast<T>(std::atan2(static_cast<double>(a), static_cast<double>(b))); });
    case Opcode::Maximum:
      return map([](T a, T b) { return float_maximum(a, b); });
    case Opcode::Minimum:
      return map([](T a, T b) { return float_minimum(a, b); });
    case Opcode::Complex:
      return map_binary<T, std::complex<T>>(lhs, rhs, result, [](T a, T b) { return std::complex<T>(a, b); });
    default:
      assert(false && "no function of two floats");
  }
}

/// -i · log((x + i·y) / sqrt(x² + y²)).
Complex complex_atan2(Complex y, Complex x) {
  const Complex i(0, 1);
  return -i * std::log((x + i * y) / std::sqrt(x * x + y * y));
}

Complex complex_power(Complex a, Complex b) {
  if (b == Complex(0)) return 1;
  if (a == Complex(0)) return b.real() > 0 ? 0 : std::pow(a, b);
  return std::pow(a, b);
}

template <class T>
void binary_complex(Opcode opcode, const Literal& lhs, const Literal& rhs, Literal& result) {
  const auto map = [&](auto function) {
    map_binary<T>(lhs, rhs, result, [&](T a, T b) { return T(function(Complex(a), Complex(b))); });
  };
  switch (opcode) {
    case Opcode::Add:
      return map([](Complex a, Complex b) { return a + b; });
    case Opcode::Subtract:
      return map([](Complex a, Complex b) { return a - b; });
    case Opcode::Multiply:
      return map([](Complex a, Complex b) {
        return Complex(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
      });
    case Opcode::Divide:
      return map([](Complex a, Complex b) { return a / b; });
    case Opcode::Power:
      return map([](Complex a, Complex b) { return complex_power(a, b); });
    case Opcode::Atan2:
      return map([](Complex a, Complex b) { return complex_atan2(a, b); });
    default:
      assert(false && "no function of two complex numbers");
  }
}

/// An integer whose order is the total order of floats.
template <class T>
auto order_key(T value) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  const Bits bits = std::bit_cast<Bits>(value);
  return bits < 0 ? static_cast<Bits>(bits ^ std::numeric_limits<Bits>::max()) : bits;
}

/// A number whose order is the weak order of floats: NaN, of either sign, is above all others, and -0 is 0.
template <class T>
auto weak_key(T value) {
  if (std::isnan(value)) return std::numeric_limits<decltype(order_key(value))>::max();
  return order_key(value == 0 ? T{0} : value);
}

template <class T>
void compare(const CompareAttributes& how, const Literal& lhs, const Literal& rhs, Literal& result) {
  using Direction = CompareAttributes::Direction;
  const auto run = [&](auto key) {
    const auto map = [&](auto relation) {
      map_binary<T, uint64_t>(lhs, rhs, result, [&](T a, T b) { return uint64_t{relation(key(a), key(b))}; });
    };
    if (how.direction == Direction::EQ) return map([](auto a, auto b) { return a == b; });
    if (how.direction == Direction::NE) return map([](auto a, auto b) { return a != b; });
    if constexpr (!is_complex_number<T>) {
      switch (how.direction) {
        case Direction::LT:
          return map([](auto a, auto b) { return a < b; });
        case Direction::LE:
          return map([](auto a, auto b) { return a <= b; });
        case Direction::GT:
          return map([](auto a, auto b) { return a > b; });
        default:
          return map([](auto a, auto b) { return a >= b; });
      }
    }
  };
  if constexpr (std::is_floating_point_v<T>) {
    if (how.order == CompareAttributes::Order::Total) return run([](T x) { return order_key(x); });
    if (how.order == CompareAttributes::Order::Weak) return run([](T x) { return weak_key(x); });
  }
  run([](T x) { return x; });
}

Literal select(const Shape& shape, const Literal& condition, const Literal& yes, const Literal& no) {
  Literal result(shape);
  std::byte* bytes = result.mutable_bytes();
  const size_t width = static_cast<size_t>(byte_width(shape.type));
  const int64_t count = result.size();
  const int64_t condition_stride = stride_of(condition, count);
  const int64_t yes_stride = stride_of(yes, count);
  const int64_t no_stride = stride_of(no, count);
  for (int64_t i = 0; i < count; ++i) {
    const bool chosen = condition.bytes()[i * condition_stride] != std::byte{0};
    const std::byte* from = chosen ? yes.bytes() + static_cast<size_t>(i * yes_stride) * width
                                   : no.bytes() + static_cast<size_t>(i * no_stride) * width;
    std::memcpy(bytes + static_cast<size_t>(i) * width, from, width);
  }
  return result;
}

}  // namespace

Literal evaluate_elementwise(const Instruction& instruction, const Shape& shape, const std::vector<Literal>& operands) {
  const Opcode opcode = instruction.opcode;
  if (opcode == Opcode::Convert) return evaluate_convert(operands[0], shape);
  if (opcode == Opcode::ReducePrecision) {
    return evaluate_reduce_precision(operands[0], shape, instruction.as<ReducePrecisionAttributes>());
  }
  if (opcode == Opcode::Select) return select(shape, operands[0], operands[1], operands[2]);
  if (opcode == Opcode::Clamp) {
    Instruction limit = instruction;
    limit.opcode = Opcode::Maximum;
    const Literal raised = evaluate_elementwise(limit, shape, {operands[0], operands[1]});
    limit.opcode = Opcode::Minimum;
    return evaluate_elementwise(limit, shape, {raised, operands[2]});
  }
  if (operands.size() == 1) return evaluate_unary(opcode, shape, operands[0]);
  Literal result(shape);
  visit_compute_type(operands[0].type(), [&](auto zero) {
    using T = decltype(zero);
    if (opcode == Opcode::Compare) {
      compare<T>(instruction.as<CompareAttributes>(), operands[0], operands[1], result);
    } else if constexpr (std::is_integral_v<T>) {
      binary_integer<T>(opcode, operands[0], operands[1], result);
    } else if constexpr (std::is_floating_point_v<T>) {
      binary_float<T>(opcode, operands[0], operands[1], result);
    } else {
      binary_complex<T>(opcode, operands[0], operands[1], result);
    }
  });
  return result;
}

}  // namespace strata::hlo
