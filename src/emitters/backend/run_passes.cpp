#include "emitters/backend/run_passes.h"

namespace strata::emitters {

void run_passes(llvm::Module& module, llvm::TargetMachine& machine,
                const std::function<void(llvm::PassBuilder&, llvm::ModulePassManager&)>& add,
                llvm::PassInstrumentationCallbacks* callbacks) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, llvm::PipelineTuningOptions(), std::nullopt, callbacks);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  add(builder, passes);
  passes.run(module, modules);
}

}  // namespace strata::emitters
