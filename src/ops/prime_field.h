// Arithmetic modulo a run-time odd prime below 2^62, in Montgomery form (Montgomery, 1985): a
// multiplication is two 64×64-bit products and no division.
#pragma once

#include <cstdint>

namespace strata {

/// Elements are in [0, modulus), stored as x·2^64 mod modulus.
class PrimeField {
 public:
  explicit constexpr PrimeField(uint64_t modulus) : modulus_(modulus) {
    uint64_t inverse = modulus;  // Newton: correct bits double from 3
    for (int i = 0; i < 5; ++i) inverse *= 2 - modulus * inverse;
    negative_inverse_ = ~inverse + 1;
    one_ = (~uint64_t{0}) % modulus + 1;
    if (one_ == modulus) one_ = 0;
    uint64_t square = one_;
    for (int i = 0; i < 64; ++i) square = add(square, square);
    square_ = square;
  }

  constexpr uint64_t modulus() const { return modulus_; }
  constexpr uint64_t one() const { return one_; }
  constexpr uint64_t add(uint64_t a, uint64_t b) const {
    const uint64_t sum = a + b;
    return sum >= modulus_ ? sum - modulus_ : sum;
  }
  constexpr uint64_t sub(uint64_t a, uint64_t b) const { return a >= b ? a - b : a + modulus_ - b; }
  constexpr uint64_t mul(uint64_t a, uint64_t b) const { return reduce(static_cast<Wide>(a) * b); }
  constexpr uint64_t pow(uint64_t base, uint64_t exponent) const {
    uint64_t result = one_;
    for (; exponent != 0; exponent >>= 1) {
      if (exponent & 1) result = mul(result, base);
      base = mul(base, base);
    }
    return result;
  }
  /// 0 for 0.
  constexpr uint64_t inverse(uint64_t a) const { return pow(a, modulus_ - 2); }
  constexpr uint64_t from_integer(uint64_t x) const { return mul(x % modulus_, square_); }
  constexpr uint64_t from_signed(int64_t x) const {
    return x >= 0 ? from_integer(static_cast<uint64_t>(x))
                  : sub(0, from_integer(uint64_t{0} - static_cast<uint64_t>(x)));
  }
  constexpr uint64_t to_integer(uint64_t a) const { return reduce(a); }

 private:
  __extension__ using Wide = unsigned __int128;

  constexpr uint64_t reduce(Wide x) const {
    const uint64_t m = static_cast<uint64_t>(x) * negative_inverse_;
    const uint64_t t = static_cast<uint64_t>((x + static_cast<Wide>(m) * modulus_) >> 64);
    return t >= modulus_ ? t - modulus_ : t;
  }

  uint64_t modulus_;
  uint64_t negative_inverse_ = 0;
  uint64_t one_ = 0;
  uint64_t square_ = 0;
};

}  // namespace strata
