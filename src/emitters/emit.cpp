#include "emitters/emit.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/raw_ostream.h>
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/IR/Verifier.h>

#include <algorithm>
#include <mutex>

#include "emitters/backend/cpu_code.h"
#include "emitters/backend/cpu_kernel.h"
#include "emitters/backend/ptx.h"
#include "emitters/block_regions.h"
#include "emitters/elemental/known_functions.h"
#include "emitters/kinds/plan.h"
#include "emitters/math/math_library.h"
#include "emitters/overwrites.h"
#include "emitters/transforms/pipeline.h"

namespace strata::emitters {

struct EmittedFusion::Body {
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
  std::vector<CpuKernel> compiled;  ///< of all launches, once any is
  std::optional<std::vector<std::vector<AccessRegion>>>
      regions;  ///< once the code has been lowered, or they are asked for
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

/// `simplified` sees the code once, when calls are inlined and indices simplified.
Result<Lowered> lowered(EmittedFusion::Body& body, Processor processor,
                        const std::function<void(mlir::ModuleOp)>& simplified = {}) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = body.module->clone();
  bool seen = !simplified;
  const PassObserver observer = [&](std::string_view pass, mlir::ModuleOp module) {
    if (body.options.observer) body.options.observer(std::string(pass), text_of(module));
    if (seen || pass != "simplify-indexing") return;
    seen = true;
    simplified(module);
  };
  STRATA_CHECK(lower_to_llvm(*copy, {.processor = processor}, observer));
  Lowered result;
  STRATA_TRY(result.module, translate(*copy, *result.context));
  return result;
}

/// Calls inlined, indices simplified: how the code is looked at.
Result<void> simplify_code(mlir::ModuleOp module, const std::string& name) {
  if (mlir::succeeded(inline_functions(module, {})) && mlir::succeeded(simplify_indexing(module, {}))) return {};
  return unsupported("the code of {} cannot be simplified: a fault of Strata", name);
}

/// The plan of a fusion with these options.
Result<Plan> plan_of(Fusion fusion, const EmitOptions& options) {
  fusion.overwrites = options.overwrites;
  return choose_plan(fusion, options.only);
}

}  // namespace

Result<std::unique_ptr<llvm::Module>> EmittedFusion::block_module(llvm::LLVMContext& context, bool on_gpu) const {
  mlir::OwningOpRef<mlir::ModuleOp> copy = body_->module->clone();
  STRATA_CHECK(lower_to_llvm(*copy, {.processor = on_gpu ? Processor::Gpu : Processor::Cpu}));
  return translate(*copy, context);
}

std::vector<std::string> EmittedFusion::kernel_names() const {
  std::vector<std::string> names;
  for (const Launch& launch : decision_.launches) {
    names.push_back(launch.name.empty() ? module_name_ : module_name_ + "_" + launch.name);
  }
  return names;
}

Result<std::string> EmittedFusion::text(Form form) const {
  if (form == Form::Mlir) return text_of(*body_->module);
  if (form == Form::Llvm) {
    STRATA_TRY(const Lowered code, lowered(*body_, Processor::Gpu));
    std::string text;
    llvm::raw_string_ostream out(text);
    code.module->print(out, nullptr);
    return text;
  }
  return ptx(body_->options.target.overlapping_kernels);
}

Result<std::string> EmittedFusion::ptx(bool overlap) const {
  // Where they are asked for later, they need not be found in code that is simplified for them alone.
  const auto simplified = [&](mlir::ModuleOp module) {
    const std::lock_guard lock(body_->compiling);
    if (!body_->regions) body_->regions = regions_in(module, "_block");
  };
  STRATA_TRY(const Lowered code, lowered(*body_, Processor::Gpu, simplified));
  PtxOptions options;
  options.arch = body_->options.target.name;
  options.overlap = overlap;
  const std::vector<std::string> names = kernel_names();
  for (size_t i = 0; i < names.size(); ++i) {
    const Launch& launch = decision_.launches[i];
    options.kernels.push_back({names[i], launch.threads, launch.blocks, launch.min_blocks});
  }
  options.optimize.math = math_bitcode(MathTarget::Nvptx);
  return to_ptx(*code.module, options);
}

Result<std::string> EmittedFusion::block_ptx() const { return ptx(false); }

Result<std::string> EmittedFusion::block_assembly() const {
  STRATA_TRY(const Lowered code, lowered(*body_, Processor::Cpu));
  OptimizeOptions options;
  options.math = math_bitcode(MathTarget::X86);
  return make_assembly(*code.module, kernel_names().front(), options);
}

std::vector<std::vector<AccessRegion>> EmittedFusion::regions_in(mlir::ModuleOp module, const char* suffix) const {
  std::vector<hlo::Shape> arguments = inputs_;
  for (const auto* shapes : {&outputs_, &decision_.temporaries}) {
    arguments.insert(arguments.end(), shapes->begin(), shapes->end());
  }
  const std::vector<mlir::func::FuncOp> kernels = functions_in(module, suffix);
  std::vector<std::vector<AccessRegion>> regions;
  for (size_t i = 0; i < kernels.size(); ++i)
    regions.push_back(block_regions(kernels[i], decision_.launches[i], arguments));
  return regions;
}

std::vector<mlir::func::FuncOp> EmittedFusion::functions_in(mlir::ModuleOp module, const char* suffix) const {
  std::vector<mlir::func::FuncOp> kernels;
  for (const std::string& name : kernel_names())
    kernels.push_back(module.lookupSymbol<mlir::func::FuncOp>(name + suffix));
  return kernels;
}

