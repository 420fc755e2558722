// Modules whose calls and fusions are written out.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// The module with every call and fusion of the entry replaced by the instructions of what it calls, and every
/// get-tuple-element of a tuple by the element; what loops, conditionals, reductions and the like call stays a
/// computation, and has its calls written out too. Instructions that nothing uses are gone, parameters stay. Names stay
/// unique.
Module inline_calls(const Module& module);

/// A computation that may call computations of `module`, and all of these that it calls, as a module with it as the
/// entry.
Module extract_module(const Module& module, const Computation& entry);

}  // namespace strata::hlo
