#include "ir/validate.h"

#include <algorithm>
#include <limits>

namespace strata {
namespace {

constexpr int64_t kAlignment = 128;  // so that bulk copies can fill any tile
constexpr int64_t kRegisterBytes = 4;
/// Sums of this many bytes saturate: a tile may have nearly 2^63.
constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max() / 32;

tl::unexpected<Error> fail(const Graph& graph, const Operation& op, std::string message, std::string remedy = {}) {
  const std::string result = op.results.empty() ? "" : graph.tensor(op.results[0]).name + " = ";
  return tl::unexpected(Error{ErrorCode::InvalidInput, fmt::format("{}{}: {}", result, op.name(), message),
                              std::move(remedy), op.location});
}

/// Every tensor but the outputs is read by someone.
Result<void> check_uses(const Graph& graph) {
  std::vector<bool> used(graph.tensors().size(), false);
  for (const Operation& op : graph.operations()) {
    for (TensorId id : op.operands) used[static_cast<size_t>(id)] = true;
  }
  for (TensorId id : graph.outputs()) used[static_cast<size_t>(id)] = true;
  for (const Operation& op : graph.operations()) {
    for (TensorId id : op.results) {
      if (!used[static_cast<size_t>(id)]) {
        return fail(graph, op, fmt::format("'{}' is computed and never used", graph.tensor(id).name),
                    "remove the statement, or make it an output");
      }
    }
  }
  for (TensorId id : graph.inputs()) {
    if (!used[static_cast<size_t>(id)] && graph.level() != Level::Kernel) {
      return with_remedy(
          invalid("input '{}' of the {} graph is never read", graph.tensor(id).name, name_of(graph.level())),
          "remove it from the graph's operands");
    }
  }
  return {};
}

/// How many accumulators lie on the paths from in_iter to a tensor: the same number on each, 0 or 1.
Result<void> check_paths(const Graph& graph) {
  const bool block = graph.level() == Level::Block;
  const bool looped = block && graph.launch().loop > 1;
  std::vector<int> accumulators(graph.tensors().size(), 0);
  for (const Operation& op : graph.operations()) {
    const auto count = [&](TensorId id) { return accumulators[static_cast<size_t>(id)]; };
    if (op.kind == OpKind::InIter) continue;
    const int first = count(op.operands[0]);
    for (TensorId id : op.operands) {
      if (count(id) != first) {
        const TensorId inside = count(id) == 0 ? id : op.operands[0];
        return fail(graph, op,
                    fmt::format("'{}' changes in every iteration of the loop and meets a value from after it",
                                graph.tensor(inside).name),
                    "pass it through accum first");
      }
    }
    int own = first;
    if (is_accumulator(op.kind)) {
      if (!looped) {
        return fail(graph, op, fmt::format("{} in a block graph without a loop", op.name()), "set loop= or remove it");
      }
      if (first > 0) {
        return fail(graph, op, fmt::format("'{}' has passed an accumulator already", graph.tensor(op.operands[0]).name),
                    "every path from in_iter to out_saver goes through exactly one");
      }
      own = 1;
    }
    if (op.kind == OpKind::OutSaver && looped && first == 0) {
      return fail(graph, op, fmt::format("'{}' is saved from inside the loop", graph.tensor(op.operands[0]).name),
                  "every path from in_iter to out_saver goes through exactly one accum");
    }
    for (TensorId id : op.results) accumulators[static_cast<size_t>(id)] = own;
  }
  return {};
}

Result<void> check_launch(const Graph& graph) {
  const LaunchShape& launch = graph.launch();
  if (graph.level() == Level::Block) {
    if (launch.grid.size() > 3) {
      return with_remedy(invalid("grid has {} dimensions; at most 3 exist", launch.grid.size()),
                         "join some of them to one");
    }
    for (size_t i = 0; i < launch.grid.size(); ++i) {
      const int64_t limit = i == 0 ? 2147483647 : 65535;
      if (launch.grid[i] < 1 || launch.grid[i] > limit) {
        return with_remedy(invalid("grid dimension {} has size {}; expected 1 … {}", i, launch.grid[i], limit),
                           "the first of them may be the largest");
      }
    }
    if (launch.loop < 1) return with_remedy(invalid("loop={} is below 1", launch.loop), "leave loop= out for none");
  }
  if (graph.level() == Level::Thread && (launch.threads < 1 || launch.threads > 1024)) {
    return with_remedy(invalid("threads={} is outside 1 … 1024", launch.threads),
                       "a block has so many threads at most: make the tiles smaller");
  }
  return {};
}

Result<void> check_registers(const Graph& graph, const Target& target) {
  // A thread computes one element of every tensor at a time.
  int64_t registers = 0;
  for (const TensorInfo& tensor : graph.tensors()) registers += tensor.level == Level::Thread ? 1 : 0;
  const int64_t limit = std::min<int64_t>(255, target.registers / graph.launch().threads);
  if (registers > limit) {
    return with_remedy(invalid("the thread graph holds {} values in registers; {} fit with {} threads", registers,
                               limit, graph.launch().threads),
                       "split it in two, or take fewer threads");
  }
  return {};
}

Result<void> validate_body(const Graph& graph, const Target& target, int64_t threads_expected) {
  STRATA_CHECK(check_launch(graph));
  STRATA_CHECK(check_uses(graph));
  STRATA_CHECK(check_paths(graph));
  if (graph.level() == Level::Thread) return check_registers(graph, target);
  int64_t threads = threads_expected;
  for (const Operation& op : graph.operations()) {
    if (!op.body) continue;
    if (threads != 0 && op.body->launch().threads != threads) {
      return fail(graph, op,
                  fmt::format("threads={} differs from {} in another thread graph of the block",
                              op.body->launch().threads, threads));
    }
    threads = op.body->launch().threads;
    if (auto inner = validate_body(*op.body, target, 0); !inner) return tl::unexpected(inner.error().at(op.location));
  }
  const BlockBytes bytes = block_bytes(graph);
  if (!bytes.fits(target)) {
    const Operation* largest = &graph.operations().front();
    for (const Operation& op : graph.operations()) {
      if (shared_memory_bytes(graph, op.results[0]) > shared_memory_bytes(graph, largest->results[0])) largest = &op;
    }
    return fail(
        graph, *largest,
        fmt::format("the block needs {} bytes for its inputs' tiles and {} for what it computes; {} has {} of "
                    "shared memory and {} of registers; '{}' alone takes {}",
                    bytes.tiles, bytes.computed, target.name, target.shared_memory, kRegisterBytes * target.registers,
                    graph.tensor(largest->results[0]).name, shared_memory_bytes(graph, largest->results[0])),
        "use a larger grid or more loop iterations");
  }
  return {};
}

int64_t aligned_bytes(int64_t elements, int64_t element) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, element, &bytes)) return std::numeric_limits<int64_t>::max();
  return bytes / kAlignment * kAlignment + (bytes % kAlignment == 0 ? 0 : kAlignment);
}

