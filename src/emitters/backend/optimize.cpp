#include "emitters/backend/optimize.h"

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassInstrumentation.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/Internalize.h>
#include <llvm/Transforms/Scalar/InferAddressSpaces.h>
#include <llvm/Transforms/Scalar/Reassociate.h>

#include <algorithm>

#include "emitters/backend/llvm_guard.h"
#include "emitters/backend/run_passes.h"
#include "emitters/backend/share_sums.h"

namespace strata::emitters {
namespace {

Result<void> link_math(llvm::Module& module, std::span<const std::byte> bitcode) {
  if (bitcode.empty()) return {};
  const llvm::StringRef bytes(reinterpret_cast<const char*>(bitcode.data()), bitcode.size());
  // Lazily: of a library of many functions a kernel needs few.
  auto library = llvm::getLazyBitcodeModule(llvm::MemoryBufferRef(bytes, "math"), module.getContext());
  if (!library) return invalid("the math library is no bitcode: {}", message_of(library.takeError()));
  (*library)->setTargetTriple(module.getTargetTriple());
  (*library)->setDataLayout(module.getDataLayout());
  if (llvm::Linker::linkModules(module, std::move(*library), llvm::Linker::LinkOnlyNeeded))
    return invalid("the math library does not link");
  // It is compiled for some processor of the kind, the kernels for this one; where they differ, nothing is inlined.
  for (llvm::Function& function : module)
    for (const char* attribute : {"target-cpu", "target-features", "tune-cpu"}) function.removeFnAttr(attribute);
  return {};
}

llvm::OptimizationLevel level_of(int level) {
  if (level <= 1) return llvm::OptimizationLevel::O1;
  return level == 2 ? llvm::OptimizationLevel::O2 : llvm::OptimizationLevel::O3;
}

/// The rounds of a hash function or of a random generator (Threefry) add up what both this round and the next one use.
/// Reassociation makes each such sum one of all that it comes from, what is the same in a loop first: three additions
/// a round instead of one.
void keep_shared_sums(llvm::PassInstrumentationCallbacks& callbacks) {
  callbacks.registerShouldRunOptionalPassCallback([](llvm::StringRef pass, const llvm::Any& unit) {
    if (pass != llvm::ReassociatePass::name()) return true;
    const auto* const* function = llvm::any_cast<const llvm::Function*>(&unit);
    return function == nullptr || !rotates(**function);
  });
}

void run_pipeline(llvm::Module& module, llvm::TargetMachine& machine, int level) {
  llvm::PassInstrumentationCallbacks callbacks;
  keep_shared_sums(callbacks);
  const auto add = [level](llvm::PassBuilder& builder, llvm::ModulePassManager& passes) {
    // With block functions inside the kernels, all but the generic pointers are known: what follows sees which they
    // are.
    passes.addPass(llvm::AlwaysInlinerPass());
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(llvm::InferAddressSpacesPass()));
    passes.addPass(builder.buildPerModuleDefaultPipeline(level_of(level)));
  };
  run_passes(module, machine, add, &callbacks);
}

}  // namespace

Result<void> verify(const llvm::Module& module) {
  std::string message;
  llvm::raw_string_ostream out(message);
  if (llvm::verifyModule(module, &out)) return invalid("the LLVM module is malformed: {}", message);
  return {};
}

Result<void> optimize(llvm::Module& module, llvm::TargetMachine& machine, std::span<const std::string> keep,
                      const OptimizeOptions& options) {
  module.setTargetTriple(machine.getTargetTriple().str());
  module.setDataLayout(machine.createDataLayout());
  STRATA_CHECK(verify(module));
  STRATA_CHECK(link_math(module, options.math));
  llvm::internalizeModule(module, [&](const llvm::GlobalValue& value) {
    return std::find(keep.begin(), keep.end(), value.getName()) != keep.end();
  });
  if (options.dump) options.dump("linked", module);
  run_pipeline(module, machine, options.level);
  if (options.dump) options.dump("optimized", module);
  return {};
}

}  // namespace strata::emitters
