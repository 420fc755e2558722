// Casts of bits between types of different widths, in terms of elementwise operators.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether expand_bitcast_converts would replace any.
bool has_uneven_bitcast_converts(const Module& module);

/// Each bitcast-convert between types of different widths as a call of a computation of shifts: one that splits
/// elements takes each part's bits of the whole, one that joins them puts the parts together, the first part in the
/// lowest bits. Those that make pred stay, as its bytes need not be 0 or 1 then.
/// Error where the module is not verified.
Result<Module> expand_bitcast_converts(const Module& module);

}  // namespace strata::hlo
