// What is computed twice, computed once ("common subexpressions").
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// The module whose entry has each value once: of instructions that are the same (operator, shape, attributes, called
/// computations, bits of constants) with the same operands, the first stands for all. Broadcasts and reshapes stay,
/// though what reads equal ones is equal: they cost nothing where they are read, and one for two kernels would be an
/// array in memory. So do random numbers, loops, branches, what may have effects, and barriers: JAX sets barriers
/// before what it wants to compute again rather than to keep (jax.checkpoint), so this comes before they are dropped
/// (drop_identities). Names of what goes are lost; the root's stays.
Module merge_equals(const Module& module);

}  // namespace strata::hlo
