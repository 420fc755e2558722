#include "emitters/kinds/kernel.h"

#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include "emitters/elemental/types.h"
#include "indexing/simplify.h"

namespace strata::emitters {

using mlir::Value;
using mlir::ValueRange;

namespace {

/// Renames the function that has a kernel's name: that of an instruction that is named as the launch is.
void give_way(mlir::ModuleOp module, const std::string& name) {
  mlir::Operation* function = module.lookupSymbol(name);
  if (function == nullptr) return;
  std::string other = name + "_function";
  while (module.lookupSymbol(other) != nullptr) other += "_";
  const auto symbol = mlir::StringAttr::get(module.getContext(), other);
  const bool renamed = mlir::succeeded(mlir::SymbolTable::replaceAllSymbolUses(function, symbol, module));
  assert(renamed && "all uses are known");
  if (renamed) mlir::SymbolTable::setSymbolName(function, symbol);
}

}  // namespace

Kernel::Kernel(const FusionFunctions& functions, const std::string& name, const Decision& decision, size_t launch,
               const std::vector<size_t>& only_read)
    : Kernel(functions, name, decision, launch, only_read, functions.arguments().outputs) {}

Kernel::Kernel(const FusionFunctions& functions, const std::string& name, const Decision& decision, size_t launch,
               const std::vector<size_t>& only_read, const std::vector<hlo::Shape>& arrays)
    : input_count_(functions.arguments().inputs.size()),
      output_count_(arrays.size()),
      builder_(mlir::UnknownLoc::get(functions.target().getContext()), functions.target().getContext()) {
  mlir::MLIRContext* context = builder_.getContext();
  llvm::SmallVector<mlir::Type> inputs, outputs;
  for (const hlo::InstructionId id : functions.arguments().inputs) {
    inputs.push_back(flat_tensor(context, functions.computation()[id].shape));
  }
  for (const hlo::Shape& shape : arrays) outputs.push_back(flat_tensor(context, shape));
  for (const hlo::Shape& shape : decision.temporaries) outputs.push_back(flat_tensor(context, shape));
  llvm::append_range(inputs, outputs);
  inputs.append(2, builder_.getIndexType());
  builder_.setInsertionPointToStart(functions.target().getBody());
  const Launch& facts = decision.launches[launch];
  const std::string own = facts.name.empty() ? name : name + "_" + facts.name;
  give_way(functions.target(), own);
  function_ = builder_.create<mlir::func::FuncOp>(own, builder_.getFunctionType(inputs, outputs));
  function_->setAttr("strata.kernel", builder_.getUnitAttr());
  for (unsigned i = 0; i < input_count_; ++i) {
    function_.setArgAttr(i, "strata.input", builder_.getI64IntegerAttr(i));
  }
  for (unsigned i = 0; i < outputs.size(); ++i) {
    const bool reads = i >= output_count_ && llvm::is_contained(only_read, i - output_count_);
    function_.setArgAttr(static_cast<unsigned>(input_count_) + i, reads ? "strata.input" : "strata.output",
                         builder_.getI64IntegerAttr(reads ? static_cast<int64_t>(input_count_ + i) : i));
  }
  const auto last = static_cast<unsigned>(inputs.size());
  set_range(function_, last - 2, indexing::below(std::max<int64_t>(facts.blocks, 1)));
  set_range(function_, last - 1, indexing::below(facts.threads));
  mlir::Block* block = function_.addEntryBlock();
  arguments_ = block->getArguments();
  builder_.setInsertionPointToStart(block);
}

void Kernel::finish(ValueRange outputs, ValueRange temporaries) {
  Values results(outputs);
  llvm::append_range(results, temporaries.empty() ? this->temporaries() : temporaries);
  builder_.create<mlir::func::ReturnOp>(results);
}

OutputValue output_value(const FusionFunctions& functions, int output) {
  const hlo::Computation& computation = functions.computation();
  const indexing::FunctionPartition& partition = functions.partition();
  // A root that is no tuple instruction but has a tuple for a value is one result with several elements.
  const bool listed = computation.root_instruction().opcode == hlo::Opcode::Tuple;
  const indexing::FunctionPartition::RootValue root = partition.roots[listed ? static_cast<size_t>(output) : 0];
  const indexing::Function& function = partition.functions[static_cast<size_t>(root.function)];
  OutputValue value{root.function, listed ? 0 : output, {}};
  for (int i = 0; i < root.result; ++i) {
    const hlo::Shape& shape = computation[function.results[static_cast<size_t>(i)].instruction].shape;
    value.position += shape.is_tuple() ? static_cast<int>(shape.elements.size()) : 1;
  }
  const hlo::Shape& shape = functions.arguments().outputs[static_cast<size_t>(output)];
  value.element = indexing::simplify(
      indexing::compose(function.results[static_cast<size_t>(root.result)].index, position_map(shape)),
      indexing::UnusedVariables::Keep);
  return value;
}

Values write_outputs(mlir::ImplicitLocOpBuilder& builder, const FusionFunctions& functions, int function,
                     ValueRange inputs, ValueRange indices, ValueRange injected, Values outputs) {
  const Values values = functions.call(builder, function, inputs, indices, injected);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputValue from = output_value(functions, static_cast<int>(i));
    if (from.function != function) continue;
    const Values position = apply_map(builder, from.element, {Values(indices), {}, {}});
    outputs[i] =
        builder.create<mlir::tensor::InsertOp>(values[static_cast<size_t>(from.position)], outputs[i], position);
  }
  return outputs;
}

}  // namespace strata::emitters
