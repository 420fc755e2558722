// Arithmetic modulo a run-time odd prime below 2^62, in Montgomery form (Montgomery, 1985): a
// multiplication is two 64×64-bit products and no division.
#pragma once

#include <bit>
#include <cstdint>

namespace strata {

/// p = 2q + 1, both prime and ≡ 3 mod 4, so that x ↦ x^((p+1)/4) is a square root of quadratic residues in both fields.
struct FieldPrimes {
  uint64_t p;
  uint64_t q;
};

/// The largest such pair with p < 2^61 and q ≡ −1 modulo 8·3·5·7·11·13: then 2, 3, 5, 7, 11, 13 and their products
/// and quotients are squares in both fields, as positive constants are over the reals.
inline constexpr FieldPrimes kVerifierPrimes{2305843009207177439, 1152921504603588719};

/// A random pair with p in (2^60, 2^61) and q ≡ −1 modulo 8·3·5·7, so that 2, 3, 5 and 7 are squares in both fields.
/// There are more than kFieldPrimePairs of them, so that no program can be written around the one that a seed draws.
FieldPrimes draw_field_primes(uint64_t seed);

/// Whether n has no prime factor but those that are squares in every field that is drawn.
bool is_always_square(uint64_t n);

/// A lower estimate of how many pairs draw_field_primes draws from: candidates times the share of them that are pairs,
/// which prime_field_test.cpp measures.
inline constexpr double kFieldPrimePairs = 2e12;

/// Whether n is prime: Miller–Rabin with bases that decide every 64-bit number (Sorenson, Webster, 2015).
bool is_prime(uint64_t n);

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
  /// 0 counts as a residue.
  constexpr bool is_residue(uint64_t a) const { return a == 0 || pow(a, (modulus_ - 1) / 2) == one_; }

  __extension__ using Wide = unsigned __int128;
  /// How many products of elements a Wide holds on top of what `fold` leaves.
  constexpr int64_t delayed_products() const {
    const int bits = 64 - std::countl_zero(modulus_);
    return bits < 50 ? int64_t{1} << 20 : (int64_t{1} << (128 - 2 * bits)) - (int64_t{1} << (64 - bits));
  }
  /// A sum of products less a multiple of modulus · 2^64, which is 0 in Montgomery form.
  constexpr Wide fold(Wide sum) const {
    const auto high = static_cast<uint64_t>(sum >> 64);
    return static_cast<Wide>(high % modulus_) << 64 | static_cast<uint64_t>(sum);
  }
  /// The element that a sum of products is.
  constexpr uint64_t reduce_sum(Wide sum) const { return reduce(fold(sum)); }

 private:
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
