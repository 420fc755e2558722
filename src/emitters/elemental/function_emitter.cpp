#include "emitters/elemental/function_emitter.h"

#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/types.h"
#include "indexing/simplify.h"

namespace strata::emitters {

using hlo::InstructionId;
using hlo::Opcode;
using indexing::IndexingMap;
using mlir::Value;
using mlir::ValueRange;

FunctionEmitter::FunctionEmitter(FusionFunctions& fusion, int number, mlir::ImplicitLocOpBuilder& builder,
                                 ValueRange inputs, ValueRange indices, ValueRange injected)
    : fusion_(fusion),
      number_(number),
      computation_(fusion.computation()),
      builder_(builder),
      inputs_(inputs),
      indices_(indices),
      injected_(injected) {}

tl::unexpected<Error> FunctionEmitter::no_code(InstructionId id) const {
  const hlo::Instruction& it = computation_[id];
  Error error = unsupported("the emitters have no code for {} ({})", hlo::name(it.opcode), it.name).value();
  return tl::unexpected(error.at(it.location));
}

Result<std::vector<indexing::Read>> FunctionEmitter::reads_of(InstructionId id) const {
  return indexing::operand_reads(fusion_.hlo_module(), fusion_.computation_id(), id);
}

Result<Values> FunctionEmitter::results() {
  Values values;
  for (const indexing::FunctionResult& result : fusion_.partition().functions[static_cast<size_t>(number_)].results) {
    const InstructionId id = result.instruction;
    const hlo::Shape& shape = computation_[id].shape;
    const int count = shape.is_tuple() ? static_cast<int>(shape.elements.size()) : 1;
    for (int i = 0; i < count; ++i) {
      const auto [held, element_number] = holder(id, i);
      STRATA_TRY(const Value one, element(held, element_number, result.index, {}));
      values.push_back(one);
    }
  }
  return values;
}

std::pair<InstructionId, int> FunctionEmitter::holder(InstructionId id, int element) const {
  while (computation_[id].opcode == Opcode::Tuple) {
    id = computation_[id].operands[static_cast<size_t>(element)];
    element = 0;
  }
  return {id, element};
}

Result<Values> FunctionEmitter::value(InstructionId id) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto known = scope->values.find(id);
    if (known != scope->values.end()) return known->second;
  }
  STRATA_TRY(Values values, compute(id));
  scopes_.back().values[id] = values;
  return values;
}

Result<Values> FunctionEmitter::compute(InstructionId id) {
  const hlo::Instruction& it = computation_[id];
  const auto one = [](Result<Value> value) -> Result<Values> {
    if (!value) return tl::unexpected(std::move(value).error());
    return Values{*value};
  };
  if (emitters::is_elementwise(it.opcode)) {
    STRATA_TRY(const Values operands, read_all(id));
    STRATA_TRY(const Value result, emit_scalar(builder_, computation_, it, operands));
    if (fusion_.rounded_to_half_[static_cast<size_t>(id)] && result.getDefiningOp() != nullptr) {
      result.getDefiningOp()->setAttr("strata.rounded_to_half", builder_.getUnitAttr());
    }
    return Values{result};
  }
  switch (it.opcode) {
    case Opcode::Bitcast: {
      STRATA_TRY(const Value operand, read(id, 0));
      return one(emit_bitcast(builder_, computation_, it, operand));
    }
    case Opcode::Broadcast:
    case Opcode::Copy:
    case Opcode::DynamicSlice:
    case Opcode::Gather:
    case Opcode::Reshape:
    case Opcode::Reverse:
    case Opcode::Slice:
    case Opcode::Transpose:
    case Opcode::AddDependency:
      return one(read(id, 0));
    case Opcode::OptimizationBarrier:
      return it.shape.is_array() ? one(read(id, 0)) : Result<Values>(no_code(id));
    case Opcode::GetTupleElement: {
      return one(read(id, 0));
    }
    case Opcode::GetDimensionSize:
      return Values{
          builder_.create<mlir::arith::ConstantIntOp>(computation_.operand_shape(it, 0).dim(it.dimensions()[0]),
                                                      element_type(builder_.getContext(), it.shape.type))};
    case Opcode::Iota: {
      IndexingMap map = composed(id, indexing::identity_map(it.shape.dims));
      map.results = {map.results[static_cast<size_t>(it.dimensions()[0])]};
      STRATA_TRY(const MapValues values, variables(map, {}));
      const Value index = apply_map(builder_, map, values)[0];
      const Value integer = builder_.create<mlir::arith::IndexCastOp>(builder_.getI64Type(), index);
      return Values{emit_convert(builder_, integer, hlo::ElementType::S64, it.shape.type)};
    }
    case Opcode::PartitionId:
    case Opcode::ReplicaId:
      return Values{builder_.create<mlir::arith::ConstantIntOp>(0, 32)};
    case Opcode::Pad:
      return one(pad(id));
    case Opcode::Concatenate:
      return one(concatenate(id));
    case Opcode::DynamicUpdateSlice:
      return one(dynamic_update_slice(id));
    case Opcode::Map: {
      STRATA_TRY(const Values operands, read_all(id));
      STRATA_TRY(mlir::func::FuncOp function, fusion_.scalar_function(it.called[0], false));
      return Values{builder_.create<PureCallOp>(function.getResultTypes(), function.getName(), operands).getResults()};
    }
    case Opcode::Reduce:
    case Opcode::ReduceWindow:
      return fold_by_function(id);
    case Opcode::Dot:
    case Opcode::Convolution:
      return one(contraction(id));
    case Opcode::Scatter:
      return scatter(id);
    default:
      return no_code(id);
  }
}

