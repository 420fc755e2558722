#include "interpret/work.h"

#include <algorithm>

#include "support/host_memory.h"

namespace strata {

double operation_work(const Graph& graph, const Operation& op) {
  if (op.body) {
    double runs = static_cast<double>(op.body->launch().loop);
    for (int64_t size : op.body->launch().grid) runs *= static_cast<double>(size);
    return runs * execution_work(*op.body);
  }
  // Iterators and savers touch a tile of the tensor that lives one level above.
  double most = 0;
  const auto touch = [&](TensorId id, int64_t terms) {
    if (graph.tensor(id).level != graph.level()) return;
    most = std::max(most, static_cast<double>(graph.type(id).elements()) * static_cast<double>(terms));
  };
  const int64_t terms = product_terms(op_def(op.kind), graph.types(op.operands), op.attributes);
  touch(op.results[0], std::max<int64_t>(1, terms));
  for (TensorId id : op.operands) touch(id, 1);
  return most;
}

double execution_work(const Graph& graph) {
  double sum = 0;
  for (const Operation& op : graph.operations()) sum += operation_work(graph, op);
  return sum;
}

double execution_bytes(const Graph& graph, double bytes_per_value) {
  double elements = 0;
  for (const TensorInfo& tensor : graph.tensors()) elements += static_cast<double>(tensor.type.elements());
  return elements * bytes_per_value;
}

Result<void> check_execution_memory(const Graph& graph) {
  return check_host_memory(execution_bytes(graph), fmt::format("executing '{}'", graph.name()));
}

}  // namespace strata
