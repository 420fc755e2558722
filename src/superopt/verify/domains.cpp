#include "superopt/verify/domains.h"

#include "superopt/verify/positive.h"

namespace strata {
namespace {

bool selects(const Operation& op) {
  const bool accumulated = op.kind == OpKind::Accum && op.attributes.word("kind") == "max";
  return accumulated || op_def(op.kind).traits.lax.maximum;
}

/// `selected`: by TensorId, whether it depends on a maximum or a free operator; filled from the inputs'.
bool divides(const Graph& graph, const FreeOperators* free, const std::vector<Sign>& of_inputs,
             std::vector<bool>& selected) {
  const std::vector<Sign> signs = signs_of(graph, of_inputs);
  for (size_t i = 0; i < graph.operations().size(); ++i) {
    const Operation& op = graph.operations()[i];
    if (op.body) {
      std::vector<bool> inner(op.body->tensors().size(), false);
      std::vector<Sign> signs_in;
      for (size_t n = 0; n < op.operands.size(); ++n) {
        inner[static_cast<size_t>(op.body->inputs()[n])] = selected[static_cast<size_t>(op.operands[n])];
        signs_in.push_back(signs[static_cast<size_t>(op.operands[n])]);
      }
      if (divides(*op.body, free, signs_in, inner)) return true;
      for (size_t n = 0; n < op.results.size(); ++n) {
        selected[static_cast<size_t>(op.results[n])] = inner[static_cast<size_t>(op.body->outputs()[n])];
      }
      continue;
    }
    bool depends = selects(op) || (free != nullptr && free->at(&graph)[i]);
    for (TensorId id : op.operands) depends = depends || selected[static_cast<size_t>(id)];
    selected[static_cast<size_t>(op.results[0])] = depends;
    const LaxProperty& lax = op_def(op.kind).traits.lax;
    // Operators that divide by 1 + e^x (silu, gelu) do so everywhere.
    if (!lax.divides || lax.exponentiations > 0) continue;
    const auto divisor = static_cast<size_t>(op.operands.back());
    if (selected[divisor] && signs[divisor] != Sign::Positive) return true;
  }
  return false;
}

}  // namespace

bool divides_by_selected(const Graph& graph, const FreeOperators* free) {
  std::vector<bool> selected(graph.tensors().size(), false);
  return divides(graph, free, std::vector<Sign>(graph.inputs().size(), Sign::Unknown), selected);
}

}  // namespace strata