Result<Value> FunctionEmitter::read(InstructionId instruction, const indexing::Read& read, const IndexingMap& map,
                                    ValueRange ranges) {
  const auto [held, element_number] =
      holder(computation_[instruction].operands[static_cast<size_t>(read.operand)], read.tuple_element);
  return element(held, element_number, composed(instruction, map), ranges);
}

Result<Value> FunctionEmitter::read(InstructionId instruction, int number) {
  STRATA_TRY(const std::vector<indexing::Read> reads, reads_of(instruction));
  for (const indexing::Read& one : reads) {
    if (one.operand != number) continue;
    if (one.unknown || one.maps.size() != 1 || !one.maps[0].ranges.empty()) break;
    return read(instruction, one, one.maps[0]);
  }
  return no_code(instruction);
}

Result<Values> FunctionEmitter::read_all(InstructionId instruction) {
  Values values;
  for (size_t i = 0; i < computation_[instruction].operands.size(); ++i) {
    STRATA_TRY(const Value value, read(instruction, static_cast<int>(i)));
    values.push_back(value);
  }
  return values;
}

Result<Value> FunctionEmitter::element(InstructionId id, int tuple_element, const IndexingMap& index,
                                       ValueRange ranges) {
  const hlo::Instruction& it = computation_[id];
  if (it.opcode == Opcode::Parameter) {
    const auto& inputs = fusion_.arguments().inputs;
    const auto place = std::find(inputs.begin(), inputs.end(), id);
    if (place == inputs.end()) return no_code(id);
    const IndexingMap position =
        indexing::simplify(indexing::compose(index, position_map(it.shape)), indexing::UnusedVariables::Keep);
    STRATA_TRY(const MapValues values, variables(position, ranges));
    const Values at = apply_map(builder_, position, values);
    return builder_.create<mlir::tensor::ExtractOp>(inputs_[static_cast<unsigned>(place - inputs.begin())], at)
        .getResult();
  }
  if (it.opcode == Opcode::Constant) return get_constant(id, index, ranges);
  const indexing::FunctionPartition& partition = fusion_.partition();
  const int function = partition.function_of[static_cast<size_t>(id)];
  if (function == number_) {
    STRATA_TRY(const Values values, value(id));
    return values[static_cast<size_t>(tuple_element)];
  }
  HeroValues heroes;
  size_t place = 0;
  for (const InstructionId hero : partition.functions[static_cast<size_t>(number_)].injected) {
    const hlo::Shape& shape = computation_[hero].shape;
    const size_t count = shape.is_tuple() ? shape.elements.size() : 1;
    heroes[hero] = Values(injected_.slice(place, count));
    place += count;
  }
  const auto hero = heroes.find(id);
  if (hero != heroes.end()) return hero->second[static_cast<size_t>(tuple_element)];
  if (function < 0) return no_code(id);
  STRATA_TRY(const MapValues values, variables(index, ranges));
  const Values at = apply_map(builder_, index, values);
  return fusion_.call(builder_, function, inputs_, at,
                      fusion_.injected(function, heroes))[static_cast<size_t>(tuple_element)];
}

Result<Value> FunctionEmitter::get_constant(InstructionId id, const IndexingMap& index, ValueRange ranges) {
  const hlo::Instruction& it = computation_[id];
  const hlo::Literal& literal = it.as<hlo::ConstantAttributes>().value;
  if (literal.size() == 1) return emit_constant(builder_, literal, 0);
  // The bytes of a constant lie in row-major order, whatever its layout.
  const hlo::Shape shape = hlo::array_shape(it.shape.type, it.shape.dims);
  const IndexingMap position =
      indexing::simplify(indexing::compose(index, position_map(shape)), indexing::UnusedVariables::Keep);
  STRATA_TRY(const MapValues values, variables(position, ranges));
  const Values at = apply_map(builder_, position, values);
  return builder_.create<mlir::tensor::ExtractOp>(constant_tensor(builder_, literal), at).getResult();
}

IndexingMap FunctionEmitter::composed(InstructionId instruction, const IndexingMap& map) const {
  const IndexingMap& index = fusion_.partition().index_of[static_cast<size_t>(instruction)];
  return indexing::simplify(indexing::compose(index, map), indexing::UnusedVariables::Keep);
}

Result<MapValues> FunctionEmitter::variables(const IndexingMap& map, ValueRange ranges) {
  MapValues values{Values(indices_), Values(ranges), {}};
  for (size_t i = 0; i < map.runtime.size(); ++i) {
    STRATA_TRY(const Value one, runtime_value(map, i, ranges));
    values.runtime.push_back(one);
  }
  return values;
}

Result<Value> FunctionEmitter::runtime_value(const IndexingMap& map, size_t number, ValueRange ranges) {
  const indexing::RuntimeVariable& variable = map.runtime[number];
  const bool in_loop = !ranges.empty();
  if (!in_loop) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      for (const auto& [known, value] : scope->runtime) {
        if (known == variable) return value;
      }
    }
  }
  const auto id = static_cast<InstructionId>(variable.instruction & 0xffffffff);
  const auto [held, element_number] = holder(computation_[id].operands[static_cast<size_t>(variable.operand)], 0);
  IndexingMap at;
  at.dims = map.dims;
  at.ranges = map.ranges;
  at.runtime.assign(map.runtime.begin(), map.runtime.begin() + static_cast<std::ptrdiff_t>(number));
  at.results = variable.element;
  STRATA_TRY(const Value integer, element(held, element_number, at, ranges));
  const Value index = clamped_index(builder_, integer, computation_[held].shape.type, variable.range);
  if (!in_loop) scopes_.back().runtime.emplace_back(variable, index);
  return index;
}

}  // namespace strata::emitters
