#include "support/rational.h"

#include <cctype>
#include <charconv>
#include <limits>
#include <numeric>

namespace strata {
namespace {

constexpr int64_t kLimit = std::numeric_limits<int64_t>::max();

tl::unexpected<Error> not_a_number(std::string_view text) {
  return with_remedy(invalid("'{}' is not a number", text), "write a decimal or a fraction: 7, -1/64, 0.125 or 1e-3");
}

tl::unexpected<Error> too_large(std::string_view text) {
  return with_remedy(invalid("'{}' needs more than 63 bits as a fraction", text),
                     "write it as num/den with fewer digits");
}

Result<int64_t> parse_integer(std::string_view text, std::string_view whole) {
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range || value == std::numeric_limits<int64_t>::min()) return too_large(whole);
  if (status != std::errc{} || end != text.data() + text.size()) return not_a_number(whole);
  return value;
}

}  // namespace

std::string Rational::to_string() const { return den == 1 ? std::to_string(num) : fmt::format("{}/{}", num, den); }

Result<Rational> make_rational(int64_t num, int64_t den) {
  if (den == 0)
    return with_remedy(invalid("a constant has the denominator 0"),
                       "write a fraction of two whole numbers, the second not 0: 1/64");
  const int64_t divisor = std::gcd(num, den);
  if (den < 0) num = -num, den = -den;
  return Rational{num / divisor, den / divisor};
}

Result<Rational> parse_rational(std::string_view text) {
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    STRATA_TRY(const int64_t num, parse_integer(text.substr(0, slash), text));
    STRATA_TRY(const int64_t den, parse_integer(text.substr(slash + 1), text));
    return make_rational(num, den);
  }
  std::string_view rest = text;
  const bool negative = !rest.empty() && rest.front() == '-';
  if (negative) rest.remove_prefix(1);
  int64_t num = 0;
  int64_t exponent = 0;
  bool point = false;
  bool digits = false;
  size_t i = 0;
  for (; i < rest.size() && rest[i] != 'e' && rest[i] != 'E'; ++i) {
    if (rest[i] == '.' && !point) {
      point = true;
      continue;
    }
    if (!std::isdigit(static_cast<unsigned char>(rest[i]))) return not_a_number(text);
    const int64_t digit = rest[i] - '0';
    if (num > (kLimit - digit) / 10) return too_large(text);
    num = num * 10 + digit;
    exponent -= point ? 1 : 0;
    digits = true;
  }
  if (!digits) return not_a_number(text);
  if (i < rest.size()) {
    std::string_view tail = rest.substr(i + 1);
    if (!tail.empty() && tail.front() == '+') tail.remove_prefix(1);
    STRATA_TRY(const int64_t written, parse_integer(tail, text));
    if (written > 1000 || written < -1000) return too_large(text);
    exponent += written;
  }
  int64_t den = 1;
  if (num == 0) return Rational{0, 1};
  for (; exponent > 0; --exponent) {
    if (num > kLimit / 10) return too_large(text);
    num *= 10;
  }
  for (; exponent < 0; ++exponent) {
    if (num % 10 == 0) {
      num /= 10;
    } else if (den > kLimit / 10) {
      return too_large(text);
    } else {
      den *= 10;
    }
  }
  return make_rational(negative ? -num : num, den);
}

}  // namespace strata
