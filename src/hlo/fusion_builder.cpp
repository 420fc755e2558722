#include "hlo/fusion_builder.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "hlo/compute.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::hlo {
namespace {

Instruction make(std::string name, Opcode opcode, Shape shape, std::vector<InstructionId> operands = {},
                 Attributes attributes = NoAttributes{}) {
  return {std::move(name), opcode, std::move(shape), std::move(operands), {}, std::move(attributes), {}};
}

Instruction make_parameter(int64_t number, Shape shape) {
  return make(fmt::format("p{}", number), Opcode::Parameter, std::move(shape), {}, ParameterAttributes{number});
}

}  // namespace

FusionBuilder::Id FusionBuilder::add(Opcode opcode, Ids operands, Attributes attributes,
                                     std::vector<ComputationId> called, Shape stated) {
  const auto id = static_cast<Id>(fusion.instructions.size());
  Instruction instruction = make(fmt::format("{}.{}", name(opcode), id), opcode, std::move(stated), std::move(operands),
                                 std::move(attributes));
  instruction.called = std::move(called);
  auto inferred = infer_shape(module, fusion, instruction);
  if (!inferred) {  // the caller's mistake, which no input leads to
    throw std::logic_error(fmt::format("{} breaks a rule: {}", instruction.name, inferred.error().message));
  }
  instruction.shape = *inferred;
  fusion.instructions.push_back(std::move(instruction));
  if (!inferred->is_tuple()) return id;
  Ids elements;
  for (size_t i = 0; i < inferred->elements.size(); ++i) {
    elements.push_back(add(Opcode::GetTupleElement, {id}, TupleIndexAttributes{static_cast<int64_t>(i)}));
  }
  return elements[random.below(elements.size())];
}

FusionBuilder::Id FusionBuilder::parameter(const Shape& shape) {
  const auto id = static_cast<Id>(fusion.instructions.size());
  fusion.instructions.push_back(make_parameter(static_cast<int64_t>(fusion.parameters.size()), shape));
  fusion.parameters.push_back(id);
  return id;
}

FusionBuilder::Id FusionBuilder::constant(const Literal& value) {
  return add(Opcode::Constant, {}, ConstantAttributes{value, false}, {}, value.shape());
}

FusionBuilder::Id FusionBuilder::scalar(ElementType type, int64_t value) {
  Literal literal(array_shape(type, {}));
  visit_accumulator_type(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T>) {
      literal.set<T>(0, static_cast<T>(value));
    } else {
      literal.set<T>(0, T(static_cast<double>(value)));
    }
  });
  return constant(literal);
}

std::optional<FusionBuilder::Id> FusionBuilder::pick(const std::function<bool(const Shape&)>& fits) {
  Ids candidates;
  for (size_t i = 0; i < fusion.instructions.size(); ++i) {
    const Shape& candidate = fusion.instructions[i].shape;
    if (candidate.is_array() && fits(candidate)) candidates.push_back(static_cast<Id>(i));
  }
  if (candidates.empty()) return std::nullopt;
  // The larger of two draws: chains grow longer than trees of unrelated parts.
  const uint64_t first = random.below(candidates.size());
  const uint64_t draw = random.below(candidates.size());
  return candidates[std::max(first, draw)];
}

FusionBuilder::Id FusionBuilder::pick_any() {
  return *pick([](const Shape&) { return true; });
}

FusionBuilder::Id FusionBuilder::like(const Shape& wanted) {
  if (chance(0.6)) {
    if (const auto found = pick([&](const Shape& shape) { return same_shape(shape, wanted); })) return *found;
  }
  const Shape plain = array_shape(wanted.type, wanted.dims);
  if (chance(0.15)) return constant(typical_literal(plain, random));
  const bool counts = wanted.rank() > 0 && wanted.type != ElementType::Pred && options.allows(Opcode::Iota);
  if (counts && chance(0.15)) {
    return add(Opcode::Iota, {}, DimensionsAttributes{{between(0, wanted.rank() - 1)}}, {}, plain);
  }
  if (wanted.rank() > 0 && chance(0.3)) {
    const Id value = constant(typical_literal(array_shape(wanted.type, {}), random));
    return add(Opcode::Broadcast, {value}, DimensionsAttributes{}, {}, plain);
  }
  return parameter(plain);
}

