#include "superopt/codegen/fronts.h"

#include <algorithm>
#include <numeric>

#include "ops/op_def.h"

namespace strata {
namespace {

/// The most bytes, up to those of one copy, that divide all steps from row to row.
int64_t row_alignment(const Shape& shape, const std::vector<int64_t>& strides, int64_t element) {
  constexpr int64_t kCopy = 16;
  int64_t all = kCopy;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && strides[d] > 1) all = std::gcd(all, strides[d] * element);
  }
  return all;
}

bool multiplies(const Graph& body) {
  return std::any_of(body.operations().begin(), body.operations().end(),
                     [](const Operation& op) { return !op.body && multiplies_matrices(op.kind); });
}

/// The least common multiple of all tiles' sizes along a dimension of a tensor; 0 where it has another reader than
/// block graphs with products.
int64_t common_tile(const Graph& graph, TensorId id, size_t dim, const std::vector<bool>& views) {
  int64_t all = 1;
  for (size_t i = 0; i < graph.operations().size(); ++i) {
    const Operation& op = graph.operations()[i];
    for (size_t n = 0; n < op.operands.size(); ++n) {
      if (op.operands[n] != id) continue;
      if (!op.body || views[i] || !multiplies(*op.body)) return 0;
      for (const Operation& inner : op.body->operations()) {
        if (inner.kind != OpKind::InIter || inner.operands[0] != op.body->inputs()[n]) continue;
        all = std::lcm(all, op.body->type(inner.results[0]).shape[dim]);
      }
    }
  }
  return all;
}

bool is_emitted(const Graph& graph, const std::vector<EmittedGroup>& groups, TensorId id) {
  const auto producer = static_cast<size_t>(graph.tensor(id).producer);
  return std::any_of(groups.begin(), groups.end(), [&](const EmittedGroup& group) {
    return std::binary_search(group.operations.begin(), group.operations.end(), producer);
  });
}

/// What an emitted kernel reads and writes: of fronts that are not copied, nothing.
double emitted_bytes(const Graph& graph, const UncopiedFronts& fronts, const EmittedKernel& kernel) {
  double bytes = 0;
  for (const std::string& argument : kernel.arguments) {
    const auto tensor = graph.find_tensor(argument);
    if (tensor) bytes += static_cast<double>(graph.type(*tensor).bytes());
  }
  for (const auto& [id, uncopied] : fronts) {
    const auto& arguments = kernel.arguments;
    if (std::count(arguments.begin(), arguments.end(), graph.tensor(id).name) == 0) continue;
    TensorType front = graph.type(id);
    front.shape[uncopied.front.dim] = uncopied.front.size;
    bytes -= 2 * static_cast<double>(front.bytes());
  }
  return bytes;
}

}  // namespace

UncopiedFronts uncopied_fronts(const Graph& graph, const std::vector<bool>& free, const std::vector<bool>& views,
                               const std::vector<bool>& strided) {
  UncopiedFronts fronts;
  for (size_t i = 0; i < graph.operations().size(); ++i) {
    const Operation& op = graph.operations()[i];
    if (!free[i] || op.kind != OpKind::Concat) continue;
    const TensorId result = op.results[0];
    const auto& outputs = graph.outputs();
    if (std::find(outputs.begin(), outputs.end(), result) != outputs.end()) continue;
    const auto dim = static_cast<size_t>(op.attributes.integer("dim"));
    const TensorId first = op.operands[0];
    const MemoryView lies = memory_view(graph, first, strided);
    const int producer = graph.tensor(lies.memory).producer;
    if (producer >= 0 && free[static_cast<size_t>(producer)]) continue;
    if (!lies.folds.empty() || !is_row_major(graph.type(first).shape, lies.strides)) continue;
    const int64_t tile = common_tile(graph, result, dim, views);
    if (tile == 0) continue;
    const Shape& whole = graph.type(result).shape;
    const int64_t size = graph.type(first).shape[dim] / tile * tile;
    if (size == 0 || size == whole[dim]) continue;
    UncopiedFront front{lies.memory, {dim, size, row_major_strides(graph.type(first).shape)}, whole};
    front.rest[dim] -= size;
    const int64_t element = size_of(graph.type(result).dtype);
    const int64_t wanted = row_alignment(whole, row_major_strides(whole), element);
    if (row_alignment(whole, front.front.strides, element) < wanted) continue;
    if (row_alignment(whole, row_major_strides(front.rest), element) < wanted) continue;
    fronts.emplace(result, std::move(front));
  }
  return fronts;
}

Emission plan_emission(const Graph& graph, const std::vector<bool>& free, const std::vector<bool>& views,
                       const std::vector<bool>& strided, const KernelEmitter& emitter, const Target& target,
                       KernelText text) {
  Emission plan{{}, uncopied_fronts(graph, free, views, strided)};
  while (true) {
    std::map<TensorId, int64_t> starts;
    for (const auto& [id, uncopied] : plan.fronts) starts[id] = uncopied.front.size;
    plan.groups = emitter.emit(graph, free, views, starts, target, text);
    // Whoever writes a kernel of its own for a concatenation writes all of it.
    const size_t whole =
        std::erase_if(plan.fronts, [&](const auto& front) { return !is_emitted(graph, plan.groups, front.first); });
    if (whole == 0) break;
  }
  for (EmittedGroup& group : plan.groups) {
    for (EmittedKernel& kernel : group.kernels) kernel.device_bytes = emitted_bytes(graph, plan.fronts, kernel);
  }
  return plan;
}

OperandPlace place_of(MemoryView view, const UncopiedFronts& fronts, TensorId id) {
  OperandPlace place(std::move(view.strides));
  place.folds = std::move(view.folds);
  const auto front = fronts.find(id);
  if (front == fronts.end()) return place;
  place.strides = row_major_strides(front->second.rest);
  place.front = front->second.front;
  return place;
}

}  // namespace strata
