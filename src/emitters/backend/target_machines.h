// LLVM's targets. Folder-internal.
#pragma once

#include <memory>
#include <string_view>

#include "support/error.h"

namespace llvm {
class TargetMachine;
}

namespace strata::emitters {

/// For an architecture such as "sm_90a" (Target::name) and a PTX version such as 85 for 8.5.
Result<std::unique_ptr<llvm::TargetMachine>> nvptx_machine(std::string_view arch, int ptx_version);

/// For the processor this runs on; `level` 0 to 3 is that of code generation.
Result<std::unique_ptr<llvm::TargetMachine>> host_machine(int level);

}  // namespace strata::emitters
