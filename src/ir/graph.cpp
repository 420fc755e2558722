#include "ir/graph.h"

#include <algorithm>

#include "support/hash.h"

namespace strata {
namespace {

/// Tensors by the order in which the text format defines them: inputs, then results. Ids may be in another order.
std::vector<uint64_t> canonical_numbers(const Graph& graph) {
  std::vector<uint64_t> numbers(graph.tensors().size());
  uint64_t next = 0;
  for (TensorId id : graph.inputs()) numbers[static_cast<size_t>(id)] = next++;
  for (const Operation& op : graph.operations()) {
    for (TensorId id : op.results) numbers[static_cast<size_t>(id)] = next++;
  }
  return numbers;
}

std::vector<uint64_t> renumbered(const std::vector<TensorId>& ids, const std::vector<uint64_t>& numbers) {
  std::vector<uint64_t> result;
  for (TensorId id : ids) result.push_back(numbers[static_cast<size_t>(id)]);
  return result;
}

}  // namespace

std::string_view Operation::name() const {
  if (kind != OpKind::GraphDefined) return op_def(kind).traits.name;
  return name_of(body->level());
}

std::vector<TensorId> Graph::arguments() const {
  std::vector<TensorId> result;
  std::copy_if(inputs_.begin(), inputs_.end(), std::back_inserter(result), [&](TensorId id) { return !type(id).iota; });
  return result;
}

std::vector<TensorType> Graph::types(const std::vector<TensorId>& ids) const {
  std::vector<TensorType> result;
  result.reserve(ids.size());
  for (TensorId id : ids) result.push_back(type(id));
  return result;
}

std::optional<TensorId> Graph::find_tensor(std::string_view name) const {
  if (!by_name_.empty()) {
    const auto found = by_name_.find(std::string(name));
    return found == by_name_.end() ? std::nullopt : std::optional(found->second);
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].name == name) return static_cast<TensorId>(i);
  }
  return std::nullopt;
}

uint64_t Graph::structural_hash() const {
  const std::vector<uint64_t> numbers = canonical_numbers(*this);
  Hasher hasher;
  hasher.add(static_cast<uint64_t>(level_)).add_all(launch_.grid);
  hasher.add(static_cast<uint64_t>(launch_.loop)).add(static_cast<uint64_t>(launch_.threads));
  for (TensorId input : inputs_) {
    hasher.add(static_cast<uint64_t>(type(input).dtype)).add_all(type(input).shape);
    if (const auto& iota = type(input).iota) {
      for (const int64_t part : {iota->dim, iota->start.num, iota->start.den, iota->step})
        hasher.add(static_cast<uint64_t>(part));
    }
  }
  for (const Operation& op : operations_) {
    hasher.add(static_cast<uint64_t>(op.kind)).add(op.attributes.hash()).add_all(renumbered(op.operands, numbers));
    if (op.body) hasher.add(op.body->structural_hash());
  }
  return hasher.add_all(renumbered(outputs_, numbers)).value();
}

bool same_structure(const Graph& a, const Graph& b) {
  if (a.level() != b.level() || a.launch() != b.launch() || a.operations().size() != b.operations().size())
    return false;
  const std::vector<uint64_t> of_a = canonical_numbers(a);
  const std::vector<uint64_t> of_b = canonical_numbers(b);
  if (renumbered(a.outputs(), of_a) != renumbered(b.outputs(), of_b)) return false;
  if (a.types(a.inputs()) != b.types(b.inputs())) return false;
  return std::equal(a.operations().begin(), a.operations().end(), b.operations().begin(),
                    [&](const Operation& x, const Operation& y) {
                      return x.kind == y.kind && x.attributes == y.attributes &&
                             renumbered(x.operands, of_a) == renumbered(y.operands, of_b) &&
                             x.results.size() == y.results.size() && (x.body == nullptr) == (y.body == nullptr) &&
                             (!x.body || same_structure(*x.body, *y.body));
                    });
}

std::vector<LoopStage> loop_stages(const Graph& graph) {
  std::vector<LoopStage> stages;
  for (const Operation& op : graph.operations()) {
    const bool after = std::any_of(op.operands.begin(), op.operands.end(), [&](TensorId id) {
      const int producer = graph.tensor(id).producer;
      if (producer < 0) return false;
      const auto at = static_cast<size_t>(producer);
      return stages[at] == LoopStage::After || is_accumulator(graph.operations()[at].kind);
    });
    stages.push_back(after ? LoopStage::After : LoopStage::Body);
  }
  return stages;
}

}  // namespace strata
