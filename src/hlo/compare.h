// Results compared where functions and sums may be rounded differently.
#pragma once

#include <optional>
#include <string>

#include "hlo/literal.h"

namespace strata::hlo {

/// At which magnitude units in the last place are measured.
enum class Unit : uint8_t {
  Element,  ///< at the element and, up to 4, at the array's largest: large values do not hide small ones
  Array,    ///< at the array's largest: for what has errors of one size in all elements (terms.h, transformed_results)
};

/// Nothing if the literals agree: equal shapes except for layouts, equal integers, and floats within a few units in the
/// last place of their type; NaN only with NaN. Else where and how they differ first. `slack` multiplies what floats
/// may differ by.
std::optional<std::string> difference(const Literal& actual, const Literal& expected, double slack = 1,
                                      Unit unit = Unit::Element);

}  // namespace strata::hlo
