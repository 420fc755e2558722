// The reference interpreter of HLO: the truth that generated code is compared with. docs/hlo.md has its semantics.
#pragma once

#include <span>

#include "hlo/hlo.h"

namespace strata::hlo {

/// The value of the entry computation's root. The module is verified and `arguments` have the parameters' shapes but
/// for layouts. Error (Unsupported) with its place at an operator that the interpreter does not have.
Result<Literal> evaluate(const Module& module, std::span<const Literal> arguments);
/// The same for another computation of the module.
Result<Literal> evaluate(const Module& module, const Computation& computation, std::span<const Literal> arguments);

/// Error (Unsupported) with its place at an operator that the interpreter does not have, in the computation or one that
/// it calls: bodies of loops and branches too, though `evaluate` refuses these only where they run.
Result<void> check_evaluable(const Module& module, const Computation& computation);

}  // namespace strata::hlo
