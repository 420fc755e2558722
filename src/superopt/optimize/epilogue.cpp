#include "superopt/optimize/epilogue.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ops/tiling.h"

namespace strata {
namespace {

using Maps = std::vector<int64_t>;

/// Of a tensor that broadcasts to one of `rank` dimensions, what `map` says of the latter: for each grid dimension the
/// dimension that it cuts.
Maps aligned(const Maps& map, const Shape& shape, size_t rank) {
  Maps result;
  for (const int64_t dim : map) {
    const int64_t own = dim == kReplicate ? kReplicate : dim - static_cast<int64_t>(rank - shape.size());
    result.push_back(own < 0 || shape[static_cast<size_t>(own)] == 1 ? kReplicate : own);
  }
  return result;
}

bool broadcasts_to(const Shape& shape, const Shape& to) {
  if (shape.size() > to.size()) return false;
  const size_t more = to.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && shape[d] != to[d + more]) return false;
  }
  return true;
}

bool is_elementwise(const Operation& op) { return !op.body && op_def(op.kind).traits.elementwise; }

/// Whether each block of a block graph computes its elements of the results of the same elements of its operands.
bool is_elementwise(const Graph& body, const Shape& shape) {
  if (body.launch().loop != 1) return false;
  std::optional<Maps> omap;
  for (const Operation& op : body.operations()) {
    if (op.kind != OpKind::OutSaver) continue;
    if (op.attributes.has("dtype") || body.type(op.results[0]).shape != shape) return false;
    if (omap && *omap != op.attributes.list("omap")) return false;
    omap = op.attributes.list("omap");
  }
  return omap && std::all_of(body.operations().begin(), body.operations().end(), [&](const Operation& op) {
           if (op.kind == OpKind::OutSaver) return true;
           if (op.kind != OpKind::InIter) return is_elementwise(op);
           const Shape& of = body.type(op.operands[0]).shape;
           return broadcasts_to(of, shape) && op.attributes.integer_or("fmap", kReplicate) == kReplicate &&
                  op.attributes.list("imap") == aligned(*omap, of, shape.size());
         });
}

/// A block graph whose only result one other kernel reads, element by element.
struct Joint {
  size_t producer = 0, consumer = 0;
};

std::optional<Joint> find(const Graph& graph) {
  const auto& operations = graph.operations();
  for (size_t p = 0; p < operations.size(); ++p) {
    const Operation& producer = operations[p];
    if (!producer.body || producer.results.size() != 1) continue;
    const TensorId made = producer.results[0];
    if (std::find(graph.outputs().begin(), graph.outputs().end(), made) != graph.outputs().end()) continue;
    const Operation& saver =
        producer.body->operations()[static_cast<size_t>(producer.body->tensor(producer.body->outputs()[0]).producer)];
    if (saver.attributes.has("dtype")) continue;  // partial sums
    std::vector<size_t> readers;
    for (size_t c = p + 1; c < operations.size(); ++c) {
      const auto& of = operations[c].operands;
      if (std::find(of.begin(), of.end(), made) != of.end()) readers.push_back(c);
    }
    if (readers.size() != 1) continue;
    const Operation& consumer = operations[readers[0]];
    const Shape& shape = graph.type(made).shape;
    const bool fits = std::all_of(consumer.operands.begin(), consumer.operands.end(), [&](TensorId id) {
      return broadcasts_to(graph.type(id).shape, shape) && graph.type(id).dtype == graph.type(made).dtype;
    });
    const bool same = std::all_of(consumer.results.begin(), consumer.results.end(),
                                  [&](TensorId id) { return graph.type(id) == graph.type(made); });
    if (fits && same && (consumer.body ? is_elementwise(*consumer.body, shape) : is_elementwise(consumer)))
      return Joint{p, readers[0]};
  }
  return std::nullopt;
}

/// Copies a kernel graph, with the two as one where the second stands.
class Joiner {
 public:
  Joiner(const Graph& graph, const Joint& joint)
      : graph_(graph),
        producer_(graph.operations()[joint.producer]),
        consumer_(graph.operations()[joint.consumer]),
        builder_(Level::Kernel, graph.name()),
        ids_(graph.tensors().size(), -1) {}

