// What is left becomes LLVM's dialect. Indices that are still indices have 64 bits.
#include <mlir/Conversion/ArithToLLVM/ArithToLLVM.h>
#include <mlir/Conversion/ComplexToLLVM/ComplexToLLVM.h>
#include <mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h>
#include <mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h>
#include <mlir/Conversion/LLVMCommon/ConversionTarget.h>
#include <mlir/Conversion/LLVMCommon/TypeConverter.h>
#include <mlir/Conversion/MathToLLVM/MathToLLVM.h>
#include <mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h>
#include <mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h>
#include <mlir/Dialect/ControlFlow/IR/ControlFlowOps.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Transforms/DialectConversion.h>

#include "emitters/dialect/dialect.h"
#include "emitters/transforms/passes.h"

namespace strata::emitters {
namespace {

namespace LLVM = mlir::LLVM;

/// Functions of at most so many operations are worth inlining wherever they are called.
constexpr int64_t kSmallFunction = 40;

void lower_pure_calls(mlir::ModuleOp module) {
  module.walk([](PureCallOp call) {
    mlir::OpBuilder builder(call);
    auto plain =
        builder.create<mlir::func::CallOp>(call.getLoc(), call.getCallee(), call.getResultTypes(), call.getOperands());
    call.replaceAllUsesWith(plain.getResults());
    call.erase();
  });
}

mlir::LogicalResult lower_structure(mlir::ModuleOp module) {
  mlir::RewritePatternSet patterns(module.getContext());
  mlir::populateSCFToControlFlowConversionPatterns(patterns);
  mlir::ConversionTarget target(*module.getContext());
  target.addIllegalDialect<mlir::scf::SCFDialect>();
  target.markUnknownOpDynamicallyLegal([](mlir::Operation*) { return true; });
  return mlir::applyPartialConversion(module, target, std::move(patterns));
}

mlir::LogicalResult lower_operations(mlir::ModuleOp module) {
  mlir::MLIRContext* context = module.getContext();
  mlir::LowerToLLVMOptions options(context);
  options.overrideIndexBitwidth(64);
  mlir::LLVMTypeConverter types(context, options);
  mlir::RewritePatternSet patterns(context);
  mlir::arith::populateArithToLLVMConversionPatterns(types, patterns);
  mlir::cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  mlir::populateComplexToLLVMConversionPatterns(types, patterns);
  mlir::populateFuncToLLVMConversionPatterns(types, patterns);
  mlir::populateMathToLLVMConversionPatterns(types, patterns);
  mlir::populateVectorToLLVMConversionPatterns(types, patterns);
  mlir::LLVMConversionTarget target(*context);
  target.addLegalOp<mlir::ModuleOp>();
  return mlir::applyFullConversion(module, target, std::move(patterns));
}

/// Operations of a function when all that it calls is part of it: one that calls the one before twice, and so on, has
/// twice as many each time. Saturates beyond kSmallFunction.
class InlinedSize {
 public:
  explicit InlinedSize(mlir::ModuleOp module) : module_(module) {}

  int64_t of(LLVM::LLVMFuncOp function) {
    const auto [entry, fresh] = sizes_.try_emplace(function.getName(), kSmallFunction + 1);  // where it calls itself
    if (!fresh || function.isExternal()) return function.isExternal() ? 0 : entry->second;
    int64_t size = 0;
    function.walk([&](mlir::Operation* op) {
      ++size;
      auto call = llvm::dyn_cast<LLVM::CallOp>(op);
      if (!call || !call.getCallee() || size > kSmallFunction) return;
      if (auto callee = module_.lookupSymbol<LLVM::LLVMFuncOp>(*call.getCallee())) size += of(callee);
    });
    size = std::min(size, kSmallFunction + 1);
    sizes_[function.getName()] = size;
    return size;
  }

 private:
  mlir::ModuleOp module_;
  llvm::StringMap<int64_t> sizes_;
};

void set_linkage(mlir::ModuleOp module) {
  mlir::Builder builder(module.getContext());
  InlinedSize inlined(module);
  module.walk([&](LLVM::LLVMFuncOp function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      for (const char* name : {"strata.input", "strata.output", "strata.alias", "strata.range"}) {
        function.removeArgAttr(i, name);
      }
    }
    const bool kernel = function->hasAttr("strata.kernel");
    function->removeAttr("sym_visibility");
    llvm::SmallVector<mlir::Attribute> attributes{builder.getStringAttr("nounwind")};
    if (function.isExternal()) {
      // What others must come to as well may not be moved under a condition; the rest computes from its arguments.
      const llvm::StringRef name = function.getName();
      if (name == "strata_barrier" || name.starts_with("strata_shuffle") || name.starts_with("strata_warp_product")) {
        attributes.push_back(builder.getStringAttr("convergent"));
      }
    } else if (!kernel) {
      function.setLinkage(LLVM::Linkage::Internal);
      if (inlined.of(function) <= kSmallFunction) attributes.push_back(builder.getStringAttr("alwaysinline"));
    }
    function.setPassthroughAttr(builder.getArrayAttr(attributes));
  });
}

void allow_contraction(mlir::ModuleOp module) {
  const auto flags = LLVM::FastmathFlagsAttr::get(module.getContext(), LLVM::FastmathFlags::contract);
  module.walk([&](mlir::Operation* op) {
    if (llvm::isa<LLVM::FAddOp, LLVM::FSubOp, LLVM::FMulOp>(op)) op->setAttr("fastmathFlags", flags);
  });
}

}  // namespace

mlir::LogicalResult to_llvm(mlir::ModuleOp module, const LoweringOptions& options) {
  lower_pure_calls(module);
  if (mlir::failed(lower_structure(module)) || mlir::failed(lower_operations(module))) return mlir::failure();
  set_linkage(module);
  if (options.allow_fma) allow_contraction(module);
  return mlir::success();
}

}  // namespace strata::emitters
