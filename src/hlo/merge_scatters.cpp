#include "hlo/merge_scatters.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "hlo/combiner_operator.h"
#include "hlo/entry_rewriter.h"
#include "hlo/users.h"

namespace strata::hlo {
namespace {

bool same_in_any_order(Opcode opcode, ElementType type) {
  switch (opcode) {
    case Opcode::Minimum:
    case Opcode::Maximum:
    case Opcode::And:
    case Opcode::Or:
    case Opcode::Xor:
      return true;
    case Opcode::Add:
    case Opcode::Multiply:
      return kind(type) == TypeKind::Signed || kind(type) == TypeKind::Unsigned;
    default:
      return false;
  }
}

class Merging : EntryRewriter {
 public:
  explicit Merging(const Module& module) : EntryRewriter(module), users_(users_of(from_)) {}

  Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      if (!mergeable(it)) return std::nullopt;
      // From the last one back.
      std::vector<const Instruction*> chain{&it};
      while (const Instruction* before = before_of(*chain.back())) chain.push_back(before);
      if (chain.size() < 2) return std::nullopt;
      std::reverse(chain.begin(), chain.end());
      return merged(chain, copy);
    });
  }

 private:
  /// The first dimension of the indices that is not the one of index vectors, and that of the updates for it.
  static std::pair<size_t, size_t> batch_dims(const Instruction& it) {
    const auto& attributes = it.as<ScatterAttributes>();
    const auto& window = attributes.update_window_dims;
    int64_t update = 0;
    while (std::find(window.begin(), window.end(), update) != window.end()) ++update;
    return {attributes.index_vector_dim == 0 ? 1 : 0, static_cast<size_t>(update)};
  }

  bool mergeable(const Instruction& it) const {
    if (it.opcode != Opcode::Scatter || it.operands.size() != 3) return false;
    const auto& attributes = it.as<ScatterAttributes>();
    if (attributes.indices_are_sorted || attributes.unique_indices || !attributes.input_batching_dims.empty())
      return false;
    const std::optional<Opcode> combiner = only_operator(result_[it.called[0]]);
    const bool known = combiner && same_in_any_order(*combiner, it.shape.type);
    const Shape& updates = from_.operand_shape(it, 2);
    const bool many = std::ssize(attributes.update_window_dims) < updates.rank() && updates.element_count() > 0;
    return known && many &&
           std::ranges::all_of(it.operands, [&](InstructionId id) { return from_[id].shape.has_default_layout(); });
  }

  /// The scalar that an array is everywhere, if it is said so.
  std::optional<InstructionId> scalar_of(InstructionId id) const {
    const Instruction& it = from_[id];
    if (it.opcode != Opcode::Broadcast || from_.operand_shape(it, 0).rank() != 0) return std::nullopt;
    return it.operands[0];
  }

  bool same_scalar(InstructionId a, InstructionId b) const {
    if (a == b) return true;
    return from_[a].opcode == Opcode::Constant && from_[b].opcode == Opcode::Constant &&
           identical(from_[a].as<ConstantAttributes>().value, from_[b].as<ConstantAttributes>().value);
  }

  bool same_updates(const Instruction& a, const Instruction& b) const {
    const auto x = scalar_of(a.operands[2]), y = scalar_of(b.operands[2]);
    return a.operands[2] == b.operands[2] || (x && y && same_scalar(*x, *y));
  }

  /// The scatter whose result this one goes on with, where both can be one.
  const Instruction* before_of(const Instruction& it) const {
    const Instruction& before = from_[it.operands[0]];
    if (!mergeable(before) || !only_user(users_, it.operands[0]) || !same_updates(before, it)) return nullptr;
    const auto &a = before.as<ScatterAttributes>(), &b = it.as<ScatterAttributes>();
    const bool alike =
        a.update_window_dims == b.update_window_dims && a.inserted_window_dims == b.inserted_window_dims &&
        a.scatter_dims_to_operand_dims == b.scatter_dims_to_operand_dims && a.index_vector_dim == b.index_vector_dim &&
        only_operator(result_[before.called[0]]) == only_operator(result_[it.called[0]]);
    // The same but for the dimension along which they are put together, and of one type.
    const auto [dim, update_dim] = batch_dims(it);
    const auto same_but = [&](int operand, size_t but) {
      const Shape &x = from_.operand_shape(before, static_cast<size_t>(operand)),
                  &y = from_.operand_shape(it, static_cast<size_t>(operand));
      if (x.type != y.type || x.rank() != y.rank()) return false;
      for (size_t d = 0; d < x.dims.size(); ++d) {
        if (d != but && x.dims[d] != y.dims[d]) return false;
      }
      return true;
    };
    return alike && same_but(1, dim) && same_but(2, update_dim) ? &before : nullptr;
  }

  InstructionId merged(const std::vector<const Instruction*>& chain, const Instruction& copy) {
    const auto [dim, update_dim] = batch_dims(*chain[0]);
    std::vector<InstructionId> indices;
    Shape all = from_.operand_shape(*chain[0], 1);
    all.dims[dim] = 0;
    for (const Instruction* it : chain) {
      indices.push_back(moved_[static_cast<size_t>(it->operands[1])]);
      all.dims[dim] += from_.operand_shape(*it, 1).dims[dim];
    }
    const std::string& name = chain.back()->name;
    std::vector<InstructionId> operands{moved_[static_cast<size_t>(chain[0]->operands[0])]};
    const Shape all_updates = updates_shape(*chain[0], update_dim, all.dims[dim]);
    operands.push_back(add(name + ".indices", Opcode::Concatenate, array_shape(all.type, all.dims), indices,
                           DimensionsAttributes{{static_cast<int64_t>(dim)}}));
    const InstructionId updates = chain[0]->operands[2];
    if (const std::optional<InstructionId> scalar = scalar_of(updates)) {
      operands.push_back(add(name + ".updates", Opcode::Broadcast, all_updates, {moved_[static_cast<size_t>(*scalar)]},
                             DimensionsAttributes{}));
    } else {
      operands.push_back(repeated(name, moved_[static_cast<size_t>(updates)], update_dim, std::ssize(chain)));
    }
    return add(name + ".all", Opcode::Scatter, copy.shape, operands, copy.attributes, copy.called);
  }

  Shape updates_shape(const Instruction& it, size_t dim, int64_t length) const {
    const Shape& one = from_.operand_shape(it, 2);
    std::vector<int64_t> dims = one.dims;
    dims[dim] = length;
    return array_shape(one.type, std::move(dims));
  }

  const Users users_;
};

}  // namespace

Module merge_scatters(const Module& module) { return Merging(module).run(); }

}  // namespace strata::hlo
