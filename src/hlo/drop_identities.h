// Operators that give what they are given.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// The module with the operand in the place of each broadcast, reshape, transpose and conversion of the entry that
/// changes neither type, shape and layout nor the place of an element, with one transpose of two, and with a reduction
/// in the place of its reshapes that lead back to its shape. torch sums gradients of biases so: to rows of one element,
/// from which it takes that dimension away. JAX prints x[:, None] * y so: a broadcast to the shape that x has already.
/// An optimization-barrier of an array goes too: it keeps a compiler from merging what is computed twice
/// (jax.checkpoint), and this one merges no instructions after it. Such an instruction is a value of its own for what
/// fuses kernels, which may store it. The root stays.
Module drop_identities(const Module& module);

}  // namespace strata::hlo
