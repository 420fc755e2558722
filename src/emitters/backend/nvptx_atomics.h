// Additions of vectors in memory as single instructions of the GPU. Folder-internal.
#pragma once

namespace llvm {
class Module;
}

namespace strata::emitters {

/// Replaces `atomicrmw` of vectors, which LLVM 19 makes loops or library calls of: additions of f16 and bf16 pairs, and
/// on sm_90 of up to 16 aligned bytes of f32, f16 or bf16 in global memory, become one red or atom each; what no
/// instruction takes is split. Each element is atomic, not the vector, as in PTX. Address spaces must be inferred.
void lower_vector_atomics(llvm::Module& module, bool sm_90);

}  // namespace strata::emitters
