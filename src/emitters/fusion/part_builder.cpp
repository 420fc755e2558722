#include "emitters/fusion/part_builder.h"

#include <array>
#include <map>
#include <set>

#include "hlo/compute.h"
#include "hlo/inline_calls.h"
#include "hlo/source_of.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

/// Builds the part of a group.
class PartBuilder {
 public:
  PartBuilder(const hlo::Module& module, const std::vector<bool>& everywhere, const Group& group)
      : module_(module), from_(module.entry_computation()), everywhere_(everywhere), group_(group) {}

  ProgramPart build(const std::vector<ArrayValue>& outputs) {
    ProgramPart part;
    target_.name = outputs.empty() ? "fusion" : "fused_" + from_[outputs[0].instruction].name;
    std::vector<InstructionId> roots;
    for (const ArrayValue& output : outputs) {
      const InstructionId whole = clone(output.instruction);
      roots.push_back(leaf(whole, output.element));
    }
    if (roots.size() == 1) {
      target_.root = roots[0];
    } else if (const auto whole = scatter_of(outputs)) {
      target_.root = clone(*whole);
    } else {
      std::vector<hlo::Shape> shapes;
      for (const InstructionId root : roots) shapes.push_back(target_[root].shape);
      target_.root = add({"outputs", Opcode::Tuple, hlo::tuple_shape(shapes), roots, {}, hlo::NoAttributes{}, {}});
    }
    // Called computations come along, and unused instructions go.
    const std::string name = target_.name;
    part.module = hlo::extract_module(module_, std::move(target_));
    part.module.name = name;
    part.module.fusion = false;
    part.inputs = std::move(inputs_);
    part.outputs = outputs;
    return part;
  }

 private:
  /// The scatter whose arrays, all of them and in order, are the outputs: emitters look for it at the root.
  std::optional<InstructionId> scatter_of(const std::vector<ArrayValue>& outputs) const {
    if (outputs.empty()) return {};
    const InstructionId id = outputs[0].instruction;
    const Instruction& it = from_[id];
    if (it.opcode != Opcode::Scatter || !it.shape.is_tuple() || it.shape.elements.size() != outputs.size()) return {};
    for (size_t n = 0; n < outputs.size(); ++n) {
      if (outputs[n].instruction != id || outputs[n].element != static_cast<int>(n)) return {};
    }
    return id;
  }

  InstructionId add(Instruction it) {
    for (int n = 1; !names_.insert(it.name).second; ++n) it.name += "." + std::to_string(n);
    target_.instructions.push_back(std::move(it));
    return static_cast<InstructionId>(target_.instructions.size()) - 1;
  }

  InstructionId parameter(const ArrayValue& value, const hlo::Shape& shape) {
    const auto known = parameters_.find(value);
    if (known != parameters_.end()) return known->second;
    if (!shape.is_array()) return add({"token", Opcode::AfterAll, shape, {}, {}, hlo::NoAttributes{}, {}});
    const auto number = static_cast<int64_t>(inputs_.size());
    inputs_.push_back(value);
    std::string name = from_[value.instruction].name;
    if (from_[value.instruction].shape.is_tuple()) name += "." + std::to_string(value.element);
    const InstructionId id = add({name, Opcode::Parameter, shape, {}, {}, hlo::ParameterAttributes{number}, {}});
    target_.parameters.push_back(id);
    return parameters_[value] = id;
  }

  InstructionId element_of(InstructionId tuple, size_t element) {
    const Instruction& it = target_[tuple];
    if (it.opcode == Opcode::Tuple) return it.operands[element];
    hlo::Shape shape = it.shape.elements[element];
    const auto index = static_cast<int64_t>(element);
    return add({it.name + ".element",
                Opcode::GetTupleElement,
                std::move(shape),
                {tuple},
                {},
                hlo::TupleIndexAttributes{index},
                {}});
  }

  /// The leaf of a value, through tuples of tuples.
  InstructionId leaf(InstructionId id, int64_t number) {
    while (target_[id].shape.is_tuple()) {
      const hlo::Shape shape = target_[id].shape;
      const size_t element = hlo::element_with_leaf(shape, number);
      number -= shape.elements.first_leaf(element);
      id = element_of(id, element);
    }
    return id;
  }

  /// What other parts compute, from a leaf of an instruction on: parameters, in the tuples that the shape has.
  InstructionId from_outside(InstructionId id, int64_t first, const hlo::Shape& shape) {
    if (!shape.is_tuple()) return parameter({id, static_cast<int>(first)}, shape);
    std::vector<InstructionId> elements;
    for (size_t i = 0; i < shape.elements.size(); ++i)
      elements.push_back(from_outside(id, first + shape.elements.first_leaf(i), shape.elements[i]));
    return add({from_[id].name + ".tuple", Opcode::Tuple, shape, elements, {}, hlo::NoAttributes{}, {}});
  }

