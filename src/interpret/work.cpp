#include "interpret/work.h"

#include <algorithm>

#include "support/host_memory.h"

namespace strata {
namespace {

/// Terms of the sum that is one element of the result; 0 where an element is no sum of products.
int64_t terms_of_product(const Graph& graph, const Operation& op) {
  const auto last = [&](size_t operand) { return graph.type(op.operands[operand]).shape.back(); };
  switch (op.kind) {
    case OpKind::Matmul:
      return last(0);
    case OpKind::ConcatMatmul:
      return last(0) + last(1);
    case OpKind::Conv2d: {
      const TensorType& filter = graph.type(op.operands[1]);
      return filter.elements() / filter.shape[0];
    }
    default:
      return 0;
  }
}

}  // namespace

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
  touch(op.results[0], std::max<int64_t>(1, terms_of_product(graph, op)));
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
