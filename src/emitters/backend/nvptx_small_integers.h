// Integers of 8 bits and fewer as floats. Folder-internal.
#pragma once

#include <llvm/IR/Module.h>

namespace strata::emitters {

/// Conversions of integers of at most 8 bits, as they are loaded in vectors of whole words or cast from words, to f32
/// or narrower become byte permutations: a byte below the exponent of 2^23 is that number and the byte, from which a
/// subtraction takes the number, and a bias where the integer is signed. The instruction that converts an integer runs
/// at an eighth of the rate. Words of two bf16 that are both rounded from f32 are rounded together (sm_80 and later).
/// Values are the same bit by bit.
void convert_small_integers(llvm::Module& module);

}  // namespace strata::emitters
