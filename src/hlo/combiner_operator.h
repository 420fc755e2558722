// Combiners that are one operator.
#pragma once

#include <optional>

#include "hlo/hlo.h"

namespace strata::hlo {

/// The one operator that combines the two parameters of a computation.
std::optional<Opcode> only_operator(const Computation& combiner);

/// A scalar that the operator combines with any other to that one; nothing where it has none.
std::optional<Literal> neutral_value(Opcode opcode, ElementType type);

}  // namespace strata::hlo