int64_t block_tensor_bytes(const Graph& graph, TensorId id, const TensorType& type) {
  const TensorInfo& tensor = graph.tensor(id);
  if (tensor.level != Level::Block || tensor.producer < 0) return 0;
  const Operation& op = graph.operations()[static_cast<size_t>(tensor.producer)];
  // A tile of an iota is computed.
  const bool loaded = op.kind == OpKind::InIter && !graph.type(op.operands[0]).iota;
  const int64_t element = loaded ? size_of(type.dtype) : std::max<int64_t>(4, size_of(type.dtype));
  return aligned_bytes(type.elements(), element);
}

int64_t state_bytes(const TensorType& reference) {
  return aligned_bytes(reference.elements(), std::max<int64_t>(4, size_of(reference.dtype)));
}

}  // namespace

int64_t shared_memory_bytes(const Graph& graph, TensorId id) { return block_tensor_bytes(graph, id, graph.type(id)); }

int64_t accumulator_state_bytes(const Graph& graph, const Operation& op) {
  return op.kind == OpKind::AccumRescale ? state_bytes(graph.type(op.operands[1])) : 0;
}

int64_t shared_memory_bytes(const Graph& graph) {
  return shared_memory_bytes(graph, [&](TensorId id) -> const TensorType& { return graph.type(id); });
}

int64_t shared_memory_bytes(const Graph& graph, const std::function<const TensorType&(TensorId)>& type) {
  int64_t bytes = 0;
  for (size_t i = 0; i < graph.tensors().size() && bytes < kMostBytes; ++i) {
    const auto id = static_cast<TensorId>(i);
    bytes += std::min(kMostBytes, block_tensor_bytes(graph, id, type(id)));
  }
  for (const Operation& op : graph.operations()) {
    if (op.kind != OpKind::AccumRescale) continue;
    bytes += std::min(kMostBytes, kAccumulatorStates * std::min(kMostBytes, state_bytes(type(op.operands[1]))));
  }
  return bytes;
}

