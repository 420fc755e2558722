// The emitters' way in: fusions of HLO to kernels. No header of MLIR or LLVM is needed to use it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "block/regions.h"
#include "emitters/kinds/decision.h"
#include "emitters/library/calls.h"
#include "hlo/hlo.h"
#include "machine/target.h"
#include "support/error.h"

namespace mlir {
class ModuleOp;
namespace func {
class FuncOp;
}
}  // namespace mlir

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace strata::emitters {

/// The kinds of text that kernels can be printed as.
enum class Form { Mlir, Llvm, Ptx };

struct EmitOptions {
  Target target = default_target();  ///< what kernels are planned for
  /// Only the emitter of this name ("loop", "transpose", …) may take fusions; all if empty.
  std::string only;
  /// The arrays of parameters that dynamic-update-slices change may be written over: none is copied before.
  bool overwrites = false;
  Solvers solvers = Solvers::None;  ///< who computes factors and solves of matrices
  /// Called after each pass with its name and the module's text; for `--dump-after`.
  std::function<void(const std::string& pass, const std::string& text)> observer;
};

/// An output that is written over an input: both are one array.
struct Overwrite {
  int output = 0, input = 0;  ///< their numbers
  friend bool operator==(const Overwrite&, const Overwrite&) = default;
};

/// The kernels made of a fusion: one, most often. The arguments of each are the arrays of the computation's parameters,
/// those of its root, and the temporaries of the decision, in this order.
class EmittedFusion {
 public:
  const std::string& name() const { return name_; }
  /// The fusion whose kernels these are: another one where both are equal but for names (emit_like).
  const std::string& module_name() const { return module_name_; }
  /// The kernels' names, in the order of decision().launches: the module's, or the module's and the launch's.
  std::vector<std::string> kernel_names() const;
  const Decision& decision() const { return decision_; }
  const std::vector<hlo::Shape>& inputs() const { return inputs_; }
  const std::vector<hlo::Shape>& outputs() const { return outputs_; }

  /// All kernels as MLIR before any pass, LLVM IR after all of them, or PTX for the device.
  Result<std::string> text(Form form) const;
  /// The only kernel as PTX that orders nothing: who calls its block function waits for the kernel before.
  Result<std::string> block_ptx() const;
  /// The same for this machine's processor: assembly text of one thread of its block function (backend/cpu_code.h).
  Result<std::string> block_assembly() const;

  /// The block functions of all kernels (docs/emitters-backend.md), for the device or this machine's processor. Not by
  /// two threads at once, nor beside text().
  Result<std::unique_ptr<llvm::Module>> block_module(llvm::LLVMContext& context, bool on_gpu) const;

  /// What the blocks of each kernel read and write (block_regions.h); arguments are inputs, outputs, temporaries.
  Result<std::vector<std::vector<AccessRegion>>> regions() const;

  /// The outputs that the kernels may write over inputs (overwrites.h), each pair by itself.
  Result<std::vector<Overwrite>> possible_overwrites() const;
  /// Makes kernels that do so, of this fusion and of all that share its kernels: they read these inputs where the
  /// outputs lie, which hold copies of them before (Decision::preparations) or are the same arrays. `overwrites` are
  /// possible, no output and no input twice. Before the code is asked for.
  void write_over(const std::vector<Overwrite>& overwrites);

  /// Runs them on this machine's processor: the same IR, compiled for it. All point to arrays in the order in which
  /// their shapes say that elements lie in memory (hlo::memory_strides), each aligned to 16 bytes; `outputs` are
  /// outputs, then temporaries, as the decision's preparations have left them. Compiles at the first call.
  Result<void> run_on_cpu(std::span<const void* const> inputs, std::span<void* const> outputs) const;

  struct Body;  ///< the MLIR module
 private:
  Result<std::string> ptx(bool overlap) const;
  /// The functions of the kernels in a module, whose names have the suffix.
  std::vector<mlir::func::FuncOp> functions_in(mlir::ModuleOp module, const char* suffix) const;
  /// Of kernels whose functions have their names and the suffix.
  std::vector<std::vector<AccessRegion>> regions_in(mlir::ModuleOp module, const char* suffix) const;
  friend Result<EmittedFusion> emit_fusion(const hlo::Module&, hlo::ComputationId, const std::string&,
                                           const EmitOptions&);
  friend Result<EmittedFusion> emit_like(const EmittedFusion&, const hlo::Module&, hlo::ComputationId,
                                         const std::string&);
  std::string name_, module_name_;
  Decision decision_;
  std::vector<hlo::Shape> inputs_, outputs_;
  std::shared_ptr<Body> body_;
};

/// The kernels of a computation that calls nothing but scalar functions (hlo/inline_calls.h). The first emitter that
/// takes it writes them. Errors: Unsupported, with the place of what has no code or the reasons of all emitters.
Result<EmittedFusion> emit_fusion(const hlo::Module& module, hlo::ComputationId computation, const std::string& name,
                                  const EmitOptions& options = {});

/// The kernels of `like` for a computation that is equal but for names (hlo::structure_key), so that both are compiled
/// once. The decision is of this one's instructions. Errors: as above.
Result<EmittedFusion> emit_like(const EmittedFusion& like, const hlo::Module& module, hlo::ComputationId computation,
                                const std::string& name);

}  // namespace strata::emitters
