// The function that is a kernel, while an emitter writes it.
#pragma once

#include "emitters/elemental/function_emitter.h"
#include "emitters/kinds/decision.h"

namespace strata::emitters {

/// @name(inputs…, outputs…, temporaries…, block, thread) → outputs and temporaries. The builder stands in its body;
/// finish() ends it.
class Kernel {
 public:
  /// Kernel number `launch` of the fusion `name`, which writes all temporaries but those of the numbers `only_read`.
  Kernel(const FusionFunctions& functions, const std::string& name, const Decision& decision, size_t launch = 0,
         const std::vector<size_t>& only_read = {});
  /// A kernel of other outputs than the functions have results.
  Kernel(const FusionFunctions& functions, const std::string& name, const Decision& decision, size_t launch,
         const std::vector<size_t>& only_read, const std::vector<hlo::Shape>& outputs);

  mlir::ImplicitLocOpBuilder& builder() { return builder_; }
  mlir::func::FuncOp function() { return function_; }
  mlir::ValueRange inputs() const { return arguments_.take_front(input_count_); }
  mlir::ValueRange outputs() const { return arguments_.slice(input_count_, output_count_); }
  mlir::ValueRange temporaries() const { return arguments_.drop_front(input_count_ + output_count_).drop_back(2); }
  mlir::Value block() const { return arguments_[arguments_.size() - 2]; }
  mlir::Value thread() const { return arguments_.back(); }
  /// {block, thread}: the dimensions of thread maps.
  Values place() const { return {block(), thread()}; }

  /// The outputs as they are at the end, and the temporaries where the kernel writes some.
  void finish(mlir::ValueRange outputs, mlir::ValueRange temporaries = {});

 private:
  size_t input_count_, output_count_;
  mlir::ImplicitLocOpBuilder builder_;
  mlir::func::FuncOp function_;
  mlir::ValueRange arguments_;
};

/// Where an output's elements come from.
struct OutputValue {
  int function = 0;               ///< of the partition
  int position = 0;               ///< among all scalars that the function returns
  indexing::IndexingMap element;  ///< from the function's indices to the element's position in memory
};
OutputValue output_value(const FusionFunctions& functions, int output);

/// Writes all outputs whose elements `function` computes, at the function's indices, and returns all outputs.
/// `injected` are the values of heroes that it wants.
Values write_outputs(mlir::ImplicitLocOpBuilder& builder, const FusionFunctions& functions, int function,
                     mlir::ValueRange inputs, mlir::ValueRange indices, mlir::ValueRange injected, Values outputs);

}  // namespace strata::emitters
