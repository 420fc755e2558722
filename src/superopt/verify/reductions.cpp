#include "superopt/verify/reductions.h"

#include <algorithm>

#include "superopt/verify/shrink.h"

namespace strata {

bool reduces_here(const Graph& graph, const Operation& op) {
  if (op.body) return true;
  if (op.kind == OpKind::Accum) return op.attributes.word("kind") != "concat" && graph.launch().loop > 1;
  if (is_accumulator(op.kind)) return true;
  const IndexLabels labels = op_def(op.kind).labels(graph.types(op.operands), op.attributes);
  for (size_t n = 0; n < op.operands.size(); ++n) {
    const Shape& shape = graph.type(op.operands[n]).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int label = labels.operands[n][d];
      const bool kept = std::find(labels.result.begin(), labels.result.end(), label) != labels.result.end();
      if (label != IndexLabels::kFree && !kept && shape[d] > 1) return true;
    }
  }
  // Windows and groups have no label of their own.
  return op.kind == OpKind::Conv2d || op.attributes.has("every");
}

bool reduces(const Graph& graph) {
  return std::any_of(graph.operations().begin(), graph.operations().end(),
                     [&](const Operation& op) { return op.body ? reduces(*op.body) : reduces_here(graph, op); });
}

std::optional<std::pair<GraphPtr, GraphPtr>> alike_at_small_shapes(const Graph& reference, const Graph& candidate) {
  if (reduces(reference) || reduces(candidate)) return std::nullopt;
  auto small = shrink(reference, candidate, Shrinking::Loose);
  if (!small) return std::nullopt;
  return std::move(*small);
}

}  // namespace strata
