#include "ir/views.h"

#include <algorithm>

namespace strata {
namespace {

/// All views of a graph. Every transpose and reshape is one that has strides, until a reader is found that does not
/// take them; what it is made of is another view then, or none.
class Views {
 public:
  Views(const Graph& graph, const std::vector<bool>& strided) : graph_(graph), strided_(strided) {
    const auto& operations = graph.operations();
    candidates_.assign(operations.size(), false);
    if (graph.level() == Level::Kernel) {
      for (size_t i = 0; i < operations.size(); ++i) candidates_[i] = can_be_view(operations[i]);
    }
    do {
      place();
    } while (drop());
  }

  const std::vector<bool>& operations() const { return views_; }
  const MemoryView& of(TensorId id) const { return memory_[static_cast<size_t>(id)]; }

 private:
  bool can_be_view(const Operation& op) const {
    if (op.body || (op.kind != OpKind::Transpose && op.kind != OpKind::Reshape)) return false;
    const TensorId result = op.results[0];
    const auto& outputs = graph_.outputs();
    if (std::find(outputs.begin(), outputs.end(), result) != outputs.end()) return false;
    return std::any_of(graph_.operations().begin(), graph_.operations().end(),
                       [&](const Operation& reader) { return reads(reader, result); });
  }

  static bool reads(const Operation& op, TensorId id) {
    return std::find(op.operands.begin(), op.operands.end(), id) != op.operands.end();
  }

  /// Where all tensors lie if all candidates are views but those that have no strides.
  void place() {
    views_ = candidates_;
    memory_.clear();
    for (size_t t = 0; t < graph_.tensors().size(); ++t) {
      const auto id = static_cast<TensorId>(t);
      memory_.push_back({id, row_major_strides(graph_.type(id).shape)});
    }
    for (size_t i = 0; i < views_.size(); ++i) {
      if (!views_[i]) continue;
      const Operation& op = graph_.operations()[i];
      const MemoryView& from = of(op.operands[0]);
      MemoryView& made = memory_[static_cast<size_t>(op.results[0])];
      if (op.kind == OpKind::Transpose) {
        made = {from.memory, {}};
        for (int64_t d : op.attributes.list("perm")) made.strides.push_back(from.strides[static_cast<size_t>(d)]);
      } else if (auto strides = reshaped_strides(graph_.type(op.operands[0]).shape, from.strides,
                                                 graph_.type(op.results[0]).shape)) {
        made = {from.memory, *std::move(strides)};
      } else {
        views_[i] = false;
      }
    }
  }

  /// A view that a reader does not take is no candidate any more: one at a time, the last first, since others have
  /// other strides and other readers then. Whether there was any.
  bool drop() {
    for (size_t i = views_.size(); i-- > 0;) {
      if (!views_[i]) continue;
      const TensorId result = graph_.operations()[i].results[0];
      if (is_row_major(graph_.type(result).shape, of(result).strides)) continue;
      for (size_t r = i + 1; r < views_.size(); ++r) {
        if (!reads(graph_.operations()[r], result) || takes_strides(r)) continue;
        candidates_[i] = false;
        return true;
      }
    }
    return false;
  }

  bool takes_strides(size_t operation) const {
    return graph_.operations()[operation].body != nullptr || views_[operation] ||
           (!strided_.empty() && strided_[operation]);
  }

  const Graph& graph_;
  const std::vector<bool>& strided_;
  std::vector<bool> candidates_;    // by operation
  std::vector<bool> views_;         // by operation
  std::vector<MemoryView> memory_;  // by tensor
};

}  // namespace

std::vector<bool> view_operations(const Graph& graph, const std::vector<bool>& strided) {
  return Views(graph, strided).operations();
}

MemoryView memory_view(const Graph& graph, TensorId id, const std::vector<bool>& strided) {
  return Views(graph, strided).of(id);
}

bool is_row_major(const Shape& shape, const std::vector<int64_t>& strides) {
  const std::vector<int64_t> wanted = row_major_strides(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && strides[d] != wanted[d]) return false;
  }
  return true;
}

std::optional<std::vector<int64_t>> reshaped_strides(const Shape& from, const std::vector<int64_t>& strides,
                                                     const Shape& to) {
  // Groups of dimensions with as many elements on both sides, innermost first: those of `from` must lie as one.
  std::vector<int64_t> made(to.size(), 1);
  size_t f = from.size();
  size_t t = to.size();
  while (f > 0 || t > 0) {
    int64_t of_from = 1;
    int64_t of_to = 1;
    int64_t step = 0;  // of the group's elements; 0 while it has one
    int64_t next = 0;  // what the stride of a further dimension must be
    size_t first = t;  // the group's outermost dimension of `to`
    const auto take_from = [&] {
      --f;
      of_from *= from[f];
      if (from[f] == 1) return true;
      if (step == 0) {
        step = strides[f];
      } else if (strides[f] != next) {
        return false;
      }
      next = strides[f] * from[f];
      return true;
    };
    if (f > 0 && !take_from()) return std::nullopt;
    if (first > 0) of_to *= to[--first];
    while (of_from != of_to) {
      if (of_from < of_to) {
        if (f == 0 || !take_from()) return std::nullopt;
      } else {
        if (first == 0) return std::nullopt;
        of_to *= to[--first];
      }
    }
    int64_t stride = step == 0 ? 1 : step;
    while (t > first) {
      made[--t] = stride;
      stride *= to[t];
    }
  }
  return made;
}

}  // namespace strata
