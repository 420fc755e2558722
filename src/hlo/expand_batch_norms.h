// Batch normalisation in terms of other operators.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether any computation has a batch-norm-training, -inference or -grad.
bool has_batch_norms(const Module& module);

/// Each of them as a call of a computation that takes its operands: sums by reduce, which divide by the number of their
/// terms, and elementwise operators, in f32 (f64 where an operand is f64). The variance is the mean square of what is
/// left without the mean, which loses no digits where the mean is large. Error where the module is not verified.
Result<Module> expand_batch_norms(const Module& module);

}  // namespace strata::hlo
