// One operator on known values.
#pragma once

#include <vector>

#include "hlo/hlo.h"

namespace strata::hlo {

/// What an instruction that calls nothing computes of these operands, by the interpreter; their shapes and its own must
/// fit. Errors as those of evaluate.
Result<Literal> evaluate_operator(Instruction instruction, const std::vector<Literal>& operands);

}  // namespace strata::hlo
