// Products whose rows, or terms, belong to groups of different sizes, in terms of other operators.
#pragma once

#include "hlo/hlo.h"
#include "support/error.h"

namespace strata::hlo {

/// Whether any computation has a ragged-dot.
bool has_ragged_dots(const Module& module);

/// The number of terms of a ragged-dot's sums, of all groups where these are parts of them; 1 where its attributes are
/// not to be read.
int64_t ragged_terms(const Computation& computation, const Instruction& it);

/// Each ragged-dot(lhs, rhs, sizes) as a call of a computation of other operators. sizes[g] elements of the left
/// operand's ragged dimension, one group after the other, belong to group g:
///
/// - a dimension of its own (rows): each row is multiplied by its group's matrix, rhs[g, …]; rows past the last group
///   are 0. Without a batch, rows are gathered into blocks of one group each, of a fixed number of rows, and multiplied
///   by gathered matrices: a `dot` with the blocks as its batch (the blocks of MegaBlocks, MLSys 2023). There are as
///   many blocks as groups of any sizes need. With a batch, and where few groups make that cheaper, the left operand
///   gets a dimension of groups, is 0 but in its own group's, and that is summed too.
/// - a contracting dimension: the result has a first dimension of groups, each of which sums its own terms.
/// - a batch dimension: the groups make no difference.
///
/// Where the left operand is made 0 by its group, it is multiplied all the same: infinities of the right one give NaN.
/// Errors, with the instruction's place: attributes or shapes that are no ragged-dot's (Invalid), sizes of more than
/// one dimension (Unsupported).
Result<Module> expand_ragged_dots(const Module& module);

}  // namespace strata::hlo