FusionBuilder::Id FusionBuilder::without_nan(Id id) {
  const Instruction& instruction = fusion[id];
  const bool computed = family(instruction.opcode) != Family::Leaf;
  if (!computed || !is_float(instruction.shape.type)) return id;
  const Shape plain = array_shape(instruction.shape.type, instruction.shape.dims);
  const Id is_nan = add(Opcode::Compare, {id, id}, CompareAttributes{CompareAttributes::Direction::NE});
  const Id zero = add(Opcode::Broadcast, {scalar(plain.type, 0)}, DimensionsAttributes{}, {}, plain);
  return add(Opcode::Select, {is_nan, zero, id});
}

ElementType FusionBuilder::any_type() {
  return any_type([](ElementType) { return true; });
}

ElementType FusionBuilder::any_type(const std::function<bool(ElementType)>& fits) {
  // Common types come up as often as all the others together.
  constexpr ElementType kCommon[] = {ElementType::F32, ElementType::F32, ElementType::BF16,
                                     ElementType::F16, ElementType::S32, ElementType::Pred};
  for (int attempt = 0; attempt < 200; ++attempt) {
    const auto any = static_cast<ElementType>(random.below(static_cast<uint64_t>(ElementType::Token)));
    const ElementType type = chance(0.5) ? kCommon[random.below(std::size(kCommon))] : any;
    if (fits(type) && options.allows_type(type)) return type;
  }
  return fits(ElementType::S32) ? ElementType::S32 : fits(ElementType::F32) ? ElementType::F32 : ElementType::Pred;
}

bool FusionBuilder::small(const std::vector<int64_t>& dims) const {
  int64_t count = 1;
  for (int64_t size : dims) count *= std::max<int64_t>(size, 1);
  return count <= options.max_elements;
}

Shape FusionBuilder::any_shape(int64_t min_rank) {
  constexpr int64_t kSizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 31, 32, 37, 64};
  std::vector<int64_t> dims;
  const int64_t rank = std::max(min_rank, between(0, 4));
  for (int64_t d = 0; d < rank; ++d) {
    dims.push_back(chance(0.02) ? 0 : kSizes[random.below(std::size(kSizes))]);
    if (!small(dims)) dims.back() = between(1, 2);
  }
  return array_shape(any_type(), dims);
}

