// The body of one function of a fusion.
#pragma once

#include "emitters/elemental/fusion_functions.h"
#include "emitters/elemental/index_code.h"
#include "hlo/indexing/operand_maps.h"

namespace strata::emitters {

using Values = llvm::SmallVector<mlir::Value>;

/// Emits the instructions of one function, each where it is first needed: within the branch that guards it. Members are
/// shared by function_emitter.cpp (elements and indices), guarded_operators.cpp (pad, concatenate,
/// dynamic-update-slice) and combining_operators.cpp (reductions, contractions, windows, scatter).
class FunctionEmitter {
 public:
  FunctionEmitter(FusionFunctions& fusion, int number, mlir::ImplicitLocOpBuilder& builder, mlir::ValueRange inputs,
                  mlir::ValueRange indices, mlir::ValueRange injected);

  /// What the function returns.
  Result<Values> results();

 private:
  /// The elements of an instruction of this function at its index; of each array if it has a tuple.
  Result<Values> value(hlo::InstructionId id);
  Result<Values> compute(hlo::InstructionId id);
  /// The element that `instruction` reads of an operand by `map`, which is over its own index; `ranges` are values of
  /// the map's range variables.
  Result<mlir::Value> read(hlo::InstructionId instruction, const indexing::Read& read, const indexing::IndexingMap& map,
                           mlir::ValueRange ranges = {});
  /// Operand `number` where it is read by one map without range variables.
  Result<mlir::Value> read(hlo::InstructionId instruction, int number);
  /// All operands so.
  Result<Values> read_all(hlo::InstructionId instruction);
  /// An element of an instruction of this fusion (not of a tuple's holder) at `index`, a map from the function's index
  /// (and `ranges`).
  Result<mlir::Value> element(hlo::InstructionId id, int tuple_element, const indexing::IndexingMap& index,
                              mlir::ValueRange ranges);
  /// The values of a map's variables: the function's index, `ranges`, and runtime variables as they are read.
  Result<MapValues> variables(const indexing::IndexingMap& map, mlir::ValueRange ranges);
  Result<mlir::Value> runtime_value(const indexing::IndexingMap& map, size_t number, mlir::ValueRange ranges);
  /// The instruction's index followed by a map over it, simplified.
  indexing::IndexingMap composed(hlo::InstructionId instruction, const indexing::IndexingMap& map) const;
  std::pair<hlo::InstructionId, int> holder(hlo::InstructionId id, int element) const;

  /// `then`, where the map's own constraints hold (those of the instruction's index do already), else `otherwise`.
  using Branch = std::function<Result<mlir::Value>()>;
  Result<mlir::Value> guarded(hlo::InstructionId instruction, const indexing::IndexingMap& map, mlir::Type type,
                              const Branch& then, const Branch& otherwise);
  Result<mlir::Value> pad(hlo::InstructionId id);
  Result<mlir::Value> concatenate(hlo::InstructionId id);
  Result<mlir::Value> dynamic_update_slice(hlo::InstructionId id);

  /// A loop over the range variables of a map over the instruction's index: `body` has their values and what is
  /// accumulated so far, and gives what comes then. Points outside of the map's constraints are skipped.
  using Step = std::function<Result<Values>(mlir::ValueRange ranges, mlir::ValueRange accumulated)>;
  Result<Values> accumulate(hlo::InstructionId instruction, const indexing::IndexingMap& map, Values initial,
                            const Step& step);
  Result<Values> fold_by_function(hlo::InstructionId id);
  Result<mlir::Value> contraction(hlo::InstructionId id);
  Result<Values> scatter(hlo::InstructionId id);
  Result<mlir::Value> get_constant(hlo::InstructionId id, const indexing::IndexingMap& index, mlir::ValueRange ranges);

  /// What is known within a branch and the branches around it.
  struct Scope {
    std::map<hlo::InstructionId, Values> values;
    std::vector<std::pair<indexing::RuntimeVariable, mlir::Value>> runtime;
  };
  tl::unexpected<Error> no_code(hlo::InstructionId id) const;
  Result<std::vector<indexing::Read>> reads_of(hlo::InstructionId id) const;

  FusionFunctions& fusion_;
  const int number_;
  const hlo::Computation& computation_;
  mlir::ImplicitLocOpBuilder& builder_;
  mlir::ValueRange inputs_, indices_, injected_;
  std::vector<Scope> scopes_{1};
};

}  // namespace strata::emitters
