// Mutants of µGraphs: every graph that differs from a given one in one place, for tests that a checker notices.
#pragma once

#include <functional>

#include "ir/graph.h"

namespace strata {

struct Mutant {
  GraphPtr graph;
  std::string what;  ///< "O.a: imap=[0, _]"
};

/// How an operator is copied: into `builder`, whose tensors `ids` gives for those of the original; the copy's result.
using CopyOperation = std::function<Result<TensorId>(GraphBuilder& builder, const Graph& original, const Operation& op,
                                                     const std::vector<TensorId>& ids)>;

/// Copies a graph, the operator number `target` (bodies included, in order) by `copy` and all others as they are.
class Mutator {
 public:
  Mutator(int target, CopyOperation copy) : target_(target), copy_(std::move(copy)) {}

  Result<GraphPtr> run(const Graph& graph) { return rebuild(graph, graph.types(graph.inputs())); }

 private:
  Result<GraphPtr> rebuild(const Graph& graph, const std::vector<TensorType>& inputs) {
    GraphBuilder builder(graph.level(), graph.name(), graph.launch());
    std::vector<TensorId> ids(graph.tensors().size(), -1);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorId id = graph.inputs()[i];
      STRATA_TRY(ids[static_cast<size_t>(id)], builder.input(graph.tensor(id).name, inputs[i]));
    }
    for (const Operation& op : graph.operations()) {
      std::vector<TensorId> operands;
      for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
      if (op.body) {
        std::vector<TensorType> types;
        for (TensorId id : operands) types.push_back(builder.type(id));
        STRATA_TRY(GraphPtr body, rebuild(*op.body, types));
        STRATA_TRY(const auto results, builder.add(std::move(body), std::move(operands)));
        for (size_t i = 0; i < results.size(); ++i) ids[static_cast<size_t>(op.results[i])] = results[i];
      } else if (next_++ == target_) {
        STRATA_TRY(ids[static_cast<size_t>(op.results[0])], copy_(builder, graph, op, ids));
      } else {
        STRATA_TRY(ids[static_cast<size_t>(op.results[0])], builder.add(op.kind, std::move(operands), op.attributes));
      }
    }
    if (graph.level() == Level::Kernel) {
      for (TensorId id : graph.outputs()) STRATA_CHECK(builder.output(ids[static_cast<size_t>(id)]));
    }
    return builder.finish();
  }

  int target_;
  CopyOperation copy_;
  int next_ = 0;
};

