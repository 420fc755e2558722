#include "emitters/fusion/nest_reductions.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "hlo/entry_rewriter.h"
#include "hlo/evaluate.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Dimensions = std::vector<int64_t>;

bool contains(const Dimensions& all, int64_t d) { return std::find(all.begin(), all.end(), d) != all.end(); }

class Nesting : hlo::EntryRewriter {
 public:
  explicit Nesting(const hlo::Module& module) : EntryRewriter(module) {}

  hlo::Module run() {
    for (InstructionId id = 0; id < std::ssize(from_.instructions); ++id) {
      if (may_nest(from_[id])) of_operand_[from_[id].operands[0]].push_back(id);
    }
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      const auto id = static_cast<InstructionId>(&it - from_.instructions.data());
      const bool nests = it.opcode == Opcode::Reduce && (made_.contains(id) || inner_of(id));
      return nests ? std::optional(make(id, copy.operands[1])) : std::nullopt;
    });
  }

 private:
  const Instruction& combiner(const Instruction& it) const { return result_[it.called[0]].root_instruction(); }

  const hlo::Literal& initial(const Instruction& it) const {
    return from_[it.operands[1]].as<hlo::ConstantAttributes>().value;
  }

  bool may_nest(const Instruction& it) const {
    if (it.opcode != Opcode::Reduce || it.operands.size() != 2 || !it.shape.is_array()) return false;
    if (from_[it.operands[1]].opcode != Opcode::Constant) return false;
    const hlo::Computation& by = result_[it.called[0]];
    const Instruction& root = combiner(it);
    const bool of_both = by.instructions.size() == 3 && root.operands.size() == 2 &&
                         root.operands[0] != root.operands[1] && root.shape.type == it.shape.type;
    return of_both && keeps_precision(root) && repeats_initial(it);
  }

  static bool keeps_precision(const Instruction& root) {
    switch (root.opcode) {
      case Opcode::Maximum:
      case Opcode::Minimum:
      case Opcode::And:
      case Opcode::Or:
        return true;
      case Opcode::Add:
      case Opcode::Multiply:
        return hlo::kind(root.shape.type) != hlo::TypeKind::Float || hlo::bit_width(root.shape.type) >= 32;
      default:
        return false;
    }
  }

  /// Whether the initial value combines with itself to itself.
  bool repeats_initial(const Instruction& it) const {
    const hlo::Literal& value = initial(it);
    const std::vector<hlo::Literal> arguments{value, value};
    const auto combined = hlo::evaluate(result_, result_[it.called[0]], arguments);
    return combined && combined->byte_size() == value.byte_size() &&
           std::memcmp(combined->bytes(), value.bytes(), value.byte_size()) == 0;
  }

  /// The reduction whose results another one is to be of; both may nest.
  std::optional<InstructionId> inner_of(InstructionId id) const {
    const Instruction& it = from_[id];
    const auto readers = it.operands.empty() ? of_operand_.end() : of_operand_.find(it.operands[0]);
    if (readers == of_operand_.end() || !std::binary_search(readers->second.begin(), readers->second.end(), id))
      return std::nullopt;
    std::optional<InstructionId> best;
    for (const InstructionId other : readers->second) {
      const Instruction& inner = from_[other];
      const Dimensions &all = it.dimensions(), &some = inner.dimensions();
      const bool fewer = some.size() < all.size() && !some.empty() &&
                         std::all_of(some.begin(), some.end(), [&](int64_t d) { return contains(all, d); });
      if (!fewer || combiner(inner).opcode != combiner(it).opcode || !same_initial(inner, it)) continue;
      // Results that are more than half as many as the elements save too little.
      if (inner.shape.element_count() * 2 > from_.operand_shape(inner, 0).element_count()) continue;
      if (!best || inner.shape.element_count() < from_[*best].shape.element_count()) best = other;
    }
    return best;
  }

  bool same_initial(const Instruction& a, const Instruction& b) const {
    const hlo::Literal &one = initial(a), &other = initial(b);
    return one.byte_size() == other.byte_size() && std::memcmp(one.bytes(), other.bytes(), one.byte_size()) == 0;
  }

  /// A reduction in the new entry, with those that it is of, from an initial value there that equals its own.
  InstructionId make(InstructionId id, InstructionId initial) {
    if (const auto known = made_.find(id); known != made_.end()) return known->second;
    if (id < std::ssize(moved_)) return moved_[static_cast<size_t>(id)];  // it stands before, as it was
    const Instruction& it = from_[id];
    InstructionId operand = moved_[static_cast<size_t>(it.operands[0])];
    Dimensions dimensions = it.dimensions();
    if (const std::optional<InstructionId> inner = inner_of(id)) {
      operand = make(*inner, initial);
      const Dimensions& done = from_[*inner].dimensions();
      dimensions.clear();
      for (const int64_t d : it.dimensions()) {
        if (contains(done, d)) continue;
        dimensions.push_back(d - std::count_if(done.begin(), done.end(), [&](int64_t one) { return one < d; }));
      }
    }
    return made_[id] = add(it.name, Opcode::Reduce, it.shape, {operand, initial},
                           hlo::DimensionsAttributes{{dimensions}}, it.called);
  }

  std::map<InstructionId, std::vector<InstructionId>> of_operand_;  ///< reductions that may nest, in order
  std::map<InstructionId, InstructionId> made_;                     ///< what they have become
};

}  // namespace

hlo::Module nest_reductions(const hlo::Module& module) { return Nesting(module).run(); }

}  // namespace strata::emitters
