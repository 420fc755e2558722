#include "ir/views.h"

#include <algorithm>

namespace strata {

std::vector<bool> view_operations(const Graph& graph, const std::vector<bool>& strided) {
  const auto& operations = graph.operations();
  std::vector<bool> views(operations.size(), false);
  // Readers come later.
  for (size_t i = operations.size(); i-- > 0;) {
    const Operation& op = operations[i];
    if (op.kind != OpKind::Transpose || graph.level() != Level::Kernel) continue;
    const TensorId result = op.results[0];
    const auto& outputs = graph.outputs();
    if (std::find(outputs.begin(), outputs.end(), result) != outputs.end()) continue;
    bool read = false;
    bool by_blocks = true;
    for (size_t r = i + 1; r < operations.size(); ++r) {
      const auto& operands = operations[r].operands;
      if (std::find(operands.begin(), operands.end(), result) == operands.end()) continue;
      read = true;
      by_blocks &= operations[r].body != nullptr || views[r] || (!strided.empty() && strided[r]);
    }
    views[i] = read && by_blocks;
  }
  return views;
}

MemoryView memory_view(const Graph& graph, TensorId id, const std::vector<bool>& strided) {
  const int producer = graph.tensor(id).producer;
  if (producer < 0 || !view_operations(graph, strided)[static_cast<size_t>(producer)]) {
    return {id, row_major_strides(graph.type(id).shape)};
  }
  const Operation& op = graph.operations()[static_cast<size_t>(producer)];
  const MemoryView from = memory_view(graph, op.operands[0], strided);
  MemoryView view{from.memory, {}};
  for (int64_t d : op.attributes.list("perm")) view.strides.push_back(from.strides[static_cast<size_t>(d)]);
  return view;
}

}  // namespace strata
