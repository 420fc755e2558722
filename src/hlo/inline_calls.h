// Modules whose calls and fusions are written out.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// The module with every call and fusion of the entry replaced by the instructions of what it calls, and every
/// get-tuple-element of a tuple by the element; what loops, conditionals, reductions and the like call stays a
/// computation, and has its calls written out too. A call that stands twice, of the same values, is written out once.
/// Constants, copies and barriers of tuples become those of their elements. Instructions that nothing uses are gone,
/// parameters stay. Names stay unique. The module has passed check_calls().
Module inline_calls(const Module& module);

/// Error (Unsupported) where what a computation calls would be more than 2^20 instructions with all calls written out:
/// n computations that call each other twice are 2^n.
Result<void> check_calls(const Module& module);

/// A computation that may call computations of `module`, and all of these that it calls, as a module with it as the
/// entry.
Module extract_module(const Module& module, const Computation& entry);
/// The same of a computation that nobody needs any more, whose instructions have names of their own.
Module extract_module(const Module& module, Computation&& entry);

}  // namespace strata::hlo
