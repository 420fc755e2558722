// Convolutions of 16-bit types with as many channels as tensor cores take at once.
#pragma once

#include "hlo/hlo.h"
#include "machine/target.h"

namespace strata::emitters {

/// Convolutions of the entry whose channels or filters, of 16 bits, are no multiples of 16 bytes, with zeros for what
/// is missing, where the library is so much faster then by its price that it pays for the longer operands and for the
/// part of the result that is left. Without groups; gradients as the convolutions that compute them. Zeros multiply
/// zeros in sums over channels, and whole channels that are added are left out, so results are the same but for the
/// order of the library's sums.
hlo::Module with_padded_convolutions(const hlo::Module& module, const Target& target);

}  // namespace strata::emitters
