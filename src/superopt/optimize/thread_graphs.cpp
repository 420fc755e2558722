#include "superopt/optimize/thread_graphs.h"

#include <algorithm>

#include "superopt/optimize/rewrite.h"

namespace strata {
namespace {

bool is_elementwise(const Operation& op) { return !op.body && op_def(op.kind).traits.elementwise; }

/// For each operation the last operation (root) of the chain that it belongs to; itself where it is alone.
std::vector<size_t> chain_roots(const Graph& body) {
  const std::vector<LoopStage> stages = loop_stages(body);
  const size_t count = body.operations().size();
  std::vector<std::vector<size_t>> users(count);
  for (size_t i = 0; i < count; ++i) {
    for (TensorId id : body.operations()[i].operands) {
      if (const int producer = body.tensor(id).producer; producer >= 0)
        users[static_cast<size_t>(producer)].push_back(i);
    }
  }
  std::vector<size_t> root(count);
  for (size_t i = count; i-- > 0;) {
    root[i] = i;
    if (!is_elementwise(body.operations()[i]) || users[i].empty()) continue;
    const size_t candidate = root[users[i][0]];
    const bool joins = std::all_of(users[i].begin(), users[i].end(), [&](size_t user) {
      return is_elementwise(body.operations()[user]) && root[user] == candidate && stages[user] == stages[i];
    });
    if (joins) root[i] = candidate;
  }
  return root;
}

class Rewriter {
 public:
  Rewriter(const Graph& body, int64_t threads)
      : body_(body),
        threads_(threads),
        builder_(Level::Block, body.name(), body.launch()),
        ids_(body.tensors().size(), -1) {}

  Result<GraphPtr> run() {
    const std::vector<size_t> root = chain_roots(body_);
    std::vector<std::vector<size_t>> members(root.size());
    for (size_t i = 0; i < root.size(); ++i) members[root[i]].push_back(i);
    for (TensorId id : body_.inputs()) {
      STRATA_TRY(map(id), builder_.input(body_.tensor(id).name, body_.type(id)));
    }
    for (size_t i = 0; i < root.size(); ++i) {
      if (root[i] != i) continue;
      const Operation& op = body_.operations()[i];
      if (members[i].size() > 1) {
        STRATA_CHECK(chain(members[i]));
      } else if (op.body) {
        std::vector<std::string> names;
        for (TensorId id : op.results) names.push_back(body_.tensor(id).name);
        STRATA_TRY(const std::vector<TensorId> results,
                   builder_.add(op.body, mapped(op.operands), names, op.location, op.comments));
        for (size_t n = 0; n < results.size(); ++n) map(op.results[n]) = results[n];
      } else {
        STRATA_TRY(map(op.results[0]), builder_.add(op.kind, mapped(op.operands), op.attributes,
                                                    body_.tensor(op.results[0]).name, op.location, op.comments));
      }
    }
    return builder_.finish();
  }

 private:
  TensorId& map(TensorId id) { return ids_[static_cast<size_t>(id)]; }
  std::vector<TensorId> mapped(const std::vector<TensorId>& ids) {
    std::vector<TensorId> result;
    for (TensorId id : ids) result.push_back(map(id));
    return result;
  }

  Result<void> chain(const std::vector<size_t>& members) {
    GraphBuilder inner(Level::Thread, {}, LaunchShape{{}, 1, threads_});
    std::vector<TensorId> operands;
    std::vector<TensorId> inside(body_.tensors().size(), -1);
    const auto made_here = [&](TensorId id) {
      const int producer = body_.tensor(id).producer;
      return producer >= 0 && std::find(members.begin(), members.end(), static_cast<size_t>(producer)) != members.end();
    };
    for (size_t i : members) {
      for (TensorId id : body_.operations()[i].operands) {
        if (made_here(id) || inside[static_cast<size_t>(id)] >= 0) continue;
        const std::string& name = body_.tensor(id).name;
        STRATA_TRY(const TensorId formal, inner.input(name, body_.type(id)));
        STRATA_TRY(inside[static_cast<size_t>(id)], inner.add(OpKind::InIter, {formal}, {}, name + "_r"));
        operands.push_back(map(id));
      }
    }
    for (size_t i : members) {
      const Operation& op = body_.operations()[i];
      std::vector<TensorId> registers;
      for (TensorId id : op.operands) registers.push_back(inside[static_cast<size_t>(id)]);
      const bool last = i == members.back();
      const std::string& name = body_.tensor(op.results[0]).name;
      STRATA_TRY(inside[static_cast<size_t>(op.results[0])],
                 inner.add(op.kind, registers, op.attributes, last ? name + "_r" : name, op.location, op.comments));
    }
    const TensorId result = body_.operations()[members.back()].results[0];
    STRATA_CHECK(inner.add(OpKind::OutSaver, {inside[static_cast<size_t>(result)]}, {}, body_.tensor(result).name));
    STRATA_TRY(GraphPtr thread_graph, inner.finish());
    STRATA_TRY(const std::vector<TensorId> results,
               builder_.add(std::move(thread_graph), operands, {body_.tensor(result).name}));
    map(result) = results[0];
    return {};
  }

  const Graph& body_;
  int64_t threads_;
  GraphBuilder builder_;
  std::vector<TensorId> ids_;
};

}  // namespace

Result<GraphPtr> form_thread_graphs(const Graph& graph, int64_t threads) {
  return rewrite_blocks(graph, [&](const Graph& body) { return Rewriter(body, threads).run(); });
}

}  // namespace strata
