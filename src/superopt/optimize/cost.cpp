#include "superopt/optimize/cost.h"

#include <algorithm>
#include <cmath>

#include "ir/validate.h"
#include "ir/views.h"

namespace strata {
namespace {

// Shares and factors; rates are the target's.
constexpr double kTensorCoreShare = 0.5;     // of the matrix rate, by instructions of single warps
constexpr double kThroughSharedMemory = 10;  // block graphs whose values do not stay in registers, measured 3 to 30
constexpr int kBlocksPerMultiprocessor = 8;

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t result = 1;
  for (int64_t size : sizes) result *= size;
  return result;
}

/// Operations of one execution: two a multiply-add, one an element.
double operations(const Operation& op, const std::vector<TensorType>& operands, const TensorType& result) {
  const auto elements = static_cast<double>(result.elements());
  if (!op.body) {
    const int64_t terms = product_terms(op_def(op.kind), operands, op.attributes);
    if (terms > 0) return 2 * elements * static_cast<double>(terms);
  }
  double read = elements;
  for (const TensorType& operand : operands) read = std::max(read, static_cast<double>(operand.elements()));
  return read;
}

bool is_product(OpKind kind) { return kind != OpKind::GraphDefined && op_def(kind).traits.products > 0; }

struct BlockTotals {
  double matrix = 0;  ///< operations on matrix units, of one block
  double scalar = 0;
  double bytes = 0;     ///< loaded and stored by one block
  double streamed = 0;  ///< of these, what a later iteration loads while an earlier one computes
  double waste = 1;     ///< bytes that memory moves for a byte that is loaded
  double depth = 0;     ///< operators that wait for one another, in all iterations
};

double memory_bytes(const TensorType& tile, const TensorType& whole) {
  if (whole.shape.empty()) return static_cast<double>(tile.bytes());
  return line_bytes(tile.bytes(), tile.shape.back() * size_of(tile.dtype), tile.shape.back() == whole.shape.back());
}

BlockTotals block_work(const Graph& body) {
  BlockTotals work;
  const std::vector<LoopStage> stages = loop_stages(body);
  const auto loop = static_cast<double>(body.launch().loop);
  std::vector<int> depth(body.tensors().size(), 0);
  double loaded = 0;
  double used = 0;
  int deepest_in_loop = 0;
  int deepest_after = 0;
  for (size_t i = 0; i < body.operations().size(); ++i) {
    const Operation& op = body.operations()[i];
    const double times = stages[i] == LoopStage::Body ? loop : 1;
    int level = 0;
    for (TensorId id : op.operands) level = std::max(level, depth[static_cast<size_t>(id)]);
    for (TensorId id : op.results) depth[static_cast<size_t>(id)] = level + 1;
    (stages[i] == LoopStage::Body ? deepest_in_loop : deepest_after) = level + 1;
    const TensorType& result = body.type(op.results[0]);
    if (op.kind == OpKind::InIter) {
      // A tile that no loop dimension cuts is loaded once.
      if (body.type(op.operands[0]).iota) continue;
      const bool moves = op.attributes.integer_or("fmap", kReplicate) != kReplicate;
      const double bytes = memory_bytes(result, body.type(op.operands[0]));
      work.bytes += bytes * (moves ? loop : 1);
      work.streamed += bytes * (moves ? loop - 1 : 0);
      loaded += bytes * (moves ? loop : 1);
      used += static_cast<double>(result.bytes()) * (moves ? loop : 1);
    } else if (op.kind == OpKind::OutSaver) {
      work.bytes += static_cast<double>(body.type(op.operands[0]).bytes());
    } else if (op.body) {
      for (const Operation& inner : op.body->operations()) {
        work.scalar += times * operations(inner, op.body->types(inner.operands), op.body->type(inner.results[0]));
      }
    } else {
      (is_product(op.kind) ? work.matrix : work.scalar) += times * operations(op, body.types(op.operands), result);
    }
  }
  if (used > 0) work.waste = loaded / used;
  work.depth = loop * deepest_in_loop + std::max(0, deepest_after - deepest_in_loop);
  return work;
}

/// `cluster` blocks share the iterations of each block of the graph.
double clustered_seconds(const Graph& body, const BlockTotals& whole, double device_bytes, int cluster,
                         const Target& target) {
  BlockTotals work = whole;
  const double loop = static_cast<double>(body.launch().loop) / cluster;
  work.matrix /= cluster;
  work.scalar /= cluster;
  work.bytes = (whole.bytes - whole.streamed) + whole.streamed / cluster;
  work.streamed /= cluster;
  const auto blocks = static_cast<double>(product(body.launch().grid)) * cluster;
  const int64_t shared = std::max<int64_t>(1, shared_memory_bytes(body));
  const auto resident =
      static_cast<double>(std::clamp<int64_t>(target.shared_memory / shared, 1, kBlocksPerMultiprocessor));
  const double multiprocessors =
      cluster >= target.large_cluster ? target.cluster_multiprocessors : target.multiprocessors;
  const double waves = std::ceil(blocks / (multiprocessors * resident));
  // Blocks that are resident together share the multiprocessor's units.
  const double together = std::min(resident, std::ceil(blocks / multiprocessors));
  const Rates& rates = target.rates;
  const double load = (work.bytes - work.streamed) * together / rates.unscheduled_bandwidth;
  const double stream = work.streamed * together / rates.unscheduled_bandwidth;
  const double compute = together * multiprocessors *
                         (work.matrix / (kTensorCoreShare * rates.matrix_rate) + work.scalar / rates.scalar_rate);
  // Loads of the next iteration overlap with this one's work; what is not streamed, and the last iteration's work, do
  // not.
  const double overlapped = std::max(stream, compute) + std::min(stream, compute) / std::max(1.0, loop);
  const double wave = rates.unscheduled_first_byte + load + overlapped + loop * rates.unscheduled_iteration +
                      work.depth * rates.unscheduled_operator + rates.cluster_combination * std::log2(cluster);
  const double through_l2 = blocks * work.bytes / rates.unscheduled_l2_bandwidth;
  return std::max({waves * wave, device_bytes * work.waste / rates.memory_bandwidth, through_l2});
}

double block_graph_seconds(const Graph& body, double device_bytes, const Target& target) {
  const BlockTotals work = block_work(body);
  double best = clustered_seconds(body, work, device_bytes, 1, target);
  for (int cluster = 2; cluster <= target.cluster && body.launch().loop % cluster == 0; cluster *= 2) {
    if (product(body.launch().grid) * cluster > target.multiprocessors) break;
    best = std::min(best, clustered_seconds(body, work, device_bytes, cluster, target));
  }
  return stays_in_registers(body) ? best : through_shared_memory(best, target);
}

}  // namespace

