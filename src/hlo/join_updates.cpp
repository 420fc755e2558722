#include "hlo/join_updates.h"

#include <algorithm>
#include <optional>

#include "hlo/compute.h"
#include "hlo/entry_rewriter.h"

namespace strata::hlo {
namespace {

/// Operands of one concatenation: a kernel's arguments are 4 KiB, 8 bytes each, and others need some of them.
constexpr size_t kMostPieces = 256;

/// An update along one dimension, at this place of it.
struct Update {
  size_t dimension = 0;
  int64_t start = 0, size = 0;
};

/// Elements of a value in the old entry that stand from `start` on in the result.
struct Piece {
  InstructionId source = 0;
  int64_t start = 0, size = 0;
  int64_t first = 0;  ///< of the source's
};

class Joining : EntryRewriter {
 public:
  explicit Joining(const Module& module) : EntryRewriter(module), readers_(from_.instructions.size(), 0) {
    std::vector<bool> live(from_.instructions.size(), false);
    live[static_cast<size_t>(from_.root)] = true;
    ++readers_[static_cast<size_t>(from_.root)];
    for (size_t i = from_.instructions.size(); i-- > 0;) {
      if (!live[i]) continue;
      for (const InstructionId operand : from_.instructions[i].operands) {
        live[static_cast<size_t>(operand)] = true;
        ++readers_[static_cast<size_t>(operand)];
      }
    }
    continued_.assign(from_.instructions.size(), false);
    for (size_t i = 0; i < from_.instructions.size(); ++i) {
      const Instruction& it = from_.instructions[i];
      if (live[i] && follows(it)) continued_[static_cast<size_t>(it.operands[0])] = true;
    }
  }

  Module run() {
    return rewrite([&](const Instruction& it, const Instruction&) -> std::optional<InstructionId> {
      if (continued_[static_cast<size_t>(&it - from_.instructions.data())] || !follows(it)) return std::nullopt;
      const std::vector<Piece> pieces = pieces_of(it);
      return pieces.empty() || pieces.size() > kMostPieces ? std::nullopt : std::optional(joined(it, pieces));
    });
  }

 private:
  /// What an update at constant places changes, if that is a part along one dimension of an array in the usual order.
  std::optional<Update> update_of(const Instruction& it) const {
    if (it.opcode != Opcode::DynamicUpdateSlice || !it.shape.has_default_layout()) return std::nullopt;
    const Shape& part = from_.operand_shape(it, 1);
    std::optional<Update> found;
    for (size_t d = 0; d < part.dims.size(); ++d) {
      const int64_t size = part.dims[d], whole = it.shape.dims[d];
      if (size == whole) continue;  // it begins at 0, wherever it is said to
      const Instruction& start = from_[it.operands[2 + d]];
      if (found || size == 0 || start.opcode != Opcode::Constant) return std::nullopt;
      const int64_t place = start.as<ConstantAttributes>().value.get_integer(0);
      found = Update{d, std::clamp<int64_t>(place, 0, whole - size), size};
    }
    return found;
  }

  /// Whether it is an update along the same dimension as the one before it, whose result nothing else reads.
  bool follows(const Instruction& it) const {
    const auto update = update_of(it);
    if (!update || readers_[static_cast<size_t>(it.operands[0])] != 1) return false;
    const auto before = update_of(from_[it.operands[0]]);
    return before && before->dimension == update->dimension;
  }

  /// Of a chain's last update; empty where what is updated first is not one number everywhere.
  std::vector<Piece> pieces_of(const Instruction& last) const {
    std::vector<const Instruction*> chain{&last};
    while (follows(*chain.back())) chain.push_back(&from_[chain.back()->operands[0]]);
    const InstructionId base = chain.back()->operands[0];
    const bool same = from_[base].opcode == Opcode::Broadcast && from_.operand_shape(from_[base], 0).dims.empty();
    if (!same) return {};
    const size_t along = update_of(last)->dimension;
    std::vector<Piece> pieces{{base, 0, last.shape.dims[along], 0}};
    for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
      const Update update = *update_of(**it);
      const int64_t end = update.start + update.size;
      std::vector<Piece> next;
      bool is_placed = false;
      const auto place = [&] {
        if (!is_placed) next.push_back({(*it)->operands[1], update.start, update.size, 0});
        is_placed = true;
      };
      for (const Piece& piece : pieces) {
        const int64_t piece_end = piece.start + piece.size;
        if (piece.start < update.start)
          next.push_back({piece.source, piece.start, std::min(piece_end, update.start) - piece.start, piece.first});
        if (piece_end > update.start) place();
        if (piece_end > end) {
          const int64_t start = std::max(piece.start, end);
          next.push_back({piece.source, start, piece_end - start, piece.first + start - piece.start});
        }
      }
      pieces = std::move(next);
    }
    return pieces;
  }

  InstructionId joined(const Instruction& last, const std::vector<Piece>& pieces) {
    const size_t along = update_of(last)->dimension;
    std::vector<InstructionId> parts;
    for (const Piece& piece : pieces) {
      const Instruction& source = from_[piece.source];
      Shape shape = last.shape;
      shape.dims[along] = piece.size;
      if (source.shape.dims == shape.dims) {
        parts.push_back(moved_[static_cast<size_t>(piece.source)]);
      } else if (source.opcode == Opcode::Broadcast && source.dimensions().empty()) {
        const InstructionId number = moved_[static_cast<size_t>(source.operands[0])];
        parts.push_back(add(source.name, Opcode::Broadcast, shape, {number}, DimensionsAttributes{}));
      } else {
        SliceAttributes slice{std::vector<int64_t>(shape.dims.size(), 0), source.shape.dims,
                              std::vector<int64_t>(shape.dims.size(), 1)};
        slice.starts[along] = piece.first;
        slice.limits[along] = piece.first + piece.size;
        parts.push_back(add(source.name, Opcode::Slice, shape, {moved_[static_cast<size_t>(piece.source)]}, slice));
      }
    }
    if (parts.size() == 1) return parts[0];
    return add(last.name, Opcode::Concatenate, last.shape, parts, DimensionsAttributes{{static_cast<int64_t>(along)}});
  }

  std::vector<int64_t> readers_;  ///< of each instruction, those that the result depends on
  std::vector<bool> continued_;   ///< which are updated by the next of a chain
};

}  // namespace

Module join_updates(const Module& module) { return Joining(module).run(); }

}  // namespace strata::hlo
