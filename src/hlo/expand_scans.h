// Scans (the operator of JAX 0.11) by one associative operator in terms of reduce-window.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether any computation has a scan that expand_scans rewrites.
bool has_plain_scans(const Module& module);

/// Each scan of one array whose step is one add, multiply, minimum, maximum, and, or, xor of the slice and what is
/// carried, and gives the result as the step's and as the next carry, becomes a call of a computation with a
/// reduce-window that grows with the index (scan_window.h) and a slice of its last element; its initial value must be
/// one value everywhere. Sums and products of floats narrower than 32 bits stay: their steps round each time. Error
/// where the module is not verified.
Result<Module> expand_scans(const Module& module);

}  // namespace strata::hlo
