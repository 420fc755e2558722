#include "emitters/emit.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/raw_ostream.h>
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/IR/Verifier.h>

#include <mutex>

#include "emitters/backend/cpu_kernel.h"
#include "emitters/backend/ptx.h"
#include "emitters/kinds/plan.h"
#include "emitters/known_functions.h"
#include "emitters/math/math_library.h"
#include "emitters/transforms/pipeline.h"

namespace strata::emitters {

struct EmittedKernel::Body {
  explicit Body(const EmitOptions& with) : options(with), context(mlir::MLIRContext::Threading::DISABLED) {
    mlir::DialectRegistry registry;
    register_dialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  EmitOptions options;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::mutex compiling;
  std::optional<CpuKernel> compiled;
};

namespace {

std::string text_of(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module.print(out);
  return text;
}

struct Lowered {
  std::unique_ptr<llvm::LLVMContext> context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> module;
};

Result<Lowered> lowered(EmittedKernel::Body& body, Target target) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = body.module->clone();
  PassObserver observer;
  if (body.options.observer) {
    observer = [&](std::string_view pass, mlir::ModuleOp module) {
      body.options.observer(std::string(pass), text_of(module));
    };
  }
  STRATA_CHECK(lower_to_llvm(*copy, {.target = target}, observer));
  Lowered result;
  STRATA_TRY(result.module, translate(*copy, *result.context));
  return result;
}

}  // namespace

Result<std::string> EmittedKernel::text(Form form) const {
  if (form == Form::Mlir) return text_of(*body_->module);
  STRATA_TRY(const Lowered code, lowered(*body_, Target::Gpu));
  if (form == Form::Llvm) {
    std::string text;
    llvm::raw_string_ostream out(text);
    code.module->print(out, nullptr);
    return text;
  }
  PtxOptions options;
  options.arch = body_->options.device.arch;
  options.kernels = {{name_, decision_.threads, decision_.blocks}};
  options.optimize.math = math_bitcode(MathTarget::Nvptx);
  return to_ptx(*code.module, options);
}

Result<void> EmittedKernel::run_on_cpu(std::span<const void* const> inputs, std::span<void* const> outputs) const {
  if (decision_.blocks == 0) return {};
  CpuKernel kernel;
  {
    const std::lock_guard lock(body_->compiling);
    if (!body_->compiled) {
      STRATA_TRY(const Lowered code, lowered(*body_, Target::Cpu));
      OptimizeOptions options;
      options.math = math_bitcode(MathTarget::X86);
      STRATA_TRY(const std::vector<CpuKernel> kernels, compile_for_cpu(*code.module, std::span(&name_, 1), options));
      body_->compiled = kernels[0];
    }
    kernel = *body_->compiled;
  }
  std::vector<void*> buffers;
  for (const void* input : inputs) buffers.push_back(const_cast<void*>(input));
  buffers.insert(buffers.end(), outputs.begin(), outputs.end());
  return kernel.run(buffers, decision_.blocks, decision_.threads, static_cast<size_t>(decision_.shared_bytes));
}

Result<EmittedKernel> emit_fusion(const hlo::Module& module, hlo::ComputationId computation, const std::string& name,
                                  const EmitOptions& options) {
  const std::optional<hlo::Module> known = with_known_functions(module, computation);
  STRATA_TRY(const Plan plan, choose_plan({known ? *known : module, computation, options.device}, options.only));
  EmittedKernel kernel;
  kernel.name_ = name;
  kernel.decision_ = plan.decision;
  kernel.body_ = std::make_shared<EmittedKernel::Body>(options);
  kernel.body_->module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&kernel.body_->context));
  const hlo::Computation& from = module[computation];
  for (const hlo::InstructionId id : from.parameters) {
    if (from[id].shape.is_array()) kernel.inputs_.push_back(from[id].shape);
  }
  const hlo::Shape& root = from.root_instruction().shape;
  kernel.outputs_ = root.is_tuple() ? root.elements : std::vector<hlo::Shape>{root};
  STRATA_CHECK(plan.emit(*kernel.body_->module, name));
  if (mlir::failed(mlir::verify(*kernel.body_->module))) {
    return unsupported("the {} emitter made IR that does not verify for {}: a fault of Strata", plan.decision.emitter,
                       from.name);
  }
  kernel.decision_.shared_bytes = shared_bytes(*kernel.body_->module);
  return kernel;
}

}  // namespace strata::emitters
