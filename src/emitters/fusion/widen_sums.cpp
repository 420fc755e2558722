#include "emitters/fusion/widen_sums.h"

#include <map>
#include <optional>
#include <utility>

#include "hlo/compute.h"
#include "hlo/entry_rewriter.h"
#include "hlo/indexing/evaluations.h"

namespace strata::emitters {
namespace {

using hlo::ComputationId;
using hlo::ElementType;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

class Widening : hlo::EntryRewriter {
 public:
  explicit Widening(const hlo::Module& module) : EntryRewriter(module) {}

  hlo::Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      return is_narrow(it) ? std::optional(widened(it, copy)) : std::nullopt;
    });
  }

 private:
  bool is_narrow(const Instruction& it) const {
    if (it.opcode != Opcode::Reduce || it.operands.size() != 2 || !it.shape.is_array()) return false;
    const ElementType type = it.shape.type;
    if (hlo::kind(type) != hlo::TypeKind::Float || hlo::bit_width(type) >= 32) return false;
    const hlo::Computation& by = result_[it.called[0]];
    const Instruction& root = by.root_instruction();
    const bool combines = (root.opcode == Opcode::Add || root.opcode == Opcode::Multiply) &&
                          by.instructions.size() == 3 && root.operands[0] != root.operands[1];
    return combines && from_[it.operands[1]].opcode == Opcode::Constant && indexing::is_long_reduction(from_, it);
  }

  InstructionId widened(const Instruction& it, const Instruction& copy) {
    const auto wide = [](hlo::Shape shape) {
      shape.type = ElementType::F32;
      return shape;
    };
    const InstructionId terms =
        add(it.name + ".terms", Opcode::Convert, wide(from_.operand_shape(it, 0)), {copy.operands[0]});
    const hlo::Literal& narrow = from_[it.operands[1]].as<hlo::ConstantAttributes>().value;
    const InstructionId initial = scalar(it.name + ".initial", ElementType::F32, narrow.get<float>(0));
    const InstructionId sum = add(it.name + ".wide", Opcode::Reduce, wide(it.shape), {terms, initial}, it.attributes,
                                  {combiner(it.called[0])});
    return add(it.name, Opcode::Convert, it.shape, {sum});
  }

  /// The operator of a computation, of f32.
  ComputationId combiner(ComputationId of) {
    const auto [known, is_new] = combiners_.try_emplace(result_[of].root_instruction().opcode, 0);
    if (!is_new) return known->second;
    hlo::Computation by = result_[of];
    by.name += ".wide";
    for (Instruction& it : by.instructions) it.shape.type = ElementType::F32;
    known->second = static_cast<ComputationId>(result_.computations.size());
    result_.computations.push_back(std::move(by));
    return known->second;
  }

  std::map<Opcode, ComputationId> combiners_;  ///< of f32, by operator
};

}  // namespace

hlo::Module widen_sums(const hlo::Module& module) { return Widening(module).run(); }

}  // namespace strata::emitters
