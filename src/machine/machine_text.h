// Machines as text: the tables of `strata machine`, the same as JSON, and machines read back.
#pragma once

#include <string>
#include <string_view>

#include "machine/target.h"

namespace strata {

/// Limits and rates, one a line, each rate with its unit and its source.
std::string describe(const Target& target);

/// {"target", "gpu", "plan", "limits": {NAME: number or boolean, …}, "rates": {NAME: {"value", "unit", "meaning",
/// "source"}, …}}; values are in seconds, bytes/s and operations/s, or factors ("×").
std::string machine_json(const Target& target);
/// The machine that machine_json() printed. Error (InvalidInput) naming what is missing, unknown or no such number.
Result<Target> parse_machine(std::string_view json);

/// A rate in its own unit: "4.39 TB/s".
std::string rate_text(const RateDescription& rate, double value);

}  // namespace strata