bool BlockBytes::fits(const Target& target) const {
  return tiles <= target.shared_memory && tiles + computed <= target.shared_memory + kRegisterBytes * target.registers;
}

bool BlockBytes::fits_registers(const Target& target) const {
  return tiles <= target.shared_memory && computed <= kRegisterBytes * target.registers;
}

BlockBytes block_bytes(const Graph& graph) {
  return block_bytes(graph, [&](TensorId id) -> const TensorType& { return graph.type(id); });
}

BlockBytes block_bytes(const Graph& graph, const std::function<const TensorType&(TensorId)>& type) {
  const auto bytes_of = [&](TensorId id) { return std::min(kMostBytes, block_tensor_bytes(graph, id, type(id))); };
  const auto producer = [&](TensorId id) -> const Operation* {
    const int made_by = graph.tensor(id).producer;
    return made_by < 0 ? nullptr : &graph.operations()[static_cast<size_t>(made_by)];
  };
  int64_t tiles = 0;
  int64_t accumulators = 0;
  int64_t most = 0;
  for (const Operation& op : graph.operations()) {
    int64_t result = 0;
    for (TensorId id : op.results) result += bytes_of(id);
    if (op.kind == OpKind::InIter) {
      tiles = std::min(kMostBytes, tiles + result);
    } else if (is_accumulator(op.kind)) {
      accumulators = std::min(kMostBytes, accumulators + result);
    } else if (op.kind != OpKind::OutSaver) {
      int64_t operands = 0;
      int64_t largest = 0;
      for (auto at = op.operands.begin(); at != op.operands.end(); ++at) {
        const TensorId id = *at;
        const Operation* made_by = producer(id);
        if (std::find(op.operands.begin(), at, id) != at || made_by == nullptr || made_by->kind == OpKind::InIter ||
            is_accumulator(made_by->kind))
          continue;
        operands += bytes_of(id);
        largest = std::max(largest, bytes_of(id));
      }
      // What is taken element by element can have the place of an operand.
      const bool in_place = op.body || op_def(op.kind).traits.elementwise;
      most = std::max(most, operands + (in_place ? std::max<int64_t>(0, result - largest) : result));
    }
  }
  return {tiles, std::min(kMostBytes, accumulators + most)};
}

Result<void> validate_paths(const Graph& graph) {
  if (graph.level() != Level::Kernel) STRATA_CHECK(check_paths(graph));
  for (const Operation& op : graph.operations()) {
    if (!op.body) continue;
    if (auto inner = validate_paths(*op.body); !inner) return tl::unexpected(inner.error().at(op.location));
  }
  return {};
}

Result<void> validate(const Graph& graph, const Target& target) {
  if (graph.level() != Level::Kernel) return invalid("only kernel graphs stand on their own");
  STRATA_CHECK(check_uses(graph));
  int64_t bytes = 0;
  for (const TensorInfo& tensor : graph.tensors()) {
    // One tensor is below 2^63 bytes and what came before fits the device, so unsigned addition cannot wrap.
    const auto sum = static_cast<uint64_t>(bytes) + static_cast<uint64_t>(tensor.type.bytes());
    bytes = static_cast<int64_t>(std::min<uint64_t>(sum, std::numeric_limits<int64_t>::max()));
    if (bytes > target.device_memory) break;
  }
  if (bytes > target.device_memory) {
    const auto largest =
        std::max_element(graph.tensors().begin(), graph.tensors().end(),
                         [](const TensorInfo& a, const TensorInfo& b) { return a.type.bytes() < b.type.bytes(); });
    return tl::unexpected(
        Error{ErrorCode::InvalidInput,
              fmt::format("the program's tensors need {} bytes and {} has {} bytes of device memory; '{}' alone, {}, "
                          "takes {}",
                          bytes, target.name, target.device_memory, largest->name, to_string(largest->type),
                          largest->type.bytes()),
              "make the shapes smaller",
              largest->producer < 0 ? SourceLocation{}
                                    : graph.operations()[static_cast<size_t>(largest->producer)].location});
  }
  for (const Operation& op : graph.operations()) {
    if (!op.body) continue;
    if (auto inner = validate_body(*op.body, target, 0); !inner) return tl::unexpected(inner.error().at(op.location));
  }
  return {};
}

}  // namespace strata
