// What is known of the elements that a value has more along a dimension than the module gives it.
#pragma once

#include <optional>
#include <vector>

#include "hlo/hlo.h"

namespace strata::emitters {

/// Of all elements beyond the module's along one dimension. "Numbers" are finite, "masked" is −∞ or what stands for it.
enum class Filling : uint8_t {
  Same,     ///< the value does not depend on the index: what is there is what is in the module
  Zeros,    ///< all are 0
  Masked,   ///< all are masked
  Numbers,  ///< all are numbers
  Low,      ///< all are numbers or masked
  Any,      ///< may be NaN or infinite
};

/// What an operator that works element by element, or moves or reduces along other dimensions, makes of its operands'
/// fillings. `constants` are the values of operands that have one value everywhere. Any where nothing better is known.
Filling filling_of(hlo::Opcode opcode, const std::vector<Filling>& operands,
                   const std::vector<std::optional<double>>& constants);

/// Of a product of two values, summed along other dimensions where it is a matrix product.
Filling filling_of_product(Filling a, Filling b);

}  // namespace strata::emitters
