#include "emitters/fusion/sink_transposes.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "hlo/entry_rewriter.h"
#include "hlo/users.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Dimensions = std::vector<int64_t>;

constexpr int64_t kLeastElements = 1 << 14;  ///< of arrays that are looked at
/// Elements of a broadcast for one of its operand: a transpose of the operand is small beside it.
constexpr int64_t kRepeated = 8;

/// Where a transpose puts dimensions of one element changes nothing in memory. A permutation with these first, in their
/// order, and the others where they come among themselves.
Dimensions with_units_first(const Dimensions& permutation, const Dimensions& dims) {
  Dimensions sources;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] != 1) sources.push_back(permutation[d]);
  }
  std::sort(sources.begin(), sources.end());
  Dimensions result(dims.size());
  const auto units = static_cast<int64_t>(dims.size() - sources.size());
  int64_t next = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    result[d] = dims[d] == 1
                    ? next++
                    : units + (std::lower_bound(sources.begin(), sources.end(), permutation[d]) - sources.begin());
  }
  return result;
}

/// Whether a permutation leaves elements where they are in memory.
bool moves_nothing(const Dimensions& permutation, const Dimensions& dims) {
  Dimensions large;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] != 1) large.push_back(permutation[d]);
  }
  return std::is_sorted(large.begin(), large.end());
}

bool have_same_units(const Dimensions& a, const Dimensions& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](int64_t x, int64_t y) { return (x == 1) == (y == 1); });
}

/// What lies at each dimension of a transpose, where it lies in the transposed array.
template <typename T>
std::vector<T> as_they_lie(const std::vector<T>& some, const Dimensions& by) {
  std::vector<T> result(by.size());
  for (size_t d = 0; d < by.size(); ++d) result[static_cast<size_t>(by[d])] = some[d];
  return result;
}

/// Of an operator along dimensions, its attributes where these lie in the transposed array.
hlo::Attributes attributes_as_they_lie(const Instruction& it, const Dimensions& by) {
  if (it.opcode == Opcode::Concatenate)
    return hlo::DimensionsAttributes{{by[static_cast<size_t>(it.dimensions().front())]}};
  if (it.opcode == Opcode::Slice) {
    const auto& a = it.as<hlo::SliceAttributes>();
    return hlo::SliceAttributes{as_they_lie(a.starts, by), as_they_lie(a.limits, by), as_they_lie(a.strides, by)};
  }
  if (it.opcode == Opcode::Pad) {
    const auto& a = it.as<hlo::PadAttributes>();
    return hlo::PadAttributes{as_they_lie(a.low, by), as_they_lie(a.high, by), as_they_lie(a.interior, by)};
  }
  if (it.opcode == Opcode::ReduceWindow)
    return hlo::WindowAttributes{as_they_lie(it.as<hlo::WindowAttributes>().window, by)};
  return it.attributes;
}

/// Operands that have the dimensions of the result, each of them in its place: the others are scalars.
size_t arrays_of(const Instruction& it) {
  switch (it.opcode) {
    case Opcode::Slice:
      return 1;
    case Opcode::Pad:
    case Opcode::ReduceWindow:
      return it.operands.size() == 2 ? 1 : 0;
    case Opcode::Concatenate:
      return it.operands.size();
    default:
      return hlo::is_elementwise(it.opcode) ? it.operands.size() : 0;
  }
}

class Sinking : hlo::EntryRewriter {
 public:
  explicit Sinking(const hlo::Module& module) : EntryRewriter(module), users_(hlo::users_of(from_)) {}