CostEstimate& CostEstimate::operator+=(const CostEstimate& other) {
  kernels += other.kernels;
  device_bytes += other.device_bytes;
  seconds += other.seconds;
  return *this;
}

bool stays_in_registers(const Graph& body) {
  const auto& operations = body.operations();
  const bool product = std::any_of(operations.begin(), operations.end(),
                                   [](const Operation& op) { return !op.body && is_product(op.kind); });
  return std::all_of(operations.begin(), operations.end(), [&](const Operation& op) {
    if (op.body || op.kind == OpKind::InIter || op.kind == OpKind::OutSaver) return true;
    const TensorType& first = body.type(op.operands[0]);
    if (multiplies_matrices(op.kind)) return size_of(first.dtype) == 2 && first.shape.back() % 16 == 0;
    if (op.kind == OpKind::Accum) return op.attributes.word("kind") != "concat";
    if (is_reduction(op.kind))
      return product || op.attributes.integer("dim") + 2 >= static_cast<int64_t>(first.shape.size());
    return op_def(op.kind).traits.elementwise || op_def(op.kind).traits.accumulates;
  });
}

double line_bytes(int64_t bytes, int64_t run, bool whole_run) {
  constexpr int64_t kLine = 128;
  constexpr double kHalfLine = 1.06;  // measured: runs of 64 bytes against runs of 128
  const auto moved = static_cast<double>(bytes);
  if (whole_run || run % kLine == 0) return moved;
  if (run == kLine / 2) return moved * kHalfLine;
  const int64_t lines = (run + kLine - 1) / kLine;
  return moved * static_cast<double>(lines * kLine) / static_cast<double>(run);
}

double through_shared_memory(double seconds, const Target& target) {
  const double start = target.rates.unscheduled_first_byte;
  return start + kThroughSharedMemory * (seconds - start);
}

bool cheaper(const CostEstimate& a, const CostEstimate& b) {
  const auto step = [](const CostEstimate& of) { return std::floor(std::log(of.seconds) / std::log(1.02)); };
  return step(a) < step(b);
}

CostEstimate estimate_operation(const Graph& graph, const Operation& op, const Target& target) {
  return estimate_operation(graph, op, target, may_be_view(op) ? view_operations(graph) : std::vector<bool>());
}

CostEstimate estimate_operation(const Graph& graph, const Operation& op, const Target& target,
                                const std::vector<bool>& views) {
  CostEstimate cost;
  if (may_be_view(op) && views[static_cast<size_t>(graph.tensor(op.results[0]).producer)]) return cost;
  cost.kernels = 1;
  std::vector<TensorId> read = op.operands;
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  for (TensorId id : read) cost.device_bytes += graph.type(id).bytes();
  for (TensorId id : op.results) cost.device_bytes += graph.type(id).bytes();
  const auto bytes = static_cast<double>(cost.device_bytes);
  cost.seconds = target.rates.launch;
  if (op.body) {
    cost.seconds += block_graph_seconds(*op.body, bytes, target);
  } else {
    // One thread an element: its sum is a chain of loads.
    const auto elements = static_cast<double>(graph.type(op.results[0]).elements());
    const double work = operations(op, graph.types(op.operands), graph.type(op.results[0]));
    const Rates& rates = target.rates;
    const double chain = work / elements * rates.chained_load;
    cost.seconds +=
        rates.unscheduled_first_byte + std::max({work / rates.thread_elements, chain, bytes / rates.memory_bandwidth});
  }
  return cost;
}

CostEstimate estimate_cost(const Graph& graph, const Target& target) {
  CostEstimate total;
  const std::vector<bool> views = view_operations(graph);
  for (const Operation& op : graph.operations()) total += estimate_operation(graph, op, target, views);
  return total;
}

double cost_lower_bound(const Graph& program, int kernels, const Target& target) {
  double bytes = 0;
  for (TensorId id : program.inputs()) bytes += static_cast<double>(program.type(id).bytes());
  for (TensorId id : program.outputs()) bytes += static_cast<double>(program.type(id).bytes());
  const Rates& rates = target.rates;
  return kernels * (rates.launch + rates.unscheduled_first_byte) +
         std::max(0.0, bytes / rates.memory_bandwidth - kernels * rates.unscheduled_first_byte);
}

}  // namespace strata
