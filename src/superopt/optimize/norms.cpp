#include "superopt/optimize/norms.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ops/tiling.h"

namespace strata {
namespace {

bool is_elementwise(const Operation& op) { return !op.body && op_def(op.kind).traits.elementwise; }

bool is_sum(const Operation& op) { return op.kind == OpKind::Accum && !op.body && op.attributes.word("kind") == "sum"; }

bool contains(const std::vector<TensorId>& ids, TensorId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

size_t number_of(const std::vector<TensorId>& ids, TensorId id) {
  return static_cast<size_t>(std::find(ids.begin(), ids.end(), id) - ids.begin());
}

/// A block graph that reduces the last dimension of its only operand, in blocks that have whole rows.
bool makes_factors(const Graph& graph, const Operation& op) {
  if (!op.body || op.operands.size() != 1 || op.results.size() != 1) return false;
  const Graph& body = *op.body;
  Shape rows = graph.type(op.operands[0]).shape;
  if (rows.empty()) return false;
  const auto last = static_cast<int64_t>(rows.size()) - 1;
  rows.back() = 1;
  if (graph.type(op.results[0]).shape != rows) return false;
  int tiles = 0;
  int sums = 0;
  const std::vector<LoopStage> stages = loop_stages(body);
  for (size_t i = 0; i < body.operations().size(); ++i) {
    const Operation& inner = body.operations()[i];
    // Only what is linear is the same of sums of other parts of a row.
    if (sums > 0 && body.launch().loop > 1 && stages[i] == LoopStage::Body && inner.kind != OpKind::Scale &&
        !is_sum(inner))
      return false;
    if (inner.kind == OpKind::InIter) {
      const auto& map = inner.attributes.list("imap");
      const int64_t loop = inner.attributes.integer_or("fmap", kReplicate);
      if (std::find(map.begin(), map.end(), last) != map.end() || (loop != kReplicate && loop != last)) return false;
      ++tiles;
    } else if (inner.kind == OpKind::Sum) {
      if (inner.body || inner.attributes.has("every") || inner.attributes.integer("dim") != last) return false;
      ++sums;
    } else if (inner.kind == OpKind::OutSaver) {
      if (inner.attributes.has("dtype")) return false;
    } else if (!is_sum(inner) && !is_elementwise(inner)) {
      return false;
    }
  }
  return tiles == 1 && sums == 1;
}

/// A reader of factors that can compute them itself.
class Reader {
 public:
  Reader(const Graph& graph, const Operation& factors, const Operation& op)
      : graph_(graph), factors_(factors), op_(op), body_(*op.body) {}

  /// Whether it can.
  bool plan() {
    const TensorId result = factors_.results[0];
    if (body_.launch().loop == 1 || std::count(op_.operands.begin(), op_.operands.end(), result) != 1) return false;
    formal_ = body_.inputs()[number_of(op_.operands, result)];
    for (const Operation& inner : body_.operations()) {
      if (inner.kind != OpKind::InIter || inner.operands[0] != formal_) continue;
      if (factor_ != nullptr || inner.attributes.integer_or("fmap", kReplicate) != kReplicate) return false;
      factor_ = &inner;
    }
    if (factor_ == nullptr) return false;
    const auto last = static_cast<int64_t>(graph_.type(result).shape.size()) - 1;
    for (const Operation& inner : body_.operations()) {
      if (inner.kind != OpKind::InIter || inner.attributes.integer_or("fmap", kReplicate) != last) continue;
      if (op_.operands[number_of(body_.inputs(), inner.operands[0])] != factors_.operands[0]) continue;
      if (inner.attributes.list("imap") == factor_->attributes.list("imap")) rows_ = &inner;
    }
    return rows_ != nullptr && follow();
  }

  /// The block graph that does, and what it reads.
  Result<GraphPtr> joined(std::vector<TensorId>& operands) const {
    GraphBuilder block(Level::Block, body_.name(), body_.launch());
    std::map<TensorId, TensorId> made;
    for (size_t n = 0; n < op_.operands.size(); ++n) {
      const TensorId inside = body_.inputs()[n];
      if (inside == formal_) continue;
      operands.push_back(op_.operands[n]);
      STRATA_TRY(made[inside], block.input(body_.tensor(inside).name, body_.type(inside)));
    }
    TensorId factor = -1;
    const std::vector<LoopStage> stages = loop_stages(body_);
    std::map<TensorId, TensorId> multiplied;  // what carries the factor, with it
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      const Operation& op = body_.operations()[i];
      if (&op == factor_) continue;
      if (const auto same = without_.find(op.results[0]); same != without_.end()) {
        made[op.results[0]] = made.at(same->second);
        continue;
      }
      std::vector<TensorId> from;
      for (const TensorId id : op.operands) {
        if (id == factor_->results[0]) {
          from.push_back(factor);
        } else if (stages[i] == LoopStage::After && carries_.count(id) > 0) {
          if (multiplied.count(id) == 0) {
            STRATA_TRY(multiplied[id], block.add(OpKind::Mul, {made.at(id), factor}));
          }
          from.push_back(multiplied.at(id));
        } else {
          from.push_back(made.at(id));
        }
      }
      if (op.body) return unsupported("thread graphs are formed after kernels are joined");
      const std::string name = op.kind == OpKind::OutSaver ? body_.tensor(op.results[0]).name : std::string();
      STRATA_TRY(made[op.results[0]], block.add(op.kind, from, op.attributes, name, op.location));
      if (&op != rows_) continue;
      STRATA_TRY(factor, add_factors(block, made.at(rows_->results[0])));
    }
    return block.finish();
  }

 private:
  bool is_factor(TensorId id) const { return id == factor_->results[0]; }
  bool is_scaled(TensorId id) const { return is_factor(id) || carries_.count(id) > 0; }

  /// Where the factor goes: to nothing but sums of the loop.
  bool follow() {
    const std::vector<LoopStage> stages = loop_stages(body_);
    bool before = true;  // what follows the loop cannot read the factor earlier than it is made
    for (size_t i = 0; i < body_.operations().size(); ++i) {
      const Operation& op = body_.operations()[i];
      if (&op == rows_) before = false;
      if (op.body) return false;
      const bool any = std::any_of(op.operands.begin(), op.operands.end(), [&](TensorId id) { return is_scaled(id); });
      if (!any) continue;
      if (stages[i] == LoopStage::After) {
        if (before) return false;
        continue;
      }
      if (!carry(op)) return false;
    }
    return !carries_.empty();
  }

  /// Whether an operator of the loop makes of a factor times something the same factor times something.
  bool carry(const Operation& op) {
    const TensorId left = op.operands[0];
    const TensorId right = op.operands.back();
    const TensorId result = op.results[0];
    if (op.kind == OpKind::Mul) {
      if (is_scaled(left) && is_scaled(right)) return false;
      const TensorId other = is_scaled(left) ? right : left;
      if (is_factor(left) || is_factor(right)) {
        if (body_.type(other).shape != body_.type(result).shape) return false;
        without_[result] = other;
      }
    } else if (op.kind == OpKind::Div || op.kind == OpKind::Matmul) {
      if (op.operands.size() != 2 || is_factor(left) || !is_scaled(left) || is_scaled(right)) return false;
      const size_t rank = body_.type(factor_->results[0]).shape.size();
      if (op.kind == OpKind::Matmul && body_.type(left).shape.size() != rank) return false;
    } else if (is_factor(left) || (op.kind != OpKind::Scale && !is_sum(op))) {
      return false;
    }
    carries_.insert(result);
    return true;
  }

  /// The factor of the rows of a tile of each iteration, after the loop.
  Result<TensorId> add_factors(GraphBuilder& block, TensorId rows) const {
    const Graph& from = *factors_.body;
    std::map<TensorId, TensorId> made;
    for (const Operation& op : from.operations()) {
      const TensorId result = op.results[0];
      if (op.kind == OpKind::InIter) {
        made[result] = rows;
        continue;
      }
      if (op.kind == OpKind::OutSaver) return made.at(op.operands[0]);
      std::vector<TensorId> operands;
      for (const TensorId id : op.operands) operands.push_back(made.at(id));
      STRATA_TRY(made[result], block.add(op.kind, operands, op.attributes));
      if (op.kind != OpKind::Sum || from.launch().loop > 1) continue;
      Attributes sum;
      sum.set("kind", std::string("sum"));
      STRATA_TRY(made[result], block.add(OpKind::Accum, {made.at(result)}, sum));
    }
    return unsupported("a block graph without a result");
  }

  const Graph& graph_;
  const Operation& factors_;
  const Operation& op_;
  const Graph& body_;
  TensorId formal_ = -1;
  const Operation* factor_ = nullptr;
  const Operation* rows_ = nullptr;
  std::set<TensorId> carries_;            ///< the factor times something
  std::map<TensorId, TensorId> without_;  ///< products with the factor: what it is multiplied with
};

/// The readers of a block graph's factors, by operation, if all can compute them.
std::map<size_t, Reader> readers_of(const Graph& graph, const Operation& factors) {
  std::map<size_t, Reader> readers;
  if (!makes_factors(graph, factors) || contains(graph.outputs(), factors.results[0])) return {};
  for (size_t i = 0; i < graph.operations().size(); ++i) {
    const Operation& op = graph.operations()[i];
    if (!contains(op.operands, factors.results[0])) continue;
    if (!op.body || !readers.emplace(i, Reader(graph, factors, op)).first->second.plan()) return {};
  }
  return readers;
}

Result<GraphPtr> without(const Graph& graph, const Operation& factors, const std::map<size_t, Reader>& readers) {
  GraphBuilder builder(Level::Kernel, graph.name());
  std::vector<TensorId> ids(graph.tensors().size(), -1);
  const auto at = [&](TensorId id) -> TensorId& { return ids[static_cast<size_t>(id)]; };
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const TensorId id = graph.inputs()[i];
    STRATA_TRY(at(id), builder.input(graph.tensor(id).name, graph.type(id), {}, graph.input_comments()[i]));
  }
  for (size_t i = 0; i < graph.operations().size(); ++i) {
    const Operation& op = graph.operations()[i];
    if (&op == &factors) continue;
    GraphPtr body = op.body;
    std::vector<TensorId> read;
    if (const auto reader = readers.find(i); reader != readers.end()) {
      STRATA_TRY(body, reader->second.joined(read));
    } else {
      read = op.operands;
    }
    for (TensorId& id : read) id = at(id);
    if (!body) {
      STRATA_TRY(at(op.results[0]),
                 builder.add(op.kind, read, op.attributes, graph.tensor(op.results[0]).name, op.location, op.comments));
      continue;
    }
    std::vector<std::string> names;
    for (const TensorId id : op.results) names.push_back(graph.tensor(id).name);
    STRATA_TRY(const std::vector<TensorId> results, builder.add(body, read, names, op.location, op.comments));
    for (size_t n = 0; n < results.size(); ++n) at(op.results[n]) = results[n];
  }
  for (const TensorId id : graph.outputs()) STRATA_CHECK(builder.output(at(id)));
  builder.comment(graph.comments(), graph.output_comments(), graph.closing_comments());
  return builder.finish();
}

}  // namespace

Result<GraphPtr> join_norms(const GraphPtr& graph) {
  for (const Operation& op : graph->operations()) {
    const auto readers = readers_of(*graph, op);
    if (readers.empty()) continue;
    STRATA_TRY(const GraphPtr joined, without(*graph, op, readers));
    return join_norms(joined);
  }
  return graph;
}

}  // namespace strata
