#include "emitters/fusion/product_parts.h"

#include <numeric>

namespace strata::emitters {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;
using Dimensions = std::vector<int64_t>;

Dimensions beside_parts(Dimensions list, int64_t d) {
  for (int64_t& one : list) one += one >= d ? 1 : 0;
  return list;
}

bool ProductPartsRewriter::may_cut(const Instruction& it) const {
  const Shape &lhs = from_.operand_shape(it, 0), &rhs = from_.operand_shape(it, 1);
  const hlo::TypeKind kind = hlo::kind(it.shape.type);
  return !it.as<hlo::DotAttributes>().lhs_contracting.empty() && it.shape.element_count() > 0 &&
         lhs.has_default_layout() && rhs.has_default_layout() && it.shape.has_default_layout() &&
         kind != hlo::TypeKind::Pred && (kind == hlo::TypeKind::Float || hlo::bit_width(it.shape.type) >= 32);
}

ProductCut ProductPartsRewriter::longest_terms(const Instruction& it) const {
  const auto& dot = it.as<hlo::DotAttributes>();
  ProductCut cut;
  for (size_t i = 0; i < dot.lhs_contracting.size(); ++i) {
    const int64_t size = from_.operand_shape(it, 0).dim(dot.lhs_contracting[i]);
    if (i == 0 || size > cut.even.size) cut = {dot.lhs_contracting[i], dot.rhs_contracting[i], {size, 1, size}, {}};
  }
  return cut;
}

InstructionId ProductPartsRewriter::terms_in_parts(const std::string& name, InstructionId operand, int64_t d,
                                                   const EvenCut& cut) {
  const InstructionId filling = cut.missing() > 0 ? zero(shape(operand).type) : operand;
  return in_parts(name, operand, d, cut, filling);
}

hlo::ComputationId ProductPartsRewriter::sum_of(hlo::ElementType type) {
  const Shape scalar = hlo::array_shape(type, {});
  hlo::Computation sum;
  sum.name = "sum.of.parts_" + std::to_string(result_.computations.size());
  for (int64_t number = 0; number < 2; ++number) {
    Instruction parameter;
    parameter.name = number == 0 ? "a" : "b";
    parameter.opcode = Opcode::Parameter;
    parameter.shape = scalar;
    parameter.attributes = hlo::ParameterAttributes{number};
    sum.instructions.push_back(parameter);
  }
  Instruction both;
  both.name = "sum";
  both.opcode = Opcode::Add;
  both.shape = scalar;
  both.operands = {0, 1};
  sum.instructions.push_back(both);
  sum.parameters = {0, 1};
  sum.root = 2;
  result_.computations.push_back(std::move(sum));
  return static_cast<hlo::ComputationId>(result_.computations.size()) - 1;
}

InstructionId ProductPartsRewriter::in_two_steps(const Instruction& it, const Instruction& copy,
                                                 const ProductCut& cut) {
  auto dot = it.as<hlo::DotAttributes>();
  const auto along = static_cast<int64_t>(dot.lhs_batch.size());
  Dimensions parts;
  for (const auto& [lhs, rhs] : cut.whole) {
    parts.push_back(from_.operand_shape(it, 0).dim(lhs));
    std::erase(dot.lhs_contracting, lhs);
    std::erase(dot.rhs_contracting, rhs);
    dot.lhs_batch.push_back(lhs);
    dot.rhs_batch.push_back(rhs);
  }
  InstructionId lhs = copy.operands[0], rhs = copy.operands[1];
  if (cut.even.parts > 1) {
    parts.push_back(cut.even.parts);
    lhs = terms_in_parts(it.name + ".lhs", lhs, cut.lhs, cut.even);
    rhs = terms_in_parts(it.name + ".rhs", rhs, cut.rhs, cut.even);
    dot.lhs_batch = beside_parts(dot.lhs_batch, cut.lhs);
    dot.rhs_batch = beside_parts(dot.rhs_batch, cut.rhs);
    dot.lhs_contracting = beside_parts(dot.lhs_contracting, cut.lhs);
    dot.rhs_contracting = beside_parts(dot.rhs_contracting, cut.rhs);
    dot.lhs_batch.push_back(cut.lhs);
    dot.rhs_batch.push_back(cut.rhs);
  }
  const bool narrow = hlo::kind(it.shape.type) == hlo::TypeKind::Float && hlo::bit_width(it.shape.type) < 32;
  const hlo::ElementType wide = narrow ? hlo::ElementType::F32 : it.shape.type;
  Dimensions sizes = it.shape.dims;
  sizes.insert(sizes.begin() + along, parts.begin(), parts.end());
  Dimensions summed(parts.size());
  std::iota(summed.begin(), summed.end(), along);
  const InstructionId of_parts =
      add(it.name + ".of.parts", Opcode::Dot, hlo::array_shape(wide, sizes), {lhs, rhs}, dot);
  const InstructionId initial = zero(wide);
  const InstructionId sum = add(it.name + ".sum", Opcode::Reduce, hlo::array_shape(wide, it.shape.dims),
                                {of_parts, initial}, hlo::DimensionsAttributes{summed}, {sum_of(wide)});
  return narrow ? add(it.name, Opcode::Convert, it.shape, {sum}) : sum;
}

}  // namespace strata::emitters
