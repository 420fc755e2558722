#include "superopt/verify/axes.h"

namespace strata {

void unite_labels(const Graph& graph, const Operation& op, const std::vector<int>& nodes, UnionFind& axes) {
  const IndexLabels labels = op_def(op.kind).labels(graph.types(op.operands), op.attributes);
  std::vector<int> first;  // by label
  const auto visit = [&](const std::vector<int>& of_dims, int node) {
    for (size_t d = 0; d < of_dims.size(); ++d) {
      if (of_dims[d] == IndexLabels::kFree) continue;
      const auto label = static_cast<size_t>(of_dims[d]);
      if (first.size() <= label) first.resize(label + 1, -1);
      const int here = node + static_cast<int>(d);
      if (first[label] < 0) {
        first[label] = here;
      } else {
        axes.unite(first[label], here);
      }
    }
  };
  for (size_t i = 0; i < op.operands.size(); ++i) {
    visit(labels.operands[i], nodes[static_cast<size_t>(op.operands[i])]);
  }
  visit(labels.result, nodes[static_cast<size_t>(op.results[0])]);
}

}  // namespace strata
