#include "../emitters.h"
#include "compiler/doctor.h"
#include "compiler/fusion_kernels.h"
#include "run_hlo.h"

namespace strata::cli {

std::shared_ptr<const KernelEmitter> kernel_emitter() { return std::make_shared<compiler::FusionKernels>(); }

Finding emitters_finding() { return compiler::llvm_finding(); }

Result<std::string> canonical_module(const Source& source) {
  STRATA_TRY(const hlo::ModuleText read, parse(source));
  return hlo::print(*read.module, read.aliases);
}

}  // namespace strata::cli
