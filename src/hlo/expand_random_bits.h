// Random bits in terms of elementwise operators.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether expand_random_bits would replace any.
bool has_random_bits(const Module& module);

/// Each rng-bit-generator as a call of a computation that counts, and mixes each count with the key: the bits are those
/// of the interpreter, and XLA's. One that makes no elements stays. Error where the module is not verified.
Result<Module> expand_random_bits(const Module& module);

}  // namespace strata::hlo
