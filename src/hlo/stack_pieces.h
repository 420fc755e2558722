// Concatenations of what one array gives by several constants, as one expression.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// The module with an expression over a dimension of pieces in the place of each concatenation of the entry from which
/// a product is computed by elementwise operators, reshapes and transposes, where the pieces are alike: the same
/// operators of the same arrays and of integers that lie at equal distances. Weights of 2 or 4 bits are unpacked so:
///
///     concatenate(x & 3, x >> 2 & 3, x >> 4 & 3, x >> 6 & 3)  →  reshape(xs >> 2 · piece & 3)
///
/// with xs[piece, …] = x. An operator that some pieces lack has for these the integer by which it changes nothing. To
/// what multiplies by it a concatenation is a branch for each element, after which the next load waits; the expression
/// is none, and all pieces read the same place of the array.
Module stack_pieces(const Module& module);

}  // namespace strata::hlo
