#include "emitters/elemental/fusion_functions.h"

#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/function_emitter.h"
#include "emitters/elemental/known_functions.h"
#include "emitters/elemental/rounded_values.h"
#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/scalar_parts.h"
#include "emitters/elemental/types.h"

namespace strata::emitters {

using hlo::InstructionId;
using hlo::Opcode;
using mlir::Value;
using mlir::ValueRange;

namespace {

/// A name that MLIR's symbols and PTX allow, and that is not yet taken.
std::string symbol_name(mlir::ModuleOp module, std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') c = '_';
  }
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = "f" + name;
  std::string unique = name;
  for (int i = 1; module.lookupSymbol(unique); ++i) unique = name + "_" + std::to_string(i);
  return unique;
}

mlir::func::FuncOp new_function(mlir::ModuleOp module, const std::string& name, mlir::TypeRange inputs,
                                mlir::TypeRange results) {
  mlir::OpBuilder builder(module.getBodyRegion());
  builder.setInsertionPointToEnd(module.getBody());
  auto function = builder.create<mlir::func::FuncOp>(builder.getUnknownLoc(), symbol_name(module, name),
                                                     builder.getFunctionType(inputs, results));
  function.setPrivate();
  return function;
}

}  // namespace

llvm::SmallVector<mlir::Type> element_types(mlir::MLIRContext* context, const hlo::Shape& shape) {
  llvm::SmallVector<mlir::Type> types;
  if (!shape.is_tuple()) types.push_back(element_type(context, shape.type));
  for (const hlo::Shape& one : shape.elements) types.push_back(element_type(context, one.type));
  return types;
}

void set_range(mlir::func::FuncOp function, unsigned argument, const indexing::Interval& range) {
  mlir::Builder builder(function.getContext());
  function.setArgAttr(argument, "strata.range", builder.getIndexArrayAttr({range.lo, range.hi}));
}

Result<FusionFunctions> FusionFunctions::create(mlir::ModuleOp target, const hlo::Module& module,
                                                hlo::ComputationId computation,
                                                const indexing::PartitionOptions& options) {
  FusionFunctions result;
  result.target_ = target;
  result.module_ = &module;
  result.computation_ = computation;
  const hlo::Computation& within = module[computation];
  for (const InstructionId id : within.parameters) {
    const hlo::Instruction& parameter = within[id];
    if (parameter.shape.is_array()) {
      result.arguments_.inputs.push_back(id);
    } else if (parameter.shape.is_tuple()) {
      Error error = unsupported("parameter {} of a kernel is a tuple", parameter.name).value();
      return tl::unexpected(error.at(parameter.location));
    }
  }
  const hlo::Shape& root = within.root_instruction().shape;
  if (root.is_tuple()) {
    result.arguments_.outputs = root.elements.list();
  } else {
    result.arguments_.outputs = {root};
  }
  result.heroes_ = options.heroes;
  result.rounded_to_half_ = functions_rounded_to_half(module, computation);
  STRATA_TRY(result.partition_, indexing::partition_functions(module, computation, options));
  STRATA_CHECK(result.declare_functions());
  STRATA_CHECK(result.define_functions());
  return result;
}

Result<void> FusionFunctions::declare_functions() {
  mlir::MLIRContext* context = target_.getContext();
  for (size_t number = 0; number < partition_.functions.size(); ++number) {
    const indexing::Function& function = partition_.functions[number];
    if (is_hero(static_cast<int>(number))) {
      functions_.emplace_back();
      continue;
    }
    llvm::SmallVector<mlir::Type> inputs, results;
    for (const InstructionId id : arguments_.inputs) inputs.push_back(flat_tensor(context, computation()[id].shape));
    inputs.append(function.indices.size(), mlir::IndexType::get(context));
    for (const InstructionId id : function.injected)
      llvm::append_range(inputs, element_types(context, computation()[id].shape));
    for (const indexing::FunctionResult& result : function.results) {
      llvm::append_range(results, element_types(context, computation()[result.instruction].shape));
    }
    mlir::func::FuncOp made = new_function(target_, function.name, inputs, results);
    for (size_t i = 0; i < function.indices.size(); ++i) {
      set_range(made, static_cast<unsigned>(arguments_.inputs.size() + i), function.indices[i]);
    }
    functions_.push_back(made);
  }
  return {};
}

