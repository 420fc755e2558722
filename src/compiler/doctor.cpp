#include "compiler/doctor.h"

#include "emitters/backend/llvm_version.h"

namespace strata::compiler {

Finding llvm_finding() {
  return {
      "LLVM", emitters::llvm_version(), path_of_library("libLLVM"), {}, "HLO modules on this processor and for GPUs"};
}

}  // namespace strata::compiler
