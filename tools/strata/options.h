// How options take numbers: one way for all, so that none takes what is not finite, out of range or cut off.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace strata::cli {

/// What a number may end with: nothing; ms, s, min or h; B, KiB (KB is 1000 bytes) and so on up to TiB.
enum class Unit : uint8_t { None, Seconds, Bytes };

/// The numbers that an option takes: those from `least` to `most`.
template <class Number>
struct Range {
  Number least = std::numeric_limits<Number>::lowest();
  Number most = std::numeric_limits<Number>::max();
  bool open = false;  ///< without the two ends
};

/// What is wrong with a text that shall be a number, in words that name it; empty where `value` is the number.
template <class Number>
std::string read_number(std::string_view text, const Range<Number>& range, Unit unit, Number& value);

/// An option with a number; its present value is the default that --help shows. What it does not take is an error that
/// names the option, the word and what it takes.
template <class Number>
CLI::Option* add_number(CLI::App& command, const std::string& name, Number& value, const Range<Number>& range,
                        const std::string& help, Unit unit = Unit::None);

/// A number of seconds, 0 to `most`.
inline CLI::Option* add_seconds(CLI::App& command, const std::string& name, double& value, double most,
                                const std::string& help) {
  return add_number<double>(command, name, value, {0, most}, help, Unit::Seconds);
}

/// A probability of an error. Neither NaN, above which no error bound is ever, so that every program would count as
/// proved, nor 0 and 1.
inline CLI::Option* add_probability(CLI::App& command, const std::string& name, double& value,
                                    const std::string& help) {
  return add_number<double>(command, name, value, {0, 1, true}, help);
}

}  // namespace strata::cli
