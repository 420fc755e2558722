#include "emitters/transforms/passes.h"

#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/ControlFlow/IR/ControlFlowOps.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>
#include <mlir/Pass/PassRegistry.h>

#include "emitters/dialect/dialect.h"

namespace strata::emitters {
namespace {

constexpr PassEntry kPasses[] = {
    {"strata-inline", "Small functions and those called once go into their callers", inline_functions},
    {"strata-simplify-indexing", "Chains of apply_indexing become one simplified map", simplify_indexing},
    {"strata-split-loops", "Loops with constraints become an interior without and edges with them", split_loops},
    {"strata-lower-loops", "strata.loop becomes scf.for", lower_loops},
    {"strata-hoist-loops", "Loops that give the same in every iteration go in front", hoist_loops},
    {"strata-vectorize", "Loads and stores over a vector variable become vectors", vectorize},
    {"strata-unroll", "Loops of few iterations disappear", unroll},
    {"strata-lower-shuffles", "shuffle_reduce becomes shuffles and calls of the combiner", lower_shuffles},
    {"strata-flatten-branches", "Branches that take longer than both of their sides become selects", flatten_branches},
    {"strata-lower-tensors", "Tensors become pointers", lower_tensors},
    {"strata-lower-indexing", "apply_indexing becomes arithmetic on integers", lower_indexing},
    {"strata-expand-floats", "Functions and conversions without instructions become calls", expand_floats},
    {"strata-to-llvm", "The rest becomes LLVM's dialect", to_llvm},
};

class LoweringPass : public mlir::PassWrapper<LoweringPass, mlir::OperationPass<mlir::ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LoweringPass)
  LoweringPass(const PassEntry& entry, const LoweringOptions& options)
      : entry_(entry), options_(options), argument_(entry.name) {
    if (options.processor == Processor::Gpu) argument_ += "-gpu";
  }
  // Pass has options, which have no copies; ours are plain.
  LoweringPass(const LoweringPass& other)
      : PassWrapper(other), entry_(other.entry_), options_(other.options_), argument_(other.argument_) {}

  llvm::StringRef getArgument() const override { return argument_; }
  llvm::StringRef getDescription() const override { return entry_.description; }
  void getDependentDialects(mlir::DialectRegistry& registry) const override { register_dialects(registry); }
  void runOnOperation() override {
    if (mlir::failed(entry_.run(getOperation(), options_))) signalPassFailure();
  }

 private:
  PassEntry entry_;
  LoweringOptions options_;
  std::string argument_;
};

}  // namespace

std::span<const PassEntry> lowering_passes() { return kPasses; }

std::unique_ptr<mlir::Pass> create_pass(const PassEntry& entry, const LoweringOptions& options) {
  return std::make_unique<LoweringPass>(entry, options);
}

void register_passes() {
  for (const PassEntry& entry : kPasses) {
    for (const Processor processor : {Processor::Cpu, Processor::Gpu}) {
      LoweringOptions options;
      options.processor = processor;
      mlir::registerPass([&entry, options] { return create_pass(entry, options); });
    }
  }
}

void register_dialects(mlir::DialectRegistry& registry) {
  registry.insert<StrataDialect, mlir::arith::ArithDialect, mlir::cf::ControlFlowDialect, mlir::complex::ComplexDialect,
                  mlir::func::FuncDialect, mlir::LLVM::LLVMDialect, mlir::math::MathDialect, mlir::scf::SCFDialect,
                  mlir::tensor::TensorDialect, mlir::vector::VectorDialect>();
}

}  // namespace strata::emitters
