#include "emitters/fusion/share_long_reductions.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "emitters/fusion/bandwidth.h"
#include "emitters/fusion/parts_rewriter.h"
#include "emitters/kinds/reduction_shape.h"
#include "hlo/element_work.h"
#include "hlo/evaluate.h"
#include "indexing/interval.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;
using Dimensions = std::vector<int64_t>;

constexpr int64_t kLineBytes = 128;
constexpr int64_t kLeastRow = 1024;  ///< elements of a part of a row: a block's worth
constexpr int64_t kMostRow = 16384;
constexpr int64_t kLeastPiece = 256;  ///< of one that is a piece in the array's shape: results of parts stay few
constexpr int64_t kLeastColumn = 32;  ///< rows of a part of columns
constexpr int64_t kMostColumn = 1024;
constexpr int64_t kRound = 64;  ///< parts that do not divide begin at multiples of this

/// How the run of reduced dimensions is cut.
struct Cut {
  Dimensions before, after;  ///< sizes of what is kept outside and inside of it
  EvenCut even;
};

class Sharing : PartsRewriter {
 public:
  /// `atomic_too`: also what blocks could add to results atomically, where that is worth a try.
  Sharing(const hlo::Module& module, const Target& target, bool atomic_too)
      : PartsRewriter(module), target_(target), atomic_too_(atomic_too) {}

