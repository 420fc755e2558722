#include "options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <span>

namespace strata::cli {
namespace {

struct Suffix {
  std::string_view name;
  double factor;
};

constexpr std::array<Suffix, 4> kTimes{{{"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}}};
constexpr std::array<Suffix, 9> kSizes{{{"b", 1},
                                        {"kb", 1e3},
                                        {"mb", 1e6},
                                        {"gb", 1e9},
                                        {"tb", 1e12},
                                        {"kib", 0x1p10},
                                        {"mib", 0x1p20},
                                        {"gib", 0x1p30},
                                        {"tib", 0x1p40}}};

std::span<const Suffix> suffixes(Unit unit) {
  if (unit == Unit::Seconds) return kTimes;
  if (unit == Unit::Bytes) return kSizes;
  return {};
}

std::string_view examples(Unit unit) {
  return unit == Unit::Seconds ? ", in seconds, or such as 90s or 5min"
         : unit == Unit::Bytes ? ", in bytes, or such as 512MiB or 2GiB"
                               : "";
}

template <class Number>
std::string describe(const Range<Number>& range) {
  if (range.open) return fmt::format("above {} and below {}", range.least, range.most);
  return fmt::format("{} to {}", range.least, range.most);
}

/// Whole numbers are multiplied without rounding. False where the product does not fit.
template <class Number>
bool scale(Number& value, double factor) {
  if constexpr (std::is_floating_point_v<Number>) {
    value = static_cast<Number>(value * factor);
    return true;
  } else {
    return !__builtin_mul_overflow(value, static_cast<Number>(factor), &value);
  }
}

}  // namespace

template <class Number>
std::string read_number(std::string_view text, const Range<Number>& range, Unit unit, Number& value) {
  constexpr bool whole = !std::is_floating_point_v<Number>;
  const auto outside = [&] {
    return fmt::format("{} is {} {}{}", text, range.open ? "not" : "outside", describe(range), examples(unit));
  };
  const auto no_number = [&] {
    return fmt::format("'{}' is no {}number{}", text, whole ? "whole " : "", examples(unit));
  };
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  // Unsigned numbers have no sign for the standard library, which would call -1 no number at all.
  const bool negative = std::is_unsigned_v<Number> && digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  Number number{};
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (status == std::errc::invalid_argument) return no_number();
  std::string suffix(end, digits.data() + digits.size());
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  bool fits = status == std::errc() && !(negative && number != 0);
  if (!suffix.empty()) {
    const auto known = suffixes(unit);
    const auto at = std::find_if(known.begin(), known.end(), [&](const Suffix& s) { return s.name == suffix; });
    if (at == known.end()) return no_number();
    fits = fits && scale(number, at->factor);
  }
  // Written so that NaN is outside.
  fits = fits &&
         (range.open ? number > range.least && number < range.most : number >= range.least && number <= range.most);
  if (!fits) return outside();
  value = number;
  return {};
}

template <class Number>
CLI::Option* add_number(CLI::App& command, const std::string& name, Number& value, const Range<Number>& range,
                        const std::string& help, Unit unit) {
  const auto read = [&value, name, range, unit](const CLI::results_t& words) {
    if (const std::string wrong = read_number(words.back(), range, unit, value); !wrong.empty())
      throw CLI::ValidationError(name, wrong);
    return true;
  };
  CLI::Option* option = command.add_option(name, read, help);
  const bool all = range.least == Range<Number>().least && range.most == Range<Number>().most;
  option->type_name(fmt::format("{}{}",
                                unit == Unit::Seconds        ? "SECONDS"
                                : unit == Unit::Bytes        ? "BYTES"
                                : std::is_integral_v<Number> ? "INT"
                                                             : "FLOAT",
                                all ? "" : " " + describe(range)));
  option->default_str(fmt::format("{}", value));
  return option;
}

template std::string read_number(std::string_view, const Range<int>&, Unit, int&);
template std::string read_number(std::string_view, const Range<uint64_t>&, Unit, uint64_t&);
template std::string read_number(std::string_view, const Range<int64_t>&, Unit, int64_t&);
template std::string read_number(std::string_view, const Range<double>&, Unit, double&);
template std::string read_number(std::string_view, const Range<float>&, Unit, float&);
template CLI::Option* add_number(CLI::App&, const std::string&, int&, const Range<int>&, const std::string&, Unit);
template CLI::Option* add_number(CLI::App&, const std::string&, uint64_t&, const Range<uint64_t>&, const std::string&,
                                 Unit);
template CLI::Option* add_number(CLI::App&, const std::string&, int64_t&, const Range<int64_t>&, const std::string&,
                                 Unit);
template CLI::Option* add_number(CLI::App&, const std::string&, float&, const Range<float>&, const std::string&, Unit);
template CLI::Option* add_number(CLI::App&, const std::string&, double&, const Range<double>&, const std::string&,
                                 Unit);

}  // namespace strata::cli
