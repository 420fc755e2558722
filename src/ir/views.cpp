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
    may_fold_.assign(operations.size(), true);
    readers_.resize(graph.tensors().size());
    for (size_t r = 0; r < operations.size(); ++r) {
      for (const TensorId id : operations[r].operands) {
        std::vector<size_t>& readers = readers_[static_cast<size_t>(id)];
        if (readers.empty() || readers.back() != r) readers.push_back(r);
      }
    }
    if (graph.level() == Level::Kernel) {
      std::vector<bool> read(graph.tensors().size(), false);
      for (const Operation& op : operations) {
        for (const TensorId id : op.operands) read[static_cast<size_t>(id)] = true;
      }
      for (const TensorId id : graph.outputs()) read[static_cast<size_t>(id)] = false;
      for (size_t i = 0; i < operations.size(); ++i)
        candidates_[i] = may_be_view(operations[i]) && read[static_cast<size_t>(operations[i].results[0])];
    }
    do {
      place();
    } while (drop());
  }

  const std::vector<bool>& operations() const { return views_; }
  const MemoryView& of(TensorId id) const { return memory_[static_cast<size_t>(id)]; }
  const std::vector<MemoryView>& tensors() const { return memory_; }

 private:
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
      const Shape& shape = graph_.type(op.operands[0]).shape;
      const Shape& to = graph_.type(op.results[0]).shape;
      if (!from.folds.empty()) {
        views_[i] = false;
      } else if (op.kind == OpKind::Transpose) {
        made = {from.memory, {}};
        for (int64_t d : op.attributes.list("perm")) made.strides.push_back(from.strides[static_cast<size_t>(d)]);
      } else if (auto strides = reshaped_strides(shape, from.strides, to)) {
        made = {from.memory, *std::move(strides)};
      } else if (auto folded = may_fold_[i] ? folded_strides(shape, from.strides, to) : std::nullopt) {
        made = {from.memory, std::move(folded->strides), std::move(folded->folds)};
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
      const std::vector<Fold>& folds = of(result).folds;
      if (folds.empty() && is_row_major(graph_.type(result).shape, of(result).strides)) continue;
      for (const size_t r : readers_[static_cast<size_t>(result)]) {
        if (folds.empty() ? takes_strides(r) : takes_folds(r, result)) continue;
        // Without folds it may be a view of what becomes of its operand.
        (folds.empty() ? candidates_ : may_fold_)[i] = false;
        return true;
      }
    }
    return false;
  }

  bool takes_strides(size_t operation) const {
    return graph_.operations()[operation].body != nullptr || views_[operation] ||
           (!strided_.empty() && strided_[operation]);
  }

  /// Whether an operation is a block graph of which each tile of a tensor lies within one piece of each fold.
  bool takes_folds(size_t operation, TensorId id) const {
    const Operation& op = graph_.operations()[operation];
    if (!op.body) return false;
    for (const Operation& inner : op.body->operations()) {
      if (inner.kind != OpKind::InIter) continue;
      const auto& inputs = op.body->inputs();
      const auto n = std::find(inputs.begin(), inputs.end(), inner.operands[0]) - inputs.begin();
      if (op.operands[static_cast<size_t>(n)] != id) continue;
      for (const Fold& fold : of(id).folds) {
        if (fold.size % op.body->type(inner.results[0]).shape[fold.dim] != 0) return false;
      }
    }
    return true;
  }

  const Graph& graph_;
  const std::vector<bool>& strided_;
  std::vector<std::vector<size_t>> readers_;  // operations, by tensor, in their order
  std::vector<bool> candidates_;              // by operation
  std::vector<bool> may_fold_;                // by operation
  std::vector<bool> views_;                   // by operation
  std::vector<MemoryView> memory_;            // by tensor
};

}  // namespace

bool may_be_view(const Operation& op) {
  return !op.body && (op.kind == OpKind::Transpose || op.kind == OpKind::Reshape);
}

bool is_transposed_input(const Graph& graph, const Operation& op) {
  return op.kind == OpKind::Transpose && graph.tensor(op.operands[0]).producer < 0;
}

std::vector<bool> view_operations(const Graph& graph, const std::vector<bool>& strided) {
  return Views(graph, strided).operations();
}

std::vector<MemoryView> memory_views(const Graph& graph, const std::vector<bool>& strided) {
  return Views(graph, strided).tensors();
}

MemoryView memory_view(const Graph& graph, TensorId id, const std::vector<bool>& strided) {
  // Most tensors lie in memory of their own, whatever the others do: no walk over the graph for each of them.
  const int producer = graph.tensor(id).producer;
  if (producer < 0 || !may_be_view(graph.operations()[static_cast<size_t>(producer)]))
    return {id, row_major_strides(graph.type(id).shape)};
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

std::optional<FoldedStrides> folded_strides(const Shape& from, const std::vector<int64_t>& strides, const Shape& to) {
  struct Run {
    int64_t count;
    int64_t stride;
  };
  std::vector<Run> runs;  // of elements at one distance, innermost first
  for (size_t d = from.size(); d-- > 0;) {
    if (from[d] == 1) continue;
    if (!runs.empty() && runs.back().stride * runs.back().count == strides[d]) {
      runs.back().count *= from[d];
    } else {
      runs.push_back({from[d], strides[d]});
    }
  }
  FoldedStrides made{std::vector<int64_t>(to.size(), 1), {}};
  size_t at = 0;
  int64_t left = runs.empty() ? 1 : runs[0].count;  // of the run
  const auto next_run = [&] {
    if (left == 1 && at + 1 < runs.size()) left = runs[++at].count;
  };
  const auto take = [&](int64_t count) -> std::optional<int64_t> {
    next_run();
    if (runs.empty() || left % count != 0) return std::nullopt;
    const int64_t stride = runs[at].stride * (runs[at].count / left);
    left /= count;
    return stride;
  };
  for (size_t d = to.size(); d-- > 0;) {
    if (to[d] == 1) continue;
    next_run();
    const int64_t piece = left % to[d] == 0 ? to[d] : left;
    const auto within = take(piece);
    if (!within || to[d] % piece != 0) return std::nullopt;
    made.strides[d] = *within;
    if (piece == to[d]) continue;
    const auto between = take(to[d] / piece);
    if (!between) return std::nullopt;
    made.folds.insert(made.folds.begin(), {d, piece, *between});
  }
  return made;
}

}  // namespace strata
