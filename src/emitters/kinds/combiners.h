// What a reduction combines by: the name of its computation, a value that changes nothing, and code that knows where no
// value is there yet.
#pragma once

#include <optional>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/function_emitter.h"

namespace strata::emitters {

/// The combiner that a computation (a, b) → one value is, if it is one with a name. Of narrow floats too that are
/// converted on the way: sums are kept in a wide type.
std::optional<Combiner> named_combiner(const hlo::Module& module, hlo::ComputationId called);

/// A value that combines with any other, NaN too, to that one: in the wide type of the element type (wide_type).
/// Nothing if the combiner has none there.
std::optional<mlir::Value> neutral_value(mlir::ImplicitLocOpBuilder& builder, Combiner combiner, hlo::ElementType type);

/// How the values of one reduction are accumulated: in wide types, and, if the combiner has no neutral value, with a
/// flag before them (i1) that says whether anything is accumulated yet. A state is [flag,] value… The first array of an
/// optional combiner (hlo/optional_combiner.h) is such a flag itself.
class Accumulation {
 public:
  static Result<Accumulation> create(FusionFunctions& functions, hlo::InstructionId reduce);

  /// The accumulated arrays' types.
  const std::vector<hlo::ElementType>& types() const { return types_; }
  bool flagged() const { return flagged_; }
  /// Whether it is one commutative operator.
  bool has_name() const { return !flagged_ && !optional_; }
  size_t state_size() const { return types_.size() + (flagged_ ? 1 : 0); }
  /// (state, state) → state.
  mlir::func::FuncOp combiner() const { return flagged_ ? flagged_combiner_ : scalar_combiner_; }

  /// Of nothing.
  Values empty(mlir::ImplicitLocOpBuilder& builder) const;
  /// A state and elements of the operands, which are of types().
  Values add(mlir::ImplicitLocOpBuilder& builder, mlir::ValueRange state, mlir::ValueRange elements) const;
  /// The same for elements of the wide types.
  Values add_wide(mlir::ImplicitLocOpBuilder& builder, mlir::ValueRange state, mlir::ValueRange elements) const;
  Values combine(mlir::ImplicitLocOpBuilder& builder, mlir::ValueRange a, mlir::ValueRange b) const;
  /// The reduction's values, of types(): its initial values, of types(), combined with the state.
  Values result(mlir::ImplicitLocOpBuilder& builder, mlir::ValueRange initial, mlir::ValueRange state) const;

 private:
  void make_flagged_combiner(mlir::ModuleOp target);

  std::vector<hlo::ElementType> types_;
  bool flagged_ = false, optional_ = false;
  Combiner name_ = Combiner::Custom;
  mlir::func::FuncOp scalar_combiner_, flagged_combiner_;
};

}  // namespace strata::emitters
