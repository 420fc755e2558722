// Sums of what is the same for several elements. Folder-internal.
#pragma once

#include <llvm/IR/Module.h>

namespace strata::emitters {

/// Whether a function rotates bits, as the rounds of hash functions and of random generators do.
bool rotates(const llvm::Function& function);

/// In functions that rotate bits, (x + k) + c becomes x + (k + c) where c is a constant and several x are added to the
/// same k and c: k + c is computed once. Threefry adds a key and the round's number to each element. Otherwise the
/// assembler makes one addition of three numbers of it, which takes the pipe of rotations and xor, and so a round's
/// other additions do not: sums of two numbers go to the multipliers.
void share_sums(llvm::Module& module);

}  // namespace strata::emitters
