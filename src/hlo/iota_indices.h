// Gathers and scatters some of whose indices only count, with batching dimensions in their place.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether any computation has a gather or scatter that batch_iota_indices rewrites.
bool has_iota_indices(const Module& module);

/// Each gather and scatter whose indices are a concatenation of which one piece counts along a dimension of the
/// indices, `x[arange(n), labels]` above all, has that dimension as a batching dimension of both in place of the piece.
/// So an element's place says which row it belongs to: a scatter has its updates row by row, and the concatenation
/// need not be written. The piece may be computed, of iotas and constants alone: the interpreter says what it is. It
/// counts over the whole of the operand's dimension. One piece stays. Calls are written out, so that what computes a
/// piece is seen. Error where the module is not verified.
Result<Module> batch_iota_indices(const Module& module);

}  // namespace strata::hlo
