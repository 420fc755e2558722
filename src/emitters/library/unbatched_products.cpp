#include "emitters/library/unbatched_products.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "emitters/library/call_plan.h"
#include "hlo/entry_rewriter.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Dimensions = std::vector<int64_t>;

bool has(const Dimensions& dimensions, int64_t d) { return std::ranges::find(dimensions, d) != dimensions.end(); }

class Unbatcher : hlo::EntryRewriter {
 public:
  explicit Unbatcher(const hlo::Module& module) : EntryRewriter(module) {}

  hlo::Module run() {
    return rewrite([&](const Instruction& it, const Instruction&) -> std::optional<InstructionId> {
      const auto id = static_cast<InstructionId>(&it - from_.instructions.data());
      if (it.opcode != Opcode::Dot || !is_for_library(from_, id)) return std::nullopt;
      const std::array<Dimensions, 2> left_out = repeated_batches(it);
      return is_worth_it(it, left_out) ? std::optional(written(it, left_out)) : std::nullopt;
    });
  }

 private:
  /// Where all batches are repeated by one operand or the other, the product may be had in any order. Where some stay,
  /// those that the right operand repeats are rows of the left one as they lie if they come last. Else operands and
  /// results change their order, where that moves less than repeating an operand.
  bool is_worth_it(const Instruction& it, const std::array<Dimensions, 2>& left_out) const {
    const size_t all = it.as<hlo::DotAttributes>().lhs_batch.size();
    const size_t repeated = left_out[0].size() + left_out[1].size();
    if (repeated == 0 || repeated == all) return repeated > 0;
    if (left_out[0].empty() && left_out[1].front() == static_cast<int64_t>(all - repeated)) return true;
    const auto bytes_of = [](const hlo::Shape& shape) { return shape.element_count() * hlo::byte_width(shape.type); };
    int64_t moved = bytes_of(it.shape), copied = 0;
    for (const size_t side : {0, 1}) {
      const int64_t bytes = bytes_of(from_.operand_shape(it, side));
      if (!left_out[side].empty()) copied += bytes;
      if (!left_out[1 - side].empty()) moved += bytes;
    }
    return 2 * moved < copied;
  }

  /// Numbers of the batches, ascending, that an operand repeats and the other one does not.
  std::array<Dimensions, 2> repeated_batches(const Instruction& it) const {
    const auto& a = it.as<hlo::DotAttributes>();
    const auto repeats = [&](size_t side, int64_t d) {
      const Instruction& operand = from_[it.operands[side]];
      return operand.opcode == Opcode::Broadcast && !has(operand.dimensions(), d);
    };
    std::array<Dimensions, 2> repeated;
    for (size_t i = 0; i < a.lhs_batch.size(); ++i) {
      const bool left = repeats(0, a.lhs_batch[i]), right = repeats(1, a.rhs_batch[i]);
      if (left != right) repeated[left ? 0 : 1].push_back(static_cast<int64_t>(i));
    }
    return repeated;
  }

  InstructionId written(const Instruction& it, const std::array<Dimensions, 2>& left_out) {
    const auto& a = it.as<hlo::DotAttributes>();
    hlo::DotAttributes made{.precision = a.precision};
    std::vector<InstructionId> operands;
    Dimensions order, dims;  // of the new result: HLO's dimensions
    int64_t next = std::ssize(a.lhs_batch);
    for (int64_t i = 0; i < next; ++i) {
      if (has(left_out[0], i) || has(left_out[1], i)) continue;
      order.push_back(i);
      dims.push_back(it.shape.dim(i));
    }
    const Dimensions stay = order;
    for (const size_t side : {0, 1}) {
      const Dimensions& batch = side == 0 ? a.lhs_batch : a.rhs_batch;
      const Dimensions& terms = side == 0 ? a.lhs_contracting : a.rhs_contracting;
      const hlo::Shape& shape = from_.operand_shape(it, side);
      Dimensions kept;
      for (int64_t d = 0; d < shape.rank(); ++d) {
        const int64_t number = std::ranges::find(batch, d) - batch.begin();
        if (has(left_out[side], number)) continue;
        kept.push_back(d);
        if (has(terms, d) || has(stay, number)) continue;
        order.push_back(has(batch, d) ? number : next++);
        dims.push_back(shape.dim(d));
      }
      for (const int64_t i : stay)
        (side == 0 ? made.lhs_batch : made.rhs_batch)
            .push_back(std::ranges::find(kept, batch[static_cast<size_t>(i)]) - kept.begin());
      for (const int64_t d : terms)
        (side == 0 ? made.lhs_contracting : made.rhs_contracting).push_back(std::ranges::find(kept, d) - kept.begin());
      operands.push_back(without(it, side, kept));
    }
    const InstructionId dot =
        add(it.name + ".unbatched", Opcode::Dot, hlo::array_shape(it.shape.type, dims), operands, made);
    if (std::ranges::is_sorted(order)) return dot;
    Dimensions back(order.size());
    for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    return add(it.name, Opcode::Transpose, it.shape, {dot}, hlo::DimensionsAttributes{back});
  }

  /// An operand of these dimensions alone; all others of it are repeated.
  InstructionId without(const Instruction& it, size_t side, const Dimensions& kept) {
    const InstructionId operand = it.operands[side];
    const hlo::Shape& shape = from_[operand].shape;
    if (std::ssize(kept) == shape.rank()) return moved_[static_cast<size_t>(operand)];
    const Instruction& broadcast = from_[operand];
    const InstructionId source = broadcast.operands[0];
    Dimensions places, dims, all(kept.size());
    for (const int64_t d : broadcast.dimensions()) places.push_back(std::ranges::find(kept, d) - kept.begin());
    for (const int64_t d : kept) dims.push_back(shape.dim(d));
    std::iota(all.begin(), all.end(), 0);
    if (places == all) return moved_[static_cast<size_t>(source)];
    return add(broadcast.name + ".unbatched", Opcode::Broadcast, hlo::array_shape(shape.type, dims),
               {moved_[static_cast<size_t>(source)]}, hlo::DimensionsAttributes{places});
  }
};

}  // namespace

hlo::Module with_unbatched_products(const hlo::Module& module, LibraryUse use) {
  if (use == LibraryUse::Never) return module;
  return Unbatcher(module).run();
}

}  // namespace strata::emitters
