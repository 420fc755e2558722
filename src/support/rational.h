// Exact constants of programs. A constant must mean the same number over the reals and over a
// finite field, so it is a rational and never a rounded double.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "support/error.h"

namespace strata {

/// num/den in lowest terms, den > 0.
struct Rational {
  int64_t num = 0;
  int64_t den = 1;

  double to_double() const { return static_cast<double>(num) / static_cast<double>(den); }
  /// "3", "-1/1024".
  std::string to_string() const;
  friend bool operator==(const Rational&, const Rational&) = default;
  friend auto operator<=>(const Rational&, const Rational&) = default;
};

/// Reduces to lowest terms. Error where den is 0.
Result<Rational> make_rational(int64_t num, int64_t den);

/// Reads "7", "-1/64", "0.125", "1e-3" exactly. Error where the text is no number, or numerator or
/// denominator do not fit 63 bits.
Result<Rational> parse_rational(std::string_view text);

}  // namespace strata