  std::optional<hlo::Module> run() {
    choose();
    if (cuts_.empty() || (atomic_too_ && !any_atomic_)) return std::nullopt;
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      const auto cut = cuts_.find(static_cast<InstructionId>(&it - from_.instructions.data()));
      return cut == cuts_.end() ? std::nullopt : std::optional(in_two_steps(it, copy, cut->second));
    });
  }

 private:
  void choose() {
    std::vector<InstructionId> candidates;
    for (InstructionId id = 0; id < std::ssize(from_.instructions); ++id) {
      const Instruction& it = from_[id];
      if (it.opcode == Opcode::Reduce && may_share(it)) candidates.push_back(id);
    }
    std::set<InstructionId> computed_with;  // results that others of their shape are computed of
    for (const Instruction& it : from_.instructions) {
      if (!hlo::is_elementwise(it.opcode)) continue;
      for (const InstructionId operand : it.operands) computed_with.insert(through_reshapes(operand));
    }
    for (const InstructionId id : candidates) {
      if (is_atomic(from_[id]) && (!atomic_too_ || !computed_with.contains(id))) continue;
      if (const std::optional<Cut> cut = cut_of(from_[id], /*if_few=*/true)) choose(id, *cut);
    }
    // Others that read the same arrays stay with them in one kernel, which then reads these once.
    for (bool changed = !cuts_.empty(); changed;) {
      changed = false;
      for (const InstructionId id : candidates) {
        if (cuts_.contains(id)) continue;
        const auto reads_with = [&](const auto& other) { return read_the_same(from_[id], from_[other.first]); };
        const auto beside = std::ranges::find_if(cuts_, reads_with);
        if (beside == cuts_.end()) continue;
        const auto waits = [&](const auto& other) { return reads_with(other) && !are_independent(id, other.first); };
        if (!atomic_too_ && is_atomic(from_[id]) && std::ranges::any_of(cuts_, waits)) continue;
        choose(id, beside->second);
        changed = true;
      }
    }
  }

  void choose(InstructionId id, const Cut& cut) {
    cuts_.emplace(id, cut);
    any_atomic_ = any_atomic_ || is_atomic(from_[id]);
  }

  InstructionId through_reshapes(InstructionId id) const {
    while (from_[id].opcode == Opcode::Reshape) id = from_[id].operands[0];
    return id;
  }

  /// Whether two reductions go through arrays of one shape along the same dimensions, and share some of what they read.
  bool read_the_same(const Instruction& a, const Instruction& b) const {
    if (from_.operand_shape(a, 0).dims != from_.operand_shape(b, 0).dims || a.dimensions() != b.dimensions())
      return false;
    const std::set<InstructionId> one = hlo::values_before(from_, a.operands[0]);
    const std::set<InstructionId> other = hlo::values_before(from_, b.operands[0]);
    return std::any_of(one.begin(), one.end(), [&](InstructionId id) {
      const bool made = from_[id].opcode == Opcode::Broadcast || from_[id].opcode == Opcode::Iota;
      return !made && other.contains(id);
    });
  }

  /// Whether neither of two values is computed of the other.
  bool are_independent(InstructionId a, InstructionId b) const {
    const InstructionId first = std::min(a, b);
    std::set<InstructionId> seen;
    std::vector<InstructionId> stack{std::max(a, b)};
    while (!stack.empty()) {
      const InstructionId id = stack.back();
      stack.pop_back();
      if (id == first) return false;
      if (id < first || !seen.insert(id).second) continue;
      stack.insert(stack.end(), from_[id].operands.begin(), from_[id].operands.end());
    }
    return true;
  }

  static const Shape& element(const Shape& shape, size_t i) { return shape.is_array() ? shape : shape.elements[i]; }

  bool may_share(const Instruction& it) const {
    const size_t arrays = it.operands.size() / 2;
    for (size_t i = 0; i < arrays; ++i) {
      const Shape& operand = from_.operand_shape(it, static_cast<int>(i));
      if (!operand.has_default_layout() || operand.element_count() == 0 || !element(it.shape, i).has_default_layout())
        return false;
    }
    return !is_rounded(it) && may_repeat_initial(it);
  }

  /// The operator that combines, where it combines two scalars.
  Opcode combiner(const Instruction& it) const { return result_[it.called[0]].root_instruction().opcode; }

  /// Whether results of parts have fewer bits than sums are kept in.
  bool is_rounded(const Instruction& it) const {
    if (it.operands.size() != 2) return false;
    const bool selects = combiner(it) == Opcode::Maximum || combiner(it) == Opcode::Minimum;
    const hlo::ElementType type = it.shape.type;
    return hlo::kind(type) == hlo::TypeKind::Float && hlo::bit_width(type) < 32 && !selects;
  }

  /// Whether reduction kernels can have blocks share a result by atomic updates.
  bool is_atomic(const Instruction& it) const {
    if (it.operands.size() != 2) return false;
    const Opcode by = combiner(it);
    const bool named = by == Opcode::Add || by == Opcode::Multiply || by == Opcode::Maximum || by == Opcode::Minimum;
    const hlo::TypeKind kind = hlo::kind(it.shape.type);
    const bool number =
        kind == hlo::TypeKind::Float || kind == hlo::TypeKind::Signed || kind == hlo::TypeKind::Unsigned;
    return named && number && hlo::bit_width(it.shape.type) >= 32;
  }

  /// Whether initial values combine with themselves to themselves.
  bool may_repeat_initial(const Instruction& it) const {
    std::vector<hlo::Literal> initial;
    for (size_t i = it.operands.size() / 2; i < it.operands.size(); ++i) {
      const Instruction& value = from_[it.operands[i]];
      if (value.opcode != Opcode::Constant) return false;
      initial.push_back(value.as<hlo::ConstantAttributes>().value);
    }
    std::vector<hlo::Literal> arguments = initial;
    arguments.insert(arguments.end(), initial.begin(), initial.end());
    const auto combined = hlo::evaluate(result_, result_[it.called[0]], arguments);
    if (!combined) return false;
    for (size_t i = 0; i < initial.size(); ++i) {
      const hlo::Literal& one = it.shape.is_array() ? *combined : combined->elements()[i];
      if (one.byte_size() != initial[i].byte_size() ||
          std::memcmp(one.bytes(), initial[i].bytes(), one.byte_size()) != 0)
        return false;
    }
    return true;
  }

  /// Instructions for an element of what is reduced.
  double operations_of_element(const Instruction& it) const {
    double sum = 0;
    for (size_t i = 0; i < it.operands.size() / 2; ++i) sum += hlo::operations_before(from_, it.operands[i]);
    const Computation& by = result_[it.called[0]];
    for (const Instruction& one : by.instructions) {
      const bool computes = one.opcode != Opcode::Parameter && one.opcode != Opcode::Tuple;
      sum += computes ? hlo::element_operations(by, one) : 0;
    }
    return sum;
  }

  /// How many elements of the run of reduced dimensions, which is no row, lie in its innermost dimensions, so that
  /// these are about a part: in the array's own shape nothing is filled up, and what is broadcast along some dimensions
  /// is read at the places of a row.
  static std::optional<int64_t> piece_of(const Shape& operand, const DimensionGroup& run, int64_t most) {
    int64_t piece = 1;
    std::optional<int64_t> best;
    for (size_t i = run.dims.size(); i-- > 1;) {
      piece *= operand.dim(run.dims[i]);
      if (piece >= kLeastPiece && piece <= most) best = piece;
    }
    return best;
  }

  /// Nothing where it is no run of dimensions, or enough blocks compute it.
  std::optional<Cut> cut_of(const Instruction& it, bool if_few) const {
    const Shape& operand = from_.operand_shape(it, 0);
    Cut cut;
    size_t runs = 0;
    const std::vector<DimensionGroup> groups = dimension_groups(operand, it.dimensions());
    for (const DimensionGroup& group : groups) {
      if (group.reduced) {
        ++runs;
        cut.even.size = group.size;
      } else {
        (runs == 0 ? cut.before : cut.after).push_back(group.size);
      }
    }
    if (runs != 1) return std::nullopt;
    int64_t bytes = 0;  // of those elements that lie in memory
    for (size_t i = 0; i < it.operands.size() / 2; ++i) {
      const bool made = from_[it.operands[i]].opcode == Opcode::Iota;
      bytes += made ? 0 : hlo::byte_width(from_.operand_shape(it, static_cast<int>(i)).type);
    }
    const int64_t kept = cut.before.empty() ? 1 : cut.before[0];
    const bool rows = cut.after.empty();
    const int64_t blocks = rows ? kept : kept * indexing::ceil_div(cut.after[0] * bytes, kLineBytes);
    const double all = static_cast<double>(operand.element_count() * bytes);
    const double operations = static_cast<double>(operand.element_count()) * operations_of_element(it);
    if (if_few && !are_few_blocks(all, operations, blocks, target_)) return std::nullopt;
    const int64_t length = cut.even.size;
    const int64_t wanted = indexing::ceil_div(length * blocks, 2 * int64_t{target_.multiprocessors});
    const int64_t part = std::clamp(wanted, rows ? kLeastRow : kLeastColumn, rows ? kMostRow : kMostColumn);
    if (part * 2 > length) return std::nullopt;
    if (rows) {
      if (const auto piece = piece_of(operand, groups.back(), part)) {
        cut.even = {length, length / *piece, *piece};
        return cut;
      }
    }
    cut.even = cut_evenly(length, part, rows ? kRound : 1);
    return cut;
  }

  static Dimensions with(const Cut& cut, const Dimensions& between) {
    Dimensions sizes = cut.before;
    sizes.insert(sizes.end(), between.begin(), between.end());
    sizes.insert(sizes.end(), cut.after.begin(), cut.after.end());
    return sizes;
  }

  /// An operand with the run as one dimension, in parts.
  InstructionId run_in_parts(const std::string& name, InstructionId operand, InstructionId initial, const Cut& cut) {
    if (cut.even.missing() == 0) {
      const Shape parts = hlo::array_shape(shape(operand).type, with(cut, {cut.even.parts, cut.even.part}));
      return add(name + ".parts", Opcode::Reshape, parts, {operand});
    }
    const Shape run = hlo::array_shape(shape(operand).type, with(cut, {cut.even.size}));
    return in_parts(name, add(name + ".run", Opcode::Reshape, run, {operand}), std::ssize(cut.before), cut.even,
                    initial);
  }

  static Shape with_dims(const Shape& like, const Dimensions& dims) {
    if (like.is_array()) return hlo::array_shape(like.type, dims);
    std::vector<Shape> elements;
    for (const Shape& one : like.elements) elements.push_back(hlo::array_shape(one.type, dims));
    return hlo::tuple_shape(std::move(elements));
  }

  InstructionId element_of(const std::string& name, InstructionId of, size_t i) {
    if (shape(of).is_array()) return of;
    const Shape one = shape(of).elements[i];
    return add(name + ".element", Opcode::GetTupleElement, one, {of},
               hlo::TupleIndexAttributes{static_cast<int64_t>(i)});
  }

  InstructionId in_two_steps(const Instruction& it, const Instruction& copy, const Cut& cut) {
    const size_t arrays = it.operands.size() / 2;
    const auto along = static_cast<int64_t>(cut.before.size());
    std::vector<InstructionId> operands = copy.operands;
    for (size_t i = 0; i < arrays; ++i)
      operands[i] = run_in_parts(it.name, copy.operands[i], copy.operands[arrays + i], cut);
    const InstructionId of_parts =
        add(it.name + ".of.parts", Opcode::Reduce, with_dims(it.shape, with(cut, {cut.even.parts})), operands,
            hlo::DimensionsAttributes{{along + 1}}, it.called);
    for (size_t i = 0; i < arrays; ++i) operands[i] = element_of(it.name, of_parts, i);
    const InstructionId of_all = add(it.name + ".of.all", Opcode::Reduce, with_dims(it.shape, with(cut, {})), operands,
                                     hlo::DimensionsAttributes{{along}}, it.called);
    std::vector<InstructionId> shaped;
    for (size_t i = 0; i < arrays; ++i)
      shaped.push_back(
          add(it.name + ".shaped", Opcode::Reshape, element(it.shape, i), {element_of(it.name, of_all, i)}));
    return it.shape.is_array() ? shaped[0] : add(it.name, Opcode::Tuple, it.shape, shaped);
  }

  const Target& target_;
  const bool atomic_too_;
  bool any_atomic_ = false;
  std::map<InstructionId, Cut> cuts_;  ///< of those that are shared
};

}  // namespace

hlo::Module share_long_reductions(const hlo::Module& module, const Target& target) {
  return Sharing(module, target, /*atomic_too=*/false).run().value_or(module);
}

std::optional<hlo::Module> share_atomic_reductions(const hlo::Module& module, const Target& target) {
  return Sharing(module, target, /*atomic_too=*/true).run();
}

}  // namespace strata::emitters
