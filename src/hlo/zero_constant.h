// Constants that are zero.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether an instruction is a constant that is printed whole, all of whose bits are 0: numbers 0 (not -0), false.
bool is_zero_constant(const Computation& computation, InstructionId id);

}  // namespace strata::hlo