namespace mutants {

inline std::vector<TensorId> operands_of(const Operation& op, const std::vector<TensorId>& ids) {
  std::vector<TensorId> operands;
  for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
  return operands;
}

/// The operator with one attribute changed.
inline CopyOperation with_attribute(std::string name, AttributeValue value) {
  return [=](GraphBuilder& builder, const Graph&, const Operation& op, const std::vector<TensorId>& ids) {
    Attributes attributes = op.attributes;
    attributes.set(name, value);
    return builder.add(op.kind, operands_of(op, ids), attributes);
  };
}

inline CopyOperation with_kind(OpKind kind) {
  return [=](GraphBuilder& builder, const Graph&, const Operation& op, const std::vector<TensorId>& ids) {
    return builder.add(kind, operands_of(op, ids), kind == op.kind ? op.attributes : Attributes{});
  };
}

/// The operator left out: its result is its operand number `n`.
inline CopyOperation dropped(size_t n) {
  return [=](GraphBuilder&, const Graph&, const Operation& op, const std::vector<TensorId>& ids) {
    return Result<TensorId>(ids[static_cast<size_t>(op.operands[n])]);
  };
}

inline CopyOperation swapped() {
  return [](GraphBuilder& builder, const Graph&, const Operation& op, const std::vector<TensorId>& ids) {
    std::vector<TensorId> operands = operands_of(op, ids);
    std::reverse(operands.begin(), operands.end());
    return builder.add(op.kind, operands, op.attributes);
  };
}

/// Operand number `n` is another tensor of the graph.
inline CopyOperation with_operand(size_t n, TensorId other) {
  return [=](GraphBuilder& builder, const Graph&, const Operation& op, const std::vector<TensorId>& ids) {
    std::vector<TensorId> operands = operands_of(op, ids);
    operands[n] = ids[static_cast<size_t>(other)];
    if (operands[n] < 0) return Result<TensorId>(invalid("not defined yet"));
    return builder.add(op.kind, operands, op.attributes);
  };
}

/// All changes of one operator, with a description each.
inline std::vector<std::pair<CopyOperation, std::string>> changes(const Graph& graph, const Operation& op) {
  std::vector<std::pair<CopyOperation, std::string>> all;
  const auto attribute = [&](const std::string& name, const AttributeValue& value) {
    const AttributeValue* now = op.attributes.find(name);
    if (now && *now == value) return;
    all.emplace_back(with_attribute(name, value), name + "=" + to_string(value));
  };
  const auto rank = static_cast<int64_t>(graph.type(op.operands[0]).shape.size());
  for (const char* name : {"imap", "omap", "perm"}) {
    if (!op.attributes.has(name)) continue;
    const std::vector<int64_t>& map = op.attributes.list(name);
    for (size_t i = 0; i < map.size(); ++i) {
      for (int64_t d = kReplicate; d < rank; ++d) {
        auto changed = map;
        changed[i] = d;
        attribute(name, changed);
      }
      for (size_t j = 0; j < i; ++j) {
        auto changed = map;
        std::swap(changed[i], changed[j]);
        attribute(name, changed);
      }
    }
  }
  if (op.kind == OpKind::InIter && graph.level() == Level::Block) {
    for (int64_t d = kReplicate; d < rank; ++d) attribute("fmap", d);
  }
  if (op.attributes.has("dim")) {
    for (int64_t d = 0; d < rank; ++d) attribute("dim", d);
  }
  if (op.attributes.has("factor")) {
    const Rational now = op.attributes.rational("factor");
    for (const Rational& r :
         {Rational{now.num, 2 * now.den}, Rational{4 * now.num, now.den}, Rational{-now.num, now.den},
          Rational{now.num, now.den + 1}, Rational{now.den, now.num}, Rational{3, 7}}) {
      attribute("factor", r);
    }
  }
  if (op.kind != OpKind::InIter && op.kind != OpKind::OutSaver) {
    for (size_t n = 0; n < op.operands.size(); ++n) all.emplace_back(dropped(n), fmt::format("dropped, operand {}", n));
    if (op.operands.size() > 1) all.emplace_back(swapped(), "operands swapped");
    for (size_t n = 0; n < op.operands.size(); ++n) {
      for (size_t other = 0; other < graph.tensors().size(); ++other) {
        const auto id = static_cast<TensorId>(other);
        if (id == op.operands[n] || graph.type(id).shape.size() != graph.type(op.operands[n]).shape.size()) continue;
        all.emplace_back(with_operand(n, id), fmt::format("operand {} is {}", n, graph.tensor(id).name));
      }
    }
  }
  if (op_def(op.kind).traits.elementwise) {
    for (const OpDef* other : all_ops()) {
      const bool fits = other->traits.elementwise && other->traits.arity == op_def(op.kind).traits.arity &&
                        other->kind != op.kind && other->attributes.empty() && other->traits.lax.inside;
      if (fits) all.emplace_back(with_kind(other->kind), std::string(other->traits.name));
    }
  }
  return all;
}

inline void collect(const Graph& top, const Graph& graph, int& next, std::vector<Mutant>& found) {
  for (const Operation& op : graph.operations()) {
    if (op.body) {
      collect(top, *op.body, next, found);
      continue;
    }
    for (const auto& [copy, what] : changes(graph, op)) {
      auto mutant = Mutator(next, copy).run(top);
      if (!mutant || (*mutant)->types((*mutant)->outputs()) != top.types(top.outputs())) continue;
      if (same_structure(**mutant, top)) continue;
      found.push_back({*mutant, fmt::format("{}: {}", graph.tensor(op.results[0]).name, what)});
    }
    ++next;
  }
}

}  // namespace mutants

/// All mutants of a kernel graph that can be built and have its interface.
inline std::vector<Mutant> all_mutants(const Graph& graph) {
  std::vector<Mutant> found;
  int next = 0;
  mutants::collect(graph, graph, next, found);
  return found;
}

}  // namespace strata