  Result<GraphPtr> run() {
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const TensorId id = graph_.inputs()[i];
      STRATA_TRY(at(id), builder_.input(graph_.tensor(id).name, graph_.type(id), {}, graph_.input_comments()[i]));
    }
    for (const Operation& op : graph_.operations()) {
      if (&op == &producer_) continue;
      if (&op == &consumer_) {
        STRATA_TRY(const GraphPtr body, joined());
        std::vector<TensorId> operands;
        for (const TensorId id : operands_) operands.push_back(at(id));
        STRATA_CHECK(add(op, body, operands));
        continue;
      }
      std::vector<TensorId> operands;
      for (const TensorId id : op.operands) operands.push_back(at(id));
      if (op.body) {
        STRATA_CHECK(add(op, op.body, operands));
      } else {
        STRATA_TRY(at(op.results[0]), builder_.add(op.kind, operands, op.attributes, graph_.tensor(op.results[0]).name,
                                                   op.location, op.comments));
      }
    }
    for (const TensorId id : graph_.outputs()) STRATA_CHECK(builder_.output(at(id)));
    builder_.comment(graph_.comments(), graph_.output_comments(), graph_.closing_comments());
    return builder_.finish();
  }

 private:
  TensorId& at(TensorId id) { return ids_[static_cast<size_t>(id)]; }

  Result<void> add(const Operation& op, const GraphPtr& body, const std::vector<TensorId>& operands) {
    std::vector<std::string> names;
    for (const TensorId id : op.results) names.push_back(graph_.tensor(id).name);
    STRATA_TRY(const std::vector<TensorId> results, builder_.add(body, operands, names, op.location, op.comments));
    for (size_t n = 0; n < results.size(); ++n) at(op.results[n]) = results[n];
    return {};
  }

  /// The block graph of both; `operands_` are what it reads.
  Result<GraphPtr> joined() {
    const Graph& first = *producer_.body;
    GraphBuilder block(Level::Block, first.name(), first.launch());
    std::map<TensorId, TensorId> formals;  // of the kernel graph's tensors
    std::vector<TensorId> made(first.tensors().size(), -1);
    const auto formal = [&](TensorId id) -> Result<TensorId> {
      if (const auto known = formals.find(id); known != formals.end()) return known->second;
      std::string name = graph_.tensor(id).name;
      while (block.peek().find_tensor(name)) name += "_";
      operands_.push_back(id);
      return formals[id] = *block.input(name, graph_.type(id));
    };
    for (size_t i = 0; i < producer_.operands.size(); ++i) {
      const TensorId inside = first.inputs()[i];
      const TensorId outside = producer_.operands[i];
      if (formals.contains(outside)) {
        made[static_cast<size_t>(inside)] = formals.at(outside);
        continue;
      }
      operands_.push_back(outside);
      STRATA_TRY(made[static_cast<size_t>(inside)], block.input(first.tensor(inside).name, first.type(inside)));
      formals[outside] = made[static_cast<size_t>(inside)];
    }
    const TensorId result = producer_.results[0];
    TensorId tile = -1;
    Attributes save;
    for (const Operation& op : first.operations()) {
      std::vector<TensorId> operands;
      for (const TensorId id : op.operands) operands.push_back(made[static_cast<size_t>(id)]);
      if (op.kind == OpKind::OutSaver) {
        tile = operands[0];
        save = op.attributes;
        continue;
      }
      if (op.body) return unsupported("thread graphs are formed after kernels are joined");
      STRATA_TRY(made[static_cast<size_t>(op.results[0])],
                 block.add(op.kind, operands, op.attributes, first.tensor(op.results[0]).name, op.location));
    }
    // The tile of what the second kernel reads, as the blocks of the first are to have it.
    std::map<TensorId, TensorId> tiles{{result, tile}};
    const auto tile_of = [&](TensorId id) -> Result<TensorId> {
      if (const auto known = tiles.find(id); known != tiles.end()) return known->second;
      STRATA_TRY(const TensorId from, formal(id));
      Attributes read;
      read.set("imap", aligned(save.list("omap"), graph_.type(id).shape, graph_.type(result).shape.size()));
      STRATA_TRY(TensorId loaded, block.add(OpKind::InIter, {from}, read));
      if (first.launch().loop > 1) {
        Attributes most;
        most.set("kind", std::string("max"));
        STRATA_TRY(loaded, block.add(OpKind::Accum, {loaded}, most));
      }
      return tiles[id] = loaded;
    };
    if (!consumer_.body) {
      std::vector<TensorId> operands(consumer_.operands.size());
      for (size_t i = 0; i < operands.size(); ++i) {
        STRATA_TRY(operands[i], tile_of(consumer_.operands[i]));
      }
      STRATA_TRY(const TensorId computed, block.add(consumer_.kind, operands, consumer_.attributes));
      STRATA_CHECK(block.add(OpKind::OutSaver, {computed}, save));
      return block.finish();
    }
    const Graph& second = *consumer_.body;
    std::vector<TensorId> computed(second.tensors().size(), -1);
    for (const Operation& op : second.operations()) {
      TensorId& to = computed[static_cast<size_t>(op.results[0])];
      if (op.kind == OpKind::InIter) {
        const auto number = std::find(second.inputs().begin(), second.inputs().end(), op.operands[0]);
        STRATA_TRY(to, tile_of(consumer_.operands[static_cast<size_t>(number - second.inputs().begin())]));
        continue;
      }
      std::vector<TensorId> operands;
      for (const TensorId id : op.operands) operands.push_back(computed[static_cast<size_t>(id)]);
      STRATA_TRY(to, block.add(op.kind, operands, op.kind == OpKind::OutSaver ? save : op.attributes));
    }
    return block.finish();
  }

  const Graph& graph_;
  const Operation& producer_;
  const Operation& consumer_;
  GraphBuilder builder_;
  std::vector<TensorId> ids_;
  std::vector<TensorId> operands_;
};

}  // namespace

Result<GraphPtr> join_epilogues(const GraphPtr& graph) {
  GraphPtr result = graph;
  while (const auto joint = find(*result)) {
    STRATA_TRY(result, Joiner(*result, *joint).run());
  }
  return result;
}

}  // namespace strata