  std::optional<hlo::Module> run() {
    find_permutations();
    bool changed = false;
    hlo::Module module = rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      const std::optional<InstructionId> result = replaced(it, copy);
      changed = changed || result;
      return result;
    });
    return changed ? std::optional(std::move(module)) : std::nullopt;
  }

 private:
  InstructionId id_of(const Instruction& it) const {
    return static_cast<InstructionId>(&it - from_.instructions.data());
  }
  const Dimensions& permutation(InstructionId id) const { return permutations_[static_cast<size_t>(id)]; }

  /// Of values that are transposes of others by a permutation: that; empty for all else. `neutral_` are values that
  /// are as easily computed in any order.
  void find_permutations() {
    permutations_.resize(from_.instructions.size());
    neutral_.assign(from_.instructions.size(), false);
    back_.assign(from_.instructions.size(), false);
    for (InstructionId id = 0; id < std::ssize(from_.instructions); ++id) {
      const Instruction& it = from_[id];
      if (!it.shape.is_array() || !it.shape.has_default_layout()) continue;
      if (it.shape.element_count() < kLeastElements) continue;
      Dimensions permutation = permutation_of(it);
      neutral_[static_cast<size_t>(id)] = is_neutral(it);
      if (permutation.empty()) continue;
      if (!moves_nothing(permutation, it.shape.dims)) {
        permutations_[static_cast<size_t>(id)] = with_units_first(permutation, it.shape.dims);
      } else {
        back_[static_cast<size_t>(id)] = it.opcode == Opcode::Transpose && !this->permutation(it.operands[0]).empty();
      }
    }
  }

  Dimensions permutation_of(const Instruction& it) const {
    if (it.opcode == Opcode::Transpose) {
      const Dimensions& inner = permutation(it.operands[0]);
      Dimensions all = it.dimensions();
      if (!from_.operand_shape(it, 0).has_default_layout()) return {};
      for (int64_t& d : all) d = inner.empty() ? d : inner[static_cast<size_t>(d)];
      return all;
    }
    if (it.opcode == Opcode::Reshape) return permutation_of_reshape(it);
    Dimensions common;
    for (size_t i = 0; i < arrays_of(it); ++i) {
      const InstructionId operand = it.operands[i];
      const Dimensions& dims = from_[operand].shape.dims;
      if (hlo::is_elementwise(it.opcode) ? dims != it.shape.dims : !have_same_units(dims, it.shape.dims)) return {};
      if (neutral_[static_cast<size_t>(operand)]) continue;
      const Dimensions& one = permutation(operand);
      if (one.empty() || (!common.empty() && one != common)) return {};
      common = one;
    }
    return common;
  }

  /// Where dimensions of one element come or go.
  Dimensions permutation_of_reshape(const Instruction& it) const {
    const Dimensions& by = permutation(it.operands[0]);
    const Dimensions &from = from_.operand_shape(it, 0).dims, &to = it.shape.dims;
    if (by.empty()) return {};
    Dimensions result(to.size(), 0);
    size_t d = 0;
    for (size_t i = 0; i < to.size(); ++i) {
      if (to[i] == 1) continue;
      while (d < from.size() && from[d] == 1) ++d;
      if (d == from.size() || from[d] != to[i]) return {};
      result[i] = by[d++];
    }
    return result;
  }

  bool is_neutral(const Instruction& it) const {
    if (it.opcode == Opcode::Iota) return true;
    // Several dimensions could come out in another order.
    if (it.opcode == Opcode::Broadcast)
      return it.dimensions().size() <= 1 ||
             from_.operand_shape(it, 0).element_count() * kRepeated <= it.shape.element_count();
    return hlo::is_elementwise(it.opcode) && std::all_of(it.operands.begin(), it.operands.end(), [&](InstructionId o) {
             return neutral_[static_cast<size_t>(o)] && from_[o].shape.dims == it.shape.dims;
           });
  }

  std::optional<InstructionId> replaced(const Instruction& it, const Instruction& copy) {
    if (back_[static_cast<size_t>(id_of(it))])
      return reshaped(as_it_lies(it.operands[0], permutation(it.operands[0])), it.shape.dims);
    if (it.opcode == Opcode::Slice) return transposed_slice(it);
    if (it.opcode != Opcode::Reduce || it.operands.size() != 2 || !it.shape.is_array()) return std::nullopt;
    const Dimensions& by = permutation(it.operands[0]);
    if (by.empty() || !it.shape.has_default_layout()) return std::nullopt;
    Dimensions over, kept;
    for (int64_t d = 0; d < std::ssize(by); ++d) {
      const bool reduced = std::find(it.dimensions().begin(), it.dimensions().end(), d) != it.dimensions().end();
      (reduced ? over : kept).push_back(by[static_cast<size_t>(d)]);
    }
    // Where results have another order: that of what is kept, as it lies.
    Dimensions order(kept.size()), sizes;
    for (size_t i = 0; i < kept.size(); ++i) {
      order[i] = std::count_if(kept.begin(), kept.end(), [&](int64_t other) { return other < kept[i]; });
    }
    Dimensions sorted = kept;
    std::sort(sorted.begin(), sorted.end());
    std::sort(over.begin(), over.end());
    const InstructionId operand = as_it_lies(it.operands[0], by);
    for (const int64_t d : sorted) sizes.push_back(shape(operand).dim(d));
    const InstructionId result = add(it.name, Opcode::Reduce, hlo::array_shape(it.shape.type, sizes),
                                     {operand, copy.operands[1]}, hlo::DimensionsAttributes{{over}}, it.called);
    if (moves_nothing(order, it.shape.dims)) return reshaped(result, it.shape.dims);
    return add(it.name, Opcode::Transpose, it.shape, {result}, hlo::DimensionsAttributes{{order}});
  }

  /// A part of a transpose that nothing else reads as the transpose of a part: what cuts channels off that a library
  /// filled up then stands before the transpose, whose tiles take what comes behind it.
  std::optional<InstructionId> transposed_slice(const Instruction& it) {
    const InstructionId id = id_of(it), whole = it.operands[0];
    if (permutation(id).empty() || from_[whole].opcode != Opcode::Transpose || !hlo::only_user(users_, whole))
      return std::nullopt;
    const Dimensions& by = permutation(id);
    return add(it.name, Opcode::Transpose, it.shape, {as_it_lies(id, by)}, hlo::DimensionsAttributes{{by}});
  }

  InstructionId reshaped(InstructionId id, const Dimensions& dims) {
    if (shape(id).dims == dims) return id;
    return add(entry_[id].name + ".reshaped", Opcode::Reshape, hlo::array_shape(shape(id).type, dims), {id});
  }

  /// The value of which one is the transpose by a permutation.
  InstructionId as_it_lies(InstructionId id, const Dimensions& by) {
    if (const auto known = made_.find({id, by}); known != made_.end()) return known->second;
    const Instruction& it = from_[id];
    const Dimensions dims = as_they_lie(it.shape.dims, by);
    InstructionId result;
    if (it.opcode == Opcode::Transpose || it.opcode == Opcode::Reshape) {
      const Dimensions& inner = permutation(it.operands[0]);
      result = reshaped(inner.empty() ? moved_[static_cast<size_t>(it.operands[0])] : as_it_lies(it.operands[0], inner),
                        dims);
    } else if (it.opcode == Opcode::Broadcast) {
      result = broadcast_as_it_lies(it, dims, by);
    } else if (it.opcode == Opcode::Iota) {
      result = add(it.name, it.opcode, hlo::array_shape(it.shape.type, dims), {},
                   hlo::DimensionsAttributes{{by[static_cast<size_t>(it.dimensions().front())]}});
    } else {
      std::vector<InstructionId> operands;
      for (size_t i = 0; i < it.operands.size(); ++i) {
        const InstructionId operand = it.operands[i];
        operands.push_back(i < arrays_of(it) ? as_it_lies(operand, by) : moved_[static_cast<size_t>(operand)]);
      }
      result = add(it.name, it.opcode, hlo::array_shape(it.shape.type, dims), operands, attributes_as_they_lie(it, by),
                   it.called);
    }
    return made_[{id, by}] = result;
  }

  /// Of an operand with its dimensions in the order in which they then come.
  InstructionId broadcast_as_it_lies(const Instruction& it, const Dimensions& dims, const Dimensions& by) {
    InstructionId operand = moved_[static_cast<size_t>(it.operands[0])];
    Dimensions order(it.dimensions().size());
    std::iota(order.begin(), order.end(), 0);
    const auto place = [&](int64_t d) { return by[static_cast<size_t>(it.dimensions()[static_cast<size_t>(d)])]; };
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return place(a) < place(b); });
    Dimensions sizes, places;
    for (const int64_t d : order) {
      sizes.push_back(shape(operand).dim(d));
      places.push_back(place(d));
    }
    if (moves_nothing(order, sizes)) {
      operand = reshaped(operand, sizes);
    } else {
      operand = add(it.name + ".operand", Opcode::Transpose, hlo::array_shape(it.shape.type, sizes), {operand},
                    hlo::DimensionsAttributes{{order}});
    }
    return add(it.name, Opcode::Broadcast, hlo::array_shape(it.shape.type, dims), {operand},
               hlo::DimensionsAttributes{{places}});
  }

  const hlo::Users users_;
  std::vector<Dimensions> permutations_;
  std::vector<bool> neutral_;
  std::vector<bool> back_;  ///< transposes of transposes of something, by which that is as it was
  std::map<std::pair<InstructionId, Dimensions>, InstructionId> made_;
};

}  // namespace

std::optional<hlo::Module> sink_transposes(const hlo::Module& module) { return Sinking(module).run(); }

}  // namespace strata::emitters
