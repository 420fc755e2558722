// Scans (the operator of JAX 0.11) as operators that kernels have: reduce-windows and loops.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether any computation has a scan.
bool has_scan_operators(const Module& module);

/// Each scan of one array whose step is one add, multiply, minimum, maximum, and, or, xor of the slice and what is
/// carried, and gives the result as the step's and as the next carry, becomes a call of a computation with a
/// reduce-window that grows with the index (scan_window.h) and a slice of its last element; its initial value must be
/// one value everywhere. Sums and products of floats narrower than 32 bits do only where sums_in_any_grouping() says
/// that their steps need not round each time, and then with any initial value. Every other scan becomes a loop over its
/// steps. Error where the module is not verified.
Result<Module> expand_scans(const Module& module);

/// Whether a scan is the sums or products of the first elements of an array of floats narrower than 32 bits, and the
/// text says that they may be grouped in any way: then no rounding of a step is what it means. Each of them is rounded
/// once, as those of a reduce-window are.
bool sums_in_any_grouping(const Computation& step, const Instruction& scan);

}  // namespace strata::hlo
