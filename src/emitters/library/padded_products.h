// Products of 16-bit numbers whose rows are no multiples of 16 bytes.
#pragma once

#include "emitters/library/calls.h"
#include "machine/target.h"

namespace strata::emitters {

/// Products of bf16, f16 and TF32 of the entry with rows, columns or terms filled up with zeros to whole 16 bytes, and
/// results cut, where that takes less time by the model: cuBLASLt's fast kernels read and write 16 bytes at a time.
/// Operands that kernels compute by elements are computed with longer rows (padded_arrays.h); others are copied, which
/// the price has in it, and lie then with those dimensions innermost for which the model has the least time. Several
/// dimensions that follow each other are filled up as one.
hlo::Module with_padded_products(const hlo::Module& module, const Target& target, LibraryUse use);

}  // namespace strata::emitters
