// Gaps in LLVM 19's selection of instructions for NVPTX. Folder-internal.
#pragma once

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace strata::emitters {

/// Merges neighbouring loads and stores, as LLVM would do next, and makes moves of the casts between f16 and bf16,
/// which come from that as well and for which LLVM selects nothing.
void break_half_casts(llvm::Module& module, llvm::TargetMachine& machine);

/// Loads of 8 bytes as vectors of i8, aligned by as many, become loads of i64: of the vectors LLVM makes two loads
/// of 4.
void load_eight_bytes_at_once(llvm::Module& module);

}  // namespace strata::emitters
