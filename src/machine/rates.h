// The table of rates that both cost models read: what each number is, its unit, and where it was measured.
#pragma once

#include <span>
#include <string_view>

namespace strata {

/// How a rate is shown; all are kept in seconds, bytes/s and operations/s, or are factors.
struct RateUnit {
  std::string_view symbol;
  double scale;
};
inline constexpr RateUnit kMicroseconds{"µs", 1e-6};
inline constexpr RateUnit kNanoseconds{"ns", 1e-9};
inline constexpr RateUnit kGigaBytesPerSecond{"GB/s", 1e9};
inline constexpr RateUnit kTeraBytesPerSecond{"TB/s", 1e12};
inline constexpr RateUnit kTeraOperationsPerSecond{"Top/s", 1e12};
inline constexpr RateUnit kFactor{"×", 1};

/// Those of an H200, unless a target says otherwise.
struct Rates {
#define RATE(name, unit, value, meaning, source) double name = value;
#include "machine/rates.def"
#undef RATE

  friend bool operator==(const Rates&, const Rates&) = default;
};

struct RateDescription {
  std::string_view name;
  RateUnit unit;
  std::string_view meaning;
  std::string_view source;  ///< of the value in Rates{}
  double Rates::*member;
};

/// One of each member of Rates, in their order.
std::span<const RateDescription> rate_descriptions();
/// Null where no rate is called so.
const RateDescription* find_rate(std::string_view name);

}  // namespace strata
