// Instructions whose values no parameter reaches: constants that repeat, and what is made of iotas. Parts have copies
// of them instead of reading them.
#pragma once

#include <vector>

#include "hlo/hlo.h"

namespace strata::emitters {

enum class Known : uint8_t {
  No,
  Splat,   ///< one value everywhere
  Counts,  ///< an integer, or a truth value, that is made of iotas and splats
};

/// By instruction.
std::vector<Known> known_instructions(const hlo::Computation& computation);

}  // namespace strata::emitters