  InstructionId clone(InstructionId id) {
    const auto known = cloned_.find(id);
    if (known != cloned_.end()) return known->second;
    return cloned_[id] = make(id);
  }

  InstructionId make(InstructionId id) {
    const Instruction& it = from_[id];
    if (it.opcode == Opcode::GetTupleElement) {
      const auto [source, first] = hlo::source_of(from_, id, 0);
      if (!group_.contains(source) && !everywhere_[static_cast<size_t>(source)])
        return from_outside(source, first, it.shape);
      // Not the whole tuple, of which nobody may compute the other elements.
      if (it.shape.is_array() && source != id) return leaf(clone(source), first);
      return element_of(clone(it.operands[0]), static_cast<size_t>(it.as<hlo::TupleIndexAttributes>().index));
    }
    if (!group_.contains(id) && !everywhere_[static_cast<size_t>(id)]) return from_outside(id, 0, it.shape);
    Instruction copy = it;
    if (it.opcode == Opcode::GetDimensionSize) {
      hlo::Literal size(it.shape);
      size.set<int64_t>(0, from_.operand_shape(it, 0).dim(it.dimensions()[0]));
      copy.opcode = Opcode::Constant;
      copy.operands.clear();
      copy.attributes = hlo::ConstantAttributes{std::move(size), false};
    }
    for (InstructionId& operand : copy.operands) operand = clone(operand);
    // Copies of one instruction (fusion/recompute.h) that have met again are one, and so are slices of one place, which
    // frontends write for each tap of a stencil.
    if (!has_plain_attributes(copy)) return add(std::move(copy));
    std::vector<InstructionId>& alike = alike_[{copy.opcode, copy.operands}];
    for (const InstructionId other : alike) {
      if (target_[other].shape == copy.shape && numbers_of(target_[other]) == numbers_of(copy)) return other;
    }
    alike.push_back(add(std::move(copy)));
    return alike.back();
  }

  /// All that plain attributes say.
  static std::array<std::vector<int64_t>, 3> numbers_of(const Instruction& it) {
    if (const auto* of = std::get_if<hlo::SliceAttributes>(&it.attributes))
      return {of->starts, of->limits, of->strides};
    if (const auto* of = std::get_if<hlo::PadAttributes>(&it.attributes)) return {of->low, of->high, of->interior};
    const auto* of = std::get_if<hlo::DimensionsAttributes>(&it.attributes);
    return {of == nullptr ? std::vector<int64_t>() : of->dimensions, {}, {}};
  }

  const hlo::Module& module_;
  const Computation& from_;
  const std::vector<bool>& everywhere_;
  const Group& group_;
  Computation target_;
  std::set<std::string> names_;
  std::map<InstructionId, InstructionId> cloned_;
  std::map<ArrayValue, InstructionId> parameters_;
  std::map<std::pair<Opcode, std::vector<InstructionId>>, std::vector<InstructionId>> alike_;
  std::vector<ArrayValue> inputs_;
};

}  // namespace

bool has_plain_attributes(const Instruction& it) {
  return !it.operands.empty() && it.called.empty() &&
         (std::holds_alternative<hlo::NoAttributes>(it.attributes) ||
          std::holds_alternative<hlo::DimensionsAttributes>(it.attributes) ||
          std::holds_alternative<hlo::SliceAttributes>(it.attributes) ||
          std::holds_alternative<hlo::PadAttributes>(it.attributes));
}

ProgramPart build_part(const hlo::Module& module, const std::vector<bool>& everywhere, const Group& group,
                       const std::vector<ArrayValue>& outputs) {
  return PartBuilder(module, everywhere, group).build(outputs);
}

hlo::Module only_updates(const hlo::Module& part) {
  hlo::Computation made = part.entry_computation();
  const auto update_of = [&](hlo::InstructionId id) {
    return made[id].opcode == hlo::Opcode::DynamicUpdateSlice ? made[id].operands[1] : id;
  };
  if (made.root_instruction().opcode == hlo::Opcode::Tuple) {
    hlo::Instruction& root = made.instructions[static_cast<size_t>(made.root)];
    std::vector<hlo::Shape> shapes;
    for (hlo::InstructionId& operand : root.operands) {
      operand = update_of(operand);
      shapes.push_back(made[operand].shape);
    }
    root.shape.elements = std::move(shapes);
  } else {
    made.root = update_of(made.root);
  }
  return hlo::extract_module(part, made);
}

}  // namespace strata::emitters
