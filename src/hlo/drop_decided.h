// What is decided before anything is read.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// The module without operators of the entry whose values are known from what some of their operands are everywhere: an
/// unsigned number is never below 0; `and` and `or` with true or false; a select by one of these; and elementwise
/// operators on numbers that are the same everywhere, which become such a number. JAX's remainder asks of unsigned
/// numbers whether they are negative, and would have masks of that computed, and stored for other kernels. Values are
/// the interpreter's. The root stays.
Module drop_decided(const Module& module);

}  // namespace strata::hlo
