// Batches of products of few results and many terms: several blocks of a library's kernel share each result.
#pragma once

#include "emitters/library/calls.h"
#include "hlo/hlo.h"
#include "machine/target.h"

namespace strata::emitters {

/// The module with some `dot`s of its entry that a library would compute as a `dot` with one more batch dimension, of
/// parts of the terms, and a sum over that (ProductPartsRewriter): those of which the model says that they take less
/// time so, copies of operands and the sum included. The library does that itself for one product, not for several in
/// one launch.
hlo::Module with_shared_products(const hlo::Module& module, const Target& target, LibraryUse use);

}  // namespace strata::emitters
