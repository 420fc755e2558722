#include "ir/graph.h"

#include <algorithm>

#include "support/hash.h"

namespace strata {

std::string_view Operation::name() const {
  if (kind != OpKind::GraphDefined) return op_def(kind).traits.name;
  return name_of(body->level());
}

std::vector<TensorType> Graph::types(const std::vector<TensorId>& ids) const {
  std::vector<TensorType> result;
  result.reserve(ids.size());
  for (TensorId id : ids) result.push_back(type(id));
  return result;
}

std::optional<TensorId> Graph::find_tensor(std::string_view name) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].name == name) return static_cast<TensorId>(i);
  }
  return std::nullopt;
}

uint64_t Graph::structural_hash() const {
  Hasher hasher;
  hasher.add(static_cast<uint64_t>(level_)).add_all(launch_.grid);
  hasher.add(static_cast<uint64_t>(launch_.loop)).add(static_cast<uint64_t>(launch_.threads));
  for (TensorId input : inputs_) {
    hasher.add(static_cast<uint64_t>(type(input).dtype)).add_all(type(input).shape);
  }
  for (const Operation& op : operations_) {
    hasher.add(static_cast<uint64_t>(op.kind)).add(op.attributes.hash()).add_all(op.operands);
    if (op.body) hasher.add(op.body->structural_hash());
  }
  return hasher.add_all(outputs_).value();
}

bool same_structure(const Graph& a, const Graph& b) {
  if (a.level() != b.level() || a.launch() != b.launch() || a.inputs() != b.inputs() || a.outputs() != b.outputs() ||
      a.operations().size() != b.operations().size()) {
    return false;
  }
  if (a.types(a.inputs()) != b.types(b.inputs())) return false;
  return std::equal(
      a.operations().begin(), a.operations().end(), b.operations().begin(), [](const Operation& x, const Operation& y) {
        return x.kind == y.kind && x.attributes == y.attributes && x.operands == y.operands && x.results == y.results &&
               (x.body == nullptr) == (y.body == nullptr) && (!x.body || same_structure(*x.body, *y.body));
      });
}

std::vector<LoopStage> loop_stages(const Graph& graph) {
  std::vector<LoopStage> stages;
  for (const Operation& op : graph.operations()) {
    const bool after = std::any_of(op.operands.begin(), op.operands.end(), [&](TensorId id) {
      const int producer = graph.tensor(id).producer;
      if (producer < 0) return false;
      const auto at = static_cast<size_t>(producer);
      return stages[at] == LoopStage::After || graph.operations()[at].kind == OpKind::Accum;
    });
    stages.push_back(after ? LoopStage::After : LoopStage::Body);
  }
  return stages;
}

}  // namespace strata
