// What the concatenate emitter takes, for who prices it.
#pragma once

#include <cstddef>

namespace strata::emitters {

/// Operands of a concatenation of which each is a loop's code of its own, for threads that write it alone.
inline constexpr size_t kMostOperandsApart = 64;

}  // namespace strata::emitters
