// The functions of a fusion in an MLIR module.
#pragma once

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/ImplicitLocOpBuilder.h>

#include <map>

#include "hlo/hlo.h"
#include "hlo/indexing/function_partition.h"

namespace strata::emitters {

/// One array parameter of a fusion, and one array of its root.
struct FusionArguments {
  std::vector<hlo::InstructionId> inputs;  ///< the parameters that are arrays, by number
  std::vector<hlo::Shape> outputs;         ///< of the root: itself, or the elements of its tuple
};

/// The values of heroes, each with one scalar for each array of its result.
using HeroValues = std::map<hlo::InstructionId, llvm::SmallVector<mlir::Value>>;

/// Emits the functions into which function_partition.h cuts a fusion (a computation that calls nothing but scalar
/// functions), and scalar functions for the computations that it calls; then emitters call them.
class FusionFunctions {
 public:
  /// The module must outlive it. Errors are those of partition_functions, and Unsupported for what has no code.
  static Result<FusionFunctions> create(mlir::ModuleOp target, const hlo::Module& module,
                                        hlo::ComputationId computation, const indexing::PartitionOptions& options = {});

  const hlo::Module& hlo_module() const { return *module_; }
  hlo::ComputationId computation_id() const { return computation_; }
  const hlo::Computation& computation() const { return (*module_)[computation_]; }
  const indexing::FunctionPartition& partition() const { return partition_; }
  const FusionArguments& arguments() const { return arguments_; }
  mlir::ModuleOp target() const { return target_; }

  /// The values that function `number` of the partition returns at the indices, given the input tensors and the values
  /// of the heroes that it wants (partition().functions[number].injected, for each element of a tuple).
  llvm::SmallVector<mlir::Value> call(mlir::ImplicitLocOpBuilder& builder, int number, mlir::ValueRange inputs,
                                      mlir::ValueRange indices, mlir::ValueRange injected = {}) const;

  /// Those of the heroes that function `number` wants, in its order. All of them must be there.
  llvm::SmallVector<mlir::Value> injected(int number, const HeroValues& heroes) const;

  /// The elements of an operand of an instruction at an index: of a parameter, a constant, a hero whose value is given,
  /// or what a function returns. For the operands of heroes, which are functions of their own.
  Result<llvm::SmallVector<mlir::Value>> read(mlir::ImplicitLocOpBuilder& builder, hlo::InstructionId instruction,
                                              mlir::ValueRange inputs, mlir::ValueRange indices,
                                              const HeroValues& heroes = {}) const;

  /// Whether a function holds a hero, whose value the emitter computes: it has no code here.
  bool is_hero(int function) const;

  /// A function of scalars for a called computation, made when it is first asked for: (elements of all parameters) →
  /// (elements of the root, or of the arrays of its tuple). `wide` has f32 for all floats that are narrower: long sums
  /// keep their digits.
  Result<mlir::func::FuncOp> scalar_function(hlo::ComputationId called, bool wide);

 private:
  friend class FunctionEmitter;
  Result<void> declare_functions();
  Result<void> define_functions();

  mlir::ModuleOp target_;
  const hlo::Module* module_ = nullptr;
  hlo::ComputationId computation_ = 0;
  indexing::FunctionPartition partition_;
  FusionArguments arguments_;
  std::vector<hlo::InstructionId> heroes_;
  std::vector<bool> rounded_to_half_;  ///< for each instruction (rounded_values.h)
  std::vector<mlir::func::FuncOp> functions_;
  std::map<std::pair<hlo::ComputationId, bool>, mlir::func::FuncOp> scalar_functions_;
};

/// The types of an instruction's elements: one, or one an array of its tuple.
llvm::SmallVector<mlir::Type> element_types(mlir::MLIRContext* context, const hlo::Shape& shape);

/// Marks an argument of type index with the values that it takes.
void set_range(mlir::func::FuncOp function, unsigned argument, const indexing::Interval& range);

}  // namespace strata::emitters