Result<std::vector<Overwrite>> EmittedFusion::possible_overwrites() const {
  const std::lock_guard lock(body_->compiling);
  mlir::OwningOpRef<mlir::ModuleOp> copy = body_->module->clone();
  STRATA_CHECK(simplify_code(*copy, name_));
  std::vector<Overwrite> possible =
      emitters::possible_overwrites(functions_in(*copy, ""), decision_.launches, inputs_.size(), outputs_.size());
  // What is prepared is written before the kernels read anything.
  for (const Preparation& one : decision_.preparations)
    std::erase_if(possible, [&](const Overwrite& pair) { return !one.temporary && pair.output == one.output; });
  return possible;
}

void EmittedFusion::write_over(const std::vector<Overwrite>& overwrites) {
  for (mlir::func::FuncOp kernel : functions_in(*body_->module, "")) {
    mlir::Builder builder(kernel.getContext());
    for (const Overwrite& one : overwrites) {
      kernel.setArgAttr(static_cast<unsigned>(inputs_.size()) + static_cast<unsigned>(one.output), "strata.alias",
                        builder.getI64IntegerAttr(one.input));
    }
  }
  for (const Overwrite& one : overwrites)
    decision_.preparations.push_back({Preparation::Kind::Copy, one.output, false, one.input, {}});
}

Result<std::vector<std::vector<AccessRegion>>> EmittedFusion::regions() const {
  const std::lock_guard lock(body_->compiling);
  if (body_->regions) return *body_->regions;
  mlir::OwningOpRef<mlir::ModuleOp> copy = body_->module->clone();
  STRATA_CHECK(simplify_code(*copy, name_));
  body_->regions = regions_in(*copy, "");
  return *body_->regions;
}

Result<void> EmittedFusion::run_on_cpu(std::span<const void* const> inputs, std::span<void* const> outputs) const {
  if (std::ranges::all_of(decision_.launches, [](const Launch& launch) { return launch.blocks == 0; })) return {};
  {
    const std::lock_guard lock(body_->compiling);
    if (body_->compiled.empty()) {
      STRATA_TRY(const Lowered code, lowered(*body_, Processor::Cpu));
      OptimizeOptions options;
      options.math = math_bitcode(MathTarget::X86);
      STRATA_TRY(body_->compiled, compile_for_cpu(*code.module, kernel_names(), options));
    }
  }
  std::vector<void*> buffers;
  for (const void* input : inputs) buffers.push_back(const_cast<void*>(input));
  buffers.insert(buffers.end(), outputs.begin(), outputs.end());
  for (size_t i = 0; i < decision_.launches.size(); ++i) {
    const Launch& launch = decision_.launches[i];
    if (launch.blocks == 0) continue;
    STRATA_CHECK(
        body_->compiled[i].run(buffers, launch.blocks, launch.threads, static_cast<size_t>(launch.shared_bytes)));
  }
  return {};
}

Result<EmittedFusion> emit_fusion(const hlo::Module& module, hlo::ComputationId computation, const std::string& name,
                                  const EmitOptions& options) {
  const std::optional<hlo::Module> known = with_known_functions(module, computation);
  STRATA_TRY(const Plan plan, plan_of({known ? *known : module, computation, options.target}, options));
  EmittedFusion fusion;
  fusion.name_ = fusion.module_name_ = name;
  fusion.decision_ = plan.decision;
  fusion.body_ = std::make_shared<EmittedFusion::Body>(options);
  fusion.body_->module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&fusion.body_->context));
  const hlo::Computation& from = module[computation];
  for (const hlo::InstructionId id : from.parameters) {
    if (from[id].shape.is_array()) fusion.inputs_.push_back(from[id].shape);
  }
  const hlo::Shape& root = from.root_instruction().shape;
  fusion.outputs_ = root.is_tuple() ? root.elements.list() : std::vector<hlo::Shape>{root};
  STRATA_CHECK(plan.emit(*fusion.body_->module, name));
  if (mlir::failed(mlir::verify(*fusion.body_->module))) {
    return unsupported("the {} emitter made IR that does not verify for {}: a fault of Strata", plan.decision.emitter,
                       from.name);
  }
  const std::vector<std::string> names = fusion.kernel_names();
  for (size_t i = 0; i < names.size(); ++i) {
    auto function = fusion.body_->module->lookupSymbol<mlir::func::FuncOp>(names[i]);
    assert(function && "the plan has written all kernels");
    fusion.decision_.launches[i].shared_bytes = shared_bytes(function);
  }
  return fusion;
}

Result<EmittedFusion> emit_like(const EmittedFusion& like, const hlo::Module& module, hlo::ComputationId computation,
                                const std::string& name) {
  const EmitOptions& options = like.body_->options;
  const std::optional<hlo::Module> known = with_known_functions(module, computation);
  STRATA_TRY(const Plan plan, plan_of({known ? *known : module, computation, options.target}, options));
  EmittedFusion fusion = like;
  fusion.name_ = name;
  fusion.decision_ = plan.decision;
  assert(plan.decision.launches.size() == like.decision_.launches.size() && "equal computations have equal plans");
  for (size_t i = 0; i < fusion.decision_.launches.size(); ++i)
    fusion.decision_.launches[i].shared_bytes = like.decision_.launches[i].shared_bytes;
  return fusion;
}

}  // namespace strata::emitters
