// Runs of LLVM's passes. Folder-internal.
#pragma once

#include <llvm/Passes/PassBuilder.h>

#include <functional>

namespace strata::emitters {

/// Runs the passes that `add` gives, with all analyses, for the machine. `callbacks` may keep some from running.
void run_passes(llvm::Module& module, llvm::TargetMachine& machine,
                const std::function<void(llvm::PassBuilder&, llvm::ModulePassManager&)>& add,
                llvm::PassInstrumentationCallbacks* callbacks = nullptr);

}  // namespace strata::emitters
