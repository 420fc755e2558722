#include "emitters/fusion/nest_reductions.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "emitters/fusion/repeatable_reduction.h"
#include "hlo/entry_rewriter.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Dimensions = std::vector<int64_t>;

bool contains(const Dimensions& all, int64_t d) { return std::find(all.begin(), all.end(), d) != all.end(); }

/// Whether all dimensions of `some` are of `all`, which has more.
bool are_fewer(const Dimensions& some, const Dimensions& all) {
  return some.size() < all.size() && !some.empty() &&
         std::all_of(some.begin(), some.end(), [&](int64_t d) { return contains(all, d); });
}

/// The dimensions of `all` but for `done`, as they are numbered when `done` are gone.
Dimensions left(const Dimensions& all, const Dimensions& done) {
  Dimensions dimensions;
  for (const int64_t d : all) {
    if (contains(done, d)) continue;
    dimensions.push_back(d - std::count_if(done.begin(), done.end(), [&](int64_t one) { return one < d; }));
  }
  return dimensions;
}

class Nesting : hlo::EntryRewriter {
 public:
  explicit Nesting(const hlo::Module& module) : EntryRewriter(module) {}

  std::optional<hlo::Module> run_beside() {
    bool changed = false;
    hlo::Module module = rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      if (!may_nest(it)) return std::nullopt;
      const Instruction* beside = beside_of(it);
      if (beside == nullptr) return std::nullopt;
      changed = true;
      const Dimensions done = beside->dimensions();
      hlo::Shape rows = hlo::array_shape(
          it.shape.type, beside->shape.is_tuple() ? beside->shape.elements[0].dims : beside->shape.dims);
      const InstructionId inner = add(it.name + ".of.rows", Opcode::Reduce, std::move(rows), copy.operands,
                                      hlo::DimensionsAttributes{{done}}, it.called);
      return add(it.name, Opcode::Reduce, it.shape, {inner, copy.operands[1]},
                 hlo::DimensionsAttributes{{left(it.dimensions(), done)}}, it.called);
    });
    return changed ? std::optional(std::move(module)) : std::nullopt;
  }

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
  static constexpr int64_t kLeastRow = 64;  ///< elements of a row that is reduced for all

  const Instruction& combiner(const Instruction& it) const { return result_[it.called[0]].root_instruction(); }

  const hlo::Literal& initial(const Instruction& it) const {
    return from_[it.operands[1]].as<hlo::ConstantAttributes>().value;
  }

  bool may_nest(const Instruction& it) const { return is_repeatable_reduction(result_, from_, it); }

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
      if (!are_fewer(some, all) || combiner(inner).opcode != combiner(it).opcode || !same_initial(inner, it)) continue;
      // Results that are more than half as many as the elements save too little.
      if (inner.shape.element_count() * 2 > from_.operand_shape(inner, 0).element_count()) continue;
      if (!best || inner.shape.element_count() < from_[*best].shape.element_count()) best = other;
    }
    return best;
  }

  /// Another reduction, over some of the dimensions, of an array of the same size that is computed of some of the same
  /// arrays; the one with the fewest results.
  const Instruction* beside_of(const Instruction& it) const {
    const hlo::Shape& reduced = from_.operand_shape(it, 0);
    const std::set<InstructionId> read = arrays_read(it.operands[0]);
    const Instruction* best = nullptr;
    int64_t fewest = reduced.element_count() / kLeastRow;
    for (const Instruction& other : from_.instructions) {
      if (other.opcode != Opcode::Reduce || !are_fewer(other.dimensions(), it.dimensions())) continue;
      if (from_.operand_shape(other, 0).dims != reduced.dims) continue;
      const hlo::Shape& result = other.shape.is_tuple() ? other.shape.elements[0] : other.shape;
      if (result.element_count() > fewest) continue;
      const std::set<InstructionId> others = arrays_read(other.operands[0]);
      if (std::none_of(others.begin(), others.end(), [&](InstructionId id) { return read.contains(id); })) continue;
      best = &other;
      fewest = result.element_count();
    }
    return best;
  }

  /// The arrays of a value's size from which elementwise operators compute it, and those between.
  std::set<InstructionId> arrays_read(InstructionId value) const {
    constexpr size_t kMost = 64;
    std::set<InstructionId> seen;
    std::vector<InstructionId> stack{value};
    while (!stack.empty() && seen.size() < kMost) {
      const InstructionId id = stack.back();
      stack.pop_back();
      if (!from_[id].shape.is_array() || from_[id].shape.dims != from_[value].shape.dims) continue;
      if (from_[id].opcode == Opcode::Broadcast || !seen.insert(id).second) continue;
      if (!hlo::is_elementwise(from_[id].opcode)) continue;
      stack.insert(stack.end(), from_[id].operands.begin(), from_[id].operands.end());
    }
    return seen;
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
      dimensions = left(it.dimensions(), from_[*inner].dimensions());
    }
    return made_[id] = add(it.name, Opcode::Reduce, it.shape, {operand, initial},
                           hlo::DimensionsAttributes{{dimensions}}, it.called);
  }

  std::map<InstructionId, std::vector<InstructionId>> of_operand_;  ///< reductions that may nest, in order
  std::map<InstructionId, InstructionId> made_;                     ///< what they have become
};

}  // namespace

hlo::Module nest_reductions(const hlo::Module& module) { return Nesting(module).run(); }

std::optional<hlo::Module> nest_beside_reductions(const hlo::Module& module) { return Nesting(module).run_beside(); }

}  // namespace strata::emitters
