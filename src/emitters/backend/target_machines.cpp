#include "emitters/backend/target_machines.h"

#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include "emitters/backend/llvm_guard.h"
#include "machine/target.h"

namespace strata::emitters {
namespace {

constexpr const char* kNvptxTriple = "nvptx64-nvidia-cuda";

/// LLVM has tables of targets for the process. Registering is cheap, and done twice does nothing.
void register_targets() {
  static const bool registered = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)registered;
}

}  // namespace

Result<std::unique_ptr<llvm::TargetMachine>> nvptx_machine(std::string_view arch, int ptx_version) {
  STRATA_CHECK(find_target(arch));  // LLVM takes any name for the oldest architecture
  register_targets();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(kNvptxTriple, error);
  if (!target) return environment("LLVM was built without NVPTX: {}", error);
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      kNvptxTriple, std::string(arch), fmt::format("+ptx{}", ptx_version), llvm::TargetOptions(), llvm::Reloc::PIC_));
  if (!machine) return environment("LLVM makes no code for {} with PTX {}", arch, ptx_version);
  return machine;
}

Result<std::unique_ptr<llvm::TargetMachine>> host_machine(int level) {
  register_targets();
  // What processor this is does not change, and asking is slow on virtual machines.
  static const auto detected = []() -> Result<llvm::orc::JITTargetMachineBuilder> {
    auto host = llvm::orc::JITTargetMachineBuilder::detectHost();
    if (!host) return environment("LLVM does not know this processor: {}", message_of(host.takeError()));
    return std::move(*host);
  }();
  STRATA_TRY(llvm::orc::JITTargetMachineBuilder builder, detected);
  // Their conversions to bf16 take subnormal numbers for 0.
  for (const char* feature : {"avx512bf16", "avxneconvert"}) builder.getFeatures().AddFeature(feature, false);
  builder.setCodeGenOptLevel(llvm::CodeGenOpt::getLevel(level).value_or(llvm::CodeGenOptLevel::Default));
  builder.setRelocationModel(llvm::Reloc::PIC_);
  auto machine = builder.createTargetMachine();
  if (!machine) return environment("LLVM makes no code for this processor: {}", message_of(machine.takeError()));
  return std::move(*machine);
}

}  // namespace strata::emitters
