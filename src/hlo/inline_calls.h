// Modules whose calls and fusions are written out.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// The module with every call and fusion of the entry replaced by the instructions of what it calls, and every
/// get-tuple-element of a tuple by the element; what loops, conditionals, reductions and the like call stays a
/// computation, and has its calls written out too. Instructions that nothing uses are gone, parameters stay. Names stay
/// unique.
Module inline_calls(const Module& module);

/// One computation and all that it calls as a module with it as the entry.
Module extract_module(const Module& module, ComputationId computation);

}  // namespace strata::hlo
