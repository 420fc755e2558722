#include "superopt/verify/subgraph.h"

#include <algorithm>

namespace strata {

std::set<TensorId> ancestors(const Graph& graph, TensorId of) {
  std::set<TensorId> found{of};
  for (size_t i = graph.operations().size(); i-- > 0;) {
    const Operation& op = graph.operations()[i];
    if (std::any_of(op.results.begin(), op.results.end(), [&](TensorId id) { return found.count(id) > 0; })) {
      found.insert(op.operands.begin(), op.operands.end());
    }
  }
  return found;
}

Result<GraphPtr> part_computing(const Graph& graph, TensorId output) {
  const std::set<TensorId> needed = ancestors(graph, output);
  GraphBuilder builder(Level::Kernel, graph.name());
  std::vector<TensorId> ids(graph.tensors().size(), -1);
  for (TensorId id : graph.inputs()) {
    STRATA_TRY(ids[static_cast<size_t>(id)], builder.input(graph.tensor(id).name, graph.type(id)));
  }
  for (const Operation& op : graph.operations()) {
    if (std::none_of(op.results.begin(), op.results.end(), [&](TensorId id) { return needed.count(id) > 0; })) continue;
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
    if (op.body) {
      STRATA_TRY(const auto results, builder.add(op.body, operands));
      for (size_t i = 0; i < results.size(); ++i) ids[static_cast<size_t>(op.results[i])] = results[i];
    } else {
      STRATA_TRY(ids[static_cast<size_t>(op.results[0])], builder.add(op.kind, operands, op.attributes));
    }
  }
  STRATA_CHECK(builder.output(ids[static_cast<size_t>(output)]));
  return builder.finish();
}

}  // namespace strata
