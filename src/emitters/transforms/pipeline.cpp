#include "emitters/transforms/pipeline.h"

#include <llvm/IR/IRBuilder.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/IR/Diagnostics.h>
#include <mlir/IR/Verifier.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h>
#include <mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h>
#include <mlir/Target/LLVMIR/Export.h>
#include <mlir/Transforms/Passes.h>

#include "emitters/transforms/atomics.h"

namespace strata::emitters {
namespace {

/// What diagnostics say while it lives.
class Diagnostics {
 public:
  explicit Diagnostics(mlir::MLIRContext* context)
      : handler_(context, [this](mlir::Diagnostic& one) {
          if (one.getSeverity() != mlir::DiagnosticSeverity::Error) return;
          if (!text_.empty()) text_ += "; ";
          text_ += one.str();
        }) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  mlir::ScopedDiagnosticHandler handler_;
};

/// Constants folded, equal operations merged, dead ones gone.
constexpr PassFunction kClearUp = nullptr;
// Loops make new index computations, and shuffles and shared memory too: so some passes run more than once.
constexpr PassFunction kSteps[] = {
    kClearUp,         inline_functions, kClearUp,          simplify_indexing, kClearUp,          split_loops,
    lower_loops,      kClearUp,         simplify_indexing, kClearUp,          hoist_loops,       vectorize,
    unroll,           kClearUp,         lower_shuffles,    inline_functions,  simplify_indexing, kClearUp,
    flatten_branches, kClearUp,         lower_tensors,     simplify_indexing, kClearUp,          lower_indexing,
    kClearUp,         expand_floats,    kClearUp,          to_llvm,
};

/// Without the prefix that tells them from MLIR's own in strata-opt.
std::string_view name_of(PassFunction run) {
  constexpr std::string_view kPrefix = "strata-";
  for (const PassEntry& entry : lowering_passes()) {
    std::string_view name = entry.name;
    if (entry.run == run) return name.substr(name.starts_with(kPrefix) ? kPrefix.size() : 0);
  }
  return "clear-up";
}

void add_clear_up(mlir::PassManager& manager) {
  manager.enableVerifier(false);
  manager.addPass(mlir::createCSEPass());
  manager.addPass(mlir::createCanonicalizerPass());
  manager.addPass(mlir::createCSEPass());
}

void rename_kernels(mlir::ModuleOp module) {
  for (auto function : llvm::to_vector(module.getOps<mlir::func::FuncOp>())) {
    if (function->hasAttr("strata.kernel")) function.setName((function.getName() + "_block").str());
  }
}

}  // namespace

Result<void> lower_to_llvm(mlir::ModuleOp module, const LoweringOptions& options, const PassObserver& observer) {
  mlir::DialectRegistry registry;
  register_dialects(registry);
  module.getContext()->appendDialectRegistry(registry);
  module.getContext()->loadAllAvailableDialects();
  const Diagnostics diagnostics(module.getContext());
  rename_kernels(module);
  // It collects the patterns of all dialects once for all of its runs.
  mlir::PassManager clear_up(module.getContext());
  add_clear_up(clear_up);
  for (const PassFunction run : kSteps) {
    const bool failed = mlir::failed(run ? run(module, options) : clear_up.run(module));
    // MLIR's own passes leave IR that verifies as it was.
    if (failed || (run != kClearUp && mlir::failed(mlir::verify(module)))) {
      return unsupported("{}: {}", name_of(run), diagnostics.text());
    }
    if (observer) observer(name_of(run), module);
  }
  return {};
}

namespace {

/// Calls of kVectorSum become what they stand for.
void form_vector_atomics(llvm::Module& module) {
  for (llvm::Function& function : llvm::make_early_inc_range(module)) {
    if (!function.getName().starts_with(kVectorSum)) continue;
    for (llvm::User* user : llvm::make_early_inc_range(function.users())) {
      auto* call = llvm::cast<llvm::CallInst>(user);
      llvm::Value* value = call->getArgOperand(1);
      const llvm::Align align(module.getDataLayout().getTypeStoreSize(value->getType()));
      llvm::IRBuilder<> builder(call);
      builder.CreateAtomicRMW(llvm::AtomicRMWInst::FAdd, call->getArgOperand(0), value, align,
                              llvm::AtomicOrdering::Monotonic, module.getContext().getOrInsertSyncScopeID("device"));
      call->eraseFromParent();
    }
    function.eraseFromParent();
  }
}

}  // namespace

Result<std::unique_ptr<llvm::Module>> translate(mlir::ModuleOp module, llvm::LLVMContext& context) {
  mlir::registerBuiltinDialectTranslation(*module.getContext());
  mlir::registerLLVMDialectTranslation(*module.getContext());
  const Diagnostics diagnostics(module.getContext());
  std::unique_ptr<llvm::Module> translated = mlir::translateModuleToLLVMIR(module, context);
  if (!translated) return unsupported("no LLVM IR: {}", diagnostics.text());
  form_vector_atomics(*translated);
  return translated;
}

std::vector<LoweredKernel> lowered_kernels(mlir::ModuleOp module) {
  std::vector<LoweredKernel> kernels;
  for (auto function : module.getOps<mlir::LLVM::LLVMFuncOp>()) {
    if (!function->hasAttr("strata.kernel")) continue;
    const auto bytes = function->getAttrOfType<mlir::IntegerAttr>("strata.shared_bytes");
    kernels.push_back({function.getName().str(), bytes ? bytes.getInt() : 0});
  }
  return kernels;
}

}  // namespace strata::emitters