Result<void> FusionFunctions::define_functions() {
  for (size_t i = 0; i < functions_.size(); ++i) {
    if (is_hero(static_cast<int>(i))) continue;
    mlir::Block* block = functions_[i].addEntryBlock();
    mlir::ImplicitLocOpBuilder builder(functions_[i].getLoc(), target_.getContext());
    builder.setInsertionPointToStart(block);
    const ValueRange arguments = block->getArguments();
    const size_t inputs = arguments_.inputs.size();
    const size_t indices = partition_.functions[i].indices.size();
    FunctionEmitter emitter(*this, static_cast<int>(i), builder, arguments.take_front(inputs),
                            arguments.slice(inputs, indices), arguments.drop_front(inputs + indices));
    STRATA_TRY(const Values results, emitter.results());
    builder.create<mlir::func::ReturnOp>(results);
  }
  return {};
}

bool FusionFunctions::is_hero(int function) const {
  const auto& instructions = partition_.functions[static_cast<size_t>(function)].instructions;
  return instructions.size() == 1 && llvm::is_contained(heroes_, instructions[0]);
}

Values FusionFunctions::call(mlir::ImplicitLocOpBuilder& builder, int number, ValueRange inputs, ValueRange indices,
                             ValueRange injected) const {
  mlir::func::FuncOp function = functions_[static_cast<size_t>(number)];
  Values operands(inputs);
  llvm::append_range(operands, indices);
  llvm::append_range(operands, injected);
  return Values(builder.create<PureCallOp>(function.getResultTypes(), function.getName(), operands).getResults());
}

Result<Values> FusionFunctions::read(mlir::ImplicitLocOpBuilder& builder, InstructionId instruction, ValueRange inputs,
                                     ValueRange indices, const HeroValues& heroes) const {
  const auto hero = heroes.find(instruction);
  if (hero != heroes.end()) return hero->second;
  const hlo::Instruction& it = computation()[instruction];
  const MapValues at{Values(indices), {}, {}};
  if (it.opcode == Opcode::Parameter) {
    const auto place = std::find(arguments_.inputs.begin(), arguments_.inputs.end(), instruction);
    const Values position = apply_map(builder, position_map(it.shape), at);
    const Value tensor = inputs[static_cast<unsigned>(place - arguments_.inputs.begin())];
    return Values{builder.create<mlir::tensor::ExtractOp>(tensor, position)};
  }
  if (it.opcode == Opcode::Constant) {
    const hlo::Literal& literal = it.as<hlo::ConstantAttributes>().value;
    if (literal.size() == 1) return Values{emit_constant(builder, literal, 0)};
    const Values position = apply_map(builder, position_map(hlo::array_shape(it.shape.type, it.shape.dims)), at);
    return Values{builder.create<mlir::tensor::ExtractOp>(constant_tensor(builder, literal), position)};
  }
  const int function = partition_.function_of[static_cast<size_t>(instruction)];
  if (function < 0 || partition_.functions[static_cast<size_t>(function)].results[0].instruction != instruction) {
    return tl::unexpected(unsupported("{} has no function of its own", it.name).value());
  }
  return call(builder, function, inputs, indices, injected(function, heroes));
}

Values FusionFunctions::injected(int number, const HeroValues& heroes) const {
  Values values;
  for (const InstructionId hero : partition_.functions[static_cast<size_t>(number)].injected) {
    llvm::append_range(values, heroes.at(hero));
  }
  return values;
}

