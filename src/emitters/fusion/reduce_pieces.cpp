#include "emitters/fusion/reduce_pieces.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "emitters/fusion/repeatable_reduction.h"
#include "hlo/entry_rewriter.h"
#include "hlo/users.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;

/// What a reduction along a concatenated dimension goes through.
struct Chain {
  int64_t dimension = 0;
  std::set<InstructionId> values;  ///< elementwise operators and concatenations, up to what is reduced
  std::vector<int64_t> ends;       ///< of the pieces, along the dimension
};

/// One piece of a chain's values in the new entry.
struct Piece {
  int64_t start = 0, end = 0;
  std::vector<int64_t> dims;                    ///< of its arrays
  std::map<InstructionId, InstructionId> made;  ///< by instruction of the old entry
};

class Cutting : hlo::EntryRewriter {
 public:
  Cutting(const hlo::Module& module, const Target& target) : EntryRewriter(module), target_(target) {}

  hlo::Module run() {
    choose();
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      const auto chain = chains_.find(static_cast<InstructionId>(&it - from_.instructions.data()));
      return chain == chains_.end() ? std::nullopt : std::optional(by_pieces(it, copy, chain->second));
    });
  }

 private:
  static constexpr size_t kMostValues = 256;  ///< that are computed once more for each piece

  void choose() {
    const auto joins = [](const Instruction& it) { return it.opcode == Opcode::Concatenate; };
    if (std::ranges::none_of(from_.instructions, joins)) return;
    for (InstructionId id = 0; id < std::ssize(from_.instructions); ++id) {
      const Instruction& it = from_[id];
      if (!is_repeatable_reduction(result_, from_, it) || !it.shape.has_default_layout()) continue;
      for (const int64_t d : it.dimensions()) {
        std::optional<Chain> chain = chain_of(it.operands[0], d);
        if (!chain || !is_worthwhile(*chain)) continue;
        chains_.emplace(id, *std::move(chain));
        break;
      }
    }
    // What something else reads is written anyway.
    if (chains_.empty()) return;
    const hlo::Users users = hlo::users_of(from_);
    for (bool changed = true; changed;) {
      std::set<InstructionId> gone;  // values that nothing would compute any more
      for (const auto& [id, chain] : chains_) gone.insert(chain.values.begin(), chain.values.end());
      const auto is_read = [&](InstructionId value) {
        return std::ranges::any_of(users[static_cast<size_t>(value)], [&](InstructionId user) {
          return user == hlo::kCaller || (!gone.contains(user) && !chains_.contains(user));
        });
      };
      changed =
          std::erase_if(chains_, [&](const auto& one) { return std::ranges::any_of(one.second.values, is_read); }) > 0;
    }
  }

  /// Nothing where no concatenation along the dimension is part of it.
  std::optional<Chain> chain_of(InstructionId reduced, int64_t d) const {
    Chain chain{d, {}, {}};
    std::set<int64_t> ends;
    std::vector<InstructionId> stack{reduced};
    while (!stack.empty()) {
      if (chain.values.size() > kMostValues) return std::nullopt;
      const InstructionId id = stack.back();
      stack.pop_back();
      const Instruction& it = from_[id];
      const bool joins = it.opcode == Opcode::Concatenate && it.dimensions()[0] == d;
      if (it.shape.dims != from_[reduced].shape.dims || !it.shape.has_default_layout()) continue;
      if ((!joins && !hlo::is_elementwise(it.opcode)) || !chain.values.insert(id).second) continue;
      if (!joins) {
        stack.insert(stack.end(), it.operands.begin(), it.operands.end());
        continue;
      }
      int64_t end = 0;
      for (const InstructionId piece : it.operands) {
        if (from_[piece].shape.dim(d) > 0) ends.insert(end += from_[piece].shape.dim(d));
      }
    }
    if (ends.size() < 2) return std::nullopt;
    chain.ends.assign(ends.begin(), ends.end());
    return chain;
  }

  bool is_worthwhile(const Chain& chain) const {
    double bytes = 0;
    for (const InstructionId id : chain.values) {
      const Shape& shape = from_[id].shape;
      if (from_[id].opcode == Opcode::Concatenate)
        bytes += static_cast<double>(shape.element_count() * hlo::byte_width(shape.type));
    }
    return bytes / target_.rates.memory_bandwidth > static_cast<double>(chain.ends.size()) * target_.kernel_seconds();
  }

  InstructionId by_pieces(const Instruction& it, const Instruction& copy, const Chain& chain) {
    const Opcode by = result_[it.called[0]].root_instruction().opcode;
    std::optional<InstructionId> all;
    int64_t start = 0;
    for (const int64_t end : chain.ends) {
      Piece piece{start, end, from_[it.operands[0]].shape.dims, {}};
      piece.dims[static_cast<size_t>(chain.dimension)] = end - start;
      std::vector<int64_t> reduced = it.dimensions();
      if (piece.dims.size() == 1) {  // a vector may have been an array of more dimensions
        piece.dims = dims_before(chain, start, end).value_or(piece.dims);
        reduced.resize(piece.dims.size());
        std::iota(reduced.begin(), reduced.end(), int64_t{0});
      }
      const InstructionId value = part_of(it.operands[0], chain, piece);
      const InstructionId one = add(it.name + ".piece", Opcode::Reduce, it.shape, {value, copy.operands[1]},
                                    hlo::DimensionsAttributes{{reduced}}, it.called);
      all = all ? add(it.name + ".pieces", by, it.shape, {*all, one}) : one;
      start = end;
    }
    return *all;
  }

  /// The operand of a concatenation that has these elements, and where it begins.
  std::pair<InstructionId, int64_t> operand_at(const Instruction& it, int64_t d, int64_t start) const {
    int64_t from = 0;
    for (const InstructionId operand : it.operands) {
      const int64_t size = from_[operand].shape.dim(d);
      if (start < from + size) return {operand, from};
      from += size;
    }
    return {it.operands.back(), from};  // not reached: `start` lies within
  }

  /// The dimensions of an array that was reshaped to a vector to be the elements [start, end).
  std::optional<std::vector<int64_t>> dims_before(const Chain& chain, int64_t start, int64_t end) const {
    for (const InstructionId id : chain.values) {
      if (from_[id].opcode != Opcode::Concatenate) continue;
      const Instruction& operand = from_[operand_at(from_[id], chain.dimension, start).first];
      if (operand.opcode != Opcode::Reshape || operand.shape.dim(0) != end - start) continue;
      const Shape& before = from_.operand_shape(operand, 0);
      if (before.has_default_layout()) return before.dims;
    }
    return std::nullopt;
  }

  /// An array of the new entry with the piece's dimensions.
  InstructionId shaped(InstructionId id, const Piece& piece) {
    if (shape(id).dims == piece.dims) return id;
    const Instruction& it = entry_.instructions[static_cast<size_t>(id)];
    if (it.opcode == Opcode::Reshape && shape(it.operands[0]).dims == piece.dims &&
        shape(it.operands[0]).has_default_layout())
      return it.operands[0];
    const std::string name = it.name + ".shaped";
    return add(name, Opcode::Reshape, hlo::array_shape(shape(id).type, piece.dims), {id});
  }

  InstructionId sliced(InstructionId id, int64_t d, int64_t start, int64_t end, const Piece& piece) {
    const Shape whole = shape(id);
    if (start == 0 && end == whole.dim(d)) return shaped(id, piece);
    hlo::SliceAttributes cut{std::vector<int64_t>(whole.dims.size(), 0), whole.dims,
                             std::vector<int64_t>(whole.dims.size(), 1)};
    cut.starts[static_cast<size_t>(d)] = start;
    cut.limits[static_cast<size_t>(d)] = end;
    std::vector<int64_t> dims = whole.dims;
    dims[static_cast<size_t>(d)] = end - start;
    const std::string name = entry_.instructions[static_cast<size_t>(id)].name + ".piece";
    return shaped(add(name, Opcode::Slice, hlo::array_shape(whole.type, dims), {id}, cut), piece);
  }

  /// The elements of a value of the old entry that are the piece's.
  InstructionId part_of(InstructionId id, const Chain& chain, Piece& piece) {
    if (const auto known = piece.made.find(id); known != piece.made.end()) return known->second;
    const Instruction& it = from_[id];
    const int64_t d = chain.dimension;
    InstructionId made = 0;
    if (!chain.values.contains(id)) {
      const bool is_number = it.opcode == Opcode::Broadcast && from_.operand_shape(it, 0).dims.empty();
      const InstructionId there = moved_[static_cast<size_t>(id)];
      made = is_number ? add(it.name + ".piece", Opcode::Broadcast, hlo::array_shape(it.shape.type, piece.dims),
                             {moved_[static_cast<size_t>(it.operands[0])]}, hlo::DimensionsAttributes{})
                       : sliced(there, d, piece.start, piece.end, piece);
    } else if (it.opcode == Opcode::Concatenate) {
      const auto [operand, from] = operand_at(it, d, piece.start);
      made = sliced(moved_[static_cast<size_t>(operand)], d, piece.start - from, piece.end - from, piece);
    } else {
      std::vector<InstructionId> operands;
      for (const InstructionId operand : it.operands) {
        const bool is_scalar = from_[operand].shape.dims.size() < it.shape.dims.size();  // of select and clamp
        operands.push_back(is_scalar ? moved_[static_cast<size_t>(operand)] : part_of(operand, chain, piece));
      }
      made = add(it.name + ".piece", it.opcode, hlo::array_shape(it.shape.type, piece.dims), std::move(operands),
                 it.attributes, it.called);
    }
    return piece.made[id] = made;
  }

  const Target& target_;
  std::map<InstructionId, Chain> chains_;  ///< of those that are cut
};

}  // namespace

hlo::Module reduce_pieces(const hlo::Module& module, const Target& target) { return Cutting(module, target).run(); }

}  // namespace strata::emitters