std::vector<int64_t> FusionBuilder::permutation(int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

ComputationId FusionBuilder::add_computation(std::string name, std::vector<Instruction> instructions) {
  for (size_t i = 0; i < module.computations.size(); ++i) {
    if (module.computations[i].name == name) return static_cast<ComputationId>(i);
  }
  Computation computation;
  computation.name = std::move(name);
  computation.instructions = std::move(instructions);
  computation.root = static_cast<Id>(computation.instructions.size() - 1);
  for (size_t i = 0; i < computation.instructions.size(); ++i) {
    if (computation.instructions[i].opcode == Opcode::Parameter) computation.parameters.push_back(static_cast<Id>(i));
  }
  module.computations.push_back(std::move(computation));
  return static_cast<ComputationId>(module.computations.size() - 1);
}

ComputationId FusionBuilder::combiner(Opcode opcode, ElementType type) {
  const Shape scalar_shape = array_shape(type, {});
  return add_computation(
      fmt::format("{}_{}", name(opcode), name(type)),
      {make_parameter(0, scalar_shape), make_parameter(1, scalar_shape), make("r", opcode, scalar_shape, {0, 1})});
}

ComputationId FusionBuilder::second(ElementType type) {
  const Shape scalar_shape = array_shape(type, {});
  auto id = add_computation(fmt::format("second_{}", name(type)),
                            {make_parameter(0, scalar_shape), make_parameter(1, scalar_shape)});
  return id;
}

ComputationId FusionBuilder::composed_combiner(ElementType type) {
  // Both sums and products have a form with two more operators: -(-a + -b), and a · b by way of a select.
  const Shape scalar_shape = array_shape(type, {});
  return add_computation(fmt::format("composed_{}", name(type)),
                         {make_parameter(0, scalar_shape), make_parameter(1, scalar_shape),
                          make("na", Opcode::Negate, scalar_shape, {0}), make("nb", Opcode::Negate, scalar_shape, {1}),
                          make("s", Opcode::Add, scalar_shape, {2, 3}), make("r", Opcode::Negate, scalar_shape, {4})});
}

ComputationId FusionBuilder::larger_with_index(ElementType type) {
  const Shape value = array_shape(type, {});
  const Shape index = array_shape(ElementType::S32, {});
  const Shape truth = array_shape(ElementType::Pred, {});
  using Direction = CompareAttributes::Direction;
  using Order = CompareAttributes::Order;
  const auto compare = [&](std::string text, Direction direction, Id a, Id b) {
    return make(std::move(text), Opcode::Compare, truth, {a, b},
                CompareAttributes{direction, is_float(type) && a == 0 ? Order::Total : Order::Partial});
  };
  return add_computation(
      fmt::format("larger_{}", name(type)),
      {make_parameter(0, value), make_parameter(1, index), make_parameter(2, value), make_parameter(3, index),
       compare("gt", Direction::GT, 0, 2), compare("eq", Direction::EQ, 0, 2), compare("lt", Direction::LT, 1, 3),
       make("first", Opcode::And, truth, {5, 6}), make("keep", Opcode::Or, truth, {4, 7}),
       make("v", Opcode::Select, value, {8, 0, 2}), make("i", Opcode::Select, index, {8, 1, 3}),
       make("r", Opcode::Tuple, tuple_shape({value, index}), {9, 10})});
}

ComputationId FusionBuilder::comparator(const std::vector<ElementType>& types, CompareAttributes::Direction direction) {
  using Order = CompareAttributes::Order;
  std::vector<Instruction> instructions;
  constexpr std::string_view kNames[] = {"equal", "different", "less", "at_most", "greater", "at_least"};
  std::string text(kNames[static_cast<size_t>(direction)]);
  for (ElementType type : types) {
    text += fmt::format("_{}", name(type));
    for (int i = 0; i < 2; ++i) {
      instructions.push_back(make_parameter(static_cast<int64_t>(instructions.size()), array_shape(type, {})));
    }
  }
  instructions.push_back(make("r", Opcode::Compare, array_shape(ElementType::Pred, {}), {0, 1},
                              CompareAttributes{direction, is_float(types[0]) ? Order::Total : Order::Partial}));
  return add_computation(std::move(text), std::move(instructions));
}

ComputationId FusionBuilder::function_of(const Shape& shape) {
  const Shape plain = array_shape(shape.type, shape.dims);
  const bool is_number = plain.type != ElementType::Pred;
  const Opcode first = is_number ? Opcode::Negate : Opcode::Not;
  const Opcode last = chance(0.5) ? Opcode::Add : Opcode::Multiply;
  return add_computation(fmt::format("f_{}_{}_{}", name(last), name(plain.type), fmt::join(plain.dims, "x")),
                         {make_parameter(0, plain), make("a", first, plain, {0}), make("r", last, plain, {0, 1})});
}

ModulePtr FusionBuilder::finish() {
  std::vector<bool> used(fusion.instructions.size());
  for (const Instruction& instruction : fusion.instructions) {
    for (Id operand : instruction.operands) used[static_cast<size_t>(operand)] = true;
  }
  Ids roots;
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i] && fusion.instructions[i].shape.is_array()) roots.push_back(static_cast<Id>(i));
  }
  fusion.root = roots.back();
  if (roots.size() > 1) {
    fusion.root = static_cast<Id>(fusion.instructions.size());
    std::vector<Shape> shapes;
    for (Id id : roots) shapes.push_back(shape(id));
    fusion.instructions.push_back(make("results", Opcode::Tuple, tuple_shape(std::move(shapes)), roots));
  }
  fusion.name = "fusion";
  module.name = "random";
  module.entry = static_cast<ComputationId>(module.computations.size());
  module.computations.push_back(std::move(fusion));
  return std::make_shared<const Module>(std::move(module));
}

}  // namespace strata::hlo