Result<mlir::func::FuncOp> FusionFunctions::scalar_function(hlo::ComputationId called, bool wide) {
  const auto known = scalar_functions_.find({called, wide});
  if (known != scalar_functions_.end()) return known->second;
  hlo::Computation body = (*module_)[called];
  for (hlo::Instruction& it : body.instructions) {
    if (!it.shape.is_array() && !it.shape.is_tuple()) continue;
    if (wide) {
      it.shape.type = wide_type(it.shape.type);
      std::vector<hlo::Shape> elements(it.shape.elements.begin(), it.shape.elements.end());
      for (hlo::Shape& element : elements) element.type = wide_type(element.type);
      it.shape.elements = std::move(elements);
    }
    const bool scalar = it.shape.is_tuple() || it.shape.rank() == 0;
    if (!scalar) {
      Error error = unsupported("{} of a called computation is no scalar", it.name).value();
      return tl::unexpected(error.at(it.location));
    }
  }
  mlir::MLIRContext* context = target_.getContext();
  llvm::SmallVector<mlir::Type> inputs;
  for (const InstructionId id : body.parameters) llvm::append_range(inputs, element_types(context, body[id].shape));
  mlir::func::FuncOp function =
      new_function(target_, body.name, inputs, element_types(context, body.root_instruction().shape));
  scalar_functions_[{called, wide}] = function;
  mlir::ImplicitLocOpBuilder builder(function.getLoc(), context);
  builder.setInsertionPointToStart(function.addEntryBlock());
  if (const char* library = known_function(body.name)) {
    const Value value = call_library(builder, library, function.getResultTypes()[0], function.getArguments());
    builder.create<mlir::func::ReturnOp>(value);
    return function;
  }
  std::vector<Values> values(body.instructions.size());
  for (size_t i = 0; i < body.instructions.size(); ++i) {
    const hlo::Instruction& it = body.instructions[i];
    const auto operand = [&](size_t k) -> const Values& { return values[static_cast<size_t>(it.operands[k])]; };
    switch (it.opcode) {
      case Opcode::Parameter: {
        const auto number = static_cast<unsigned>(it.as<hlo::ParameterAttributes>().number);
        values[i] = {function.getArgument(number)};
        break;
      }
      case Opcode::Constant: {
        const hlo::Instruction& original = (*module_)[called].instructions[i];
        const Value constant = emit_constant(builder, it.as<hlo::ConstantAttributes>().value, 0);
        values[i] = {wide ? widened(builder, constant, original.shape.type) : constant};
        break;
      }
      case Opcode::Tuple:
        for (size_t k = 0; k < it.operands.size(); ++k) values[i].push_back(operand(k)[0]);
        break;
      case Opcode::GetTupleElement:
        values[i] = {operand(0)[static_cast<size_t>(it.as<hlo::TupleIndexAttributes>().index)]};
        break;
      case Opcode::Bitcast: {
        STRATA_TRY(const Value value, emit_bitcast(builder, body, it, operand(0)[0]));
        values[i] = {value};
        break;
      }
      case Opcode::Broadcast:
      case Opcode::Copy:
      case Opcode::Reshape:
      case Opcode::Transpose:
      case Opcode::OptimizationBarrier:
        values[i] = operand(0);
        break;
      default: {
        if (!emitters::is_elementwise(it.opcode)) {
          Error error =
              unsupported("the emitters have no code for {} within {}", hlo::name(it.opcode), body.name).value();
          return tl::unexpected(error.at(it.location));
        }
        Values operands;
        for (size_t k = 0; k < it.operands.size(); ++k) operands.push_back(operand(k)[0]);
        STRATA_TRY(const Value value, emit_scalar(builder, body, it, operands));
        values[i] = {value};
      }
    }
  }
  builder.create<mlir::func::ReturnOp>(values[static_cast<size_t>(body.root)]);
  return function;
}

}  // namespace strata::emitters
