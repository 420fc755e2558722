#include "superopt/verify/lax.h"

#include <algorithm>

#include "superopt/verify/decided.h"

namespace strata {
namespace {

/// Fills `exponentiations`, by TensorId, from those of the inputs.
std::optional<std::string> walk(const Graph& graph, const DecidedOperators& decided,
                                std::vector<int>& exponentiations) {
  for (size_t index = 0; index < graph.operations().size(); ++index) {
    const Operation& op = graph.operations()[index];
    if (op.body) {
      std::vector<int> inner(op.body->tensors().size(), 0);
      for (size_t i = 0; i < op.operands.size(); ++i) {
        inner[static_cast<size_t>(op.body->inputs()[i])] = exponentiations[static_cast<size_t>(op.operands[i])];
      }
      if (auto violation = walk(*op.body, decided, inner)) return violation;
      for (size_t i = 0; i < op.results.size(); ++i) {
        exponentiations[static_cast<size_t>(op.results[i])] = inner[static_cast<size_t>(op.body->outputs()[i])];
      }
      continue;
    }
    const LaxProperty& lax = op_def(op.kind).traits.lax;
    const std::string& name = graph.tensor(op.results[0]).name;
    if (!lax.inside && !decided.at(&graph)[index]) {
      return fmt::format("'{}' = {}: this operator is outside the Lax fragment", name, op.name());
    }
    int count = 0;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const bool adds =
          lax.exponent_operand == LaxProperty::kAllOperands || lax.exponent_operand == static_cast<int>(i);
      count = std::max(count, exponentiations[static_cast<size_t>(op.operands[i])] + (adds ? lax.exponentiations : 0));
    }
    if (count > 1) return fmt::format("'{}' = {}: two exponentiations lie on one path", name, op.name());
    exponentiations[static_cast<size_t>(op.results[0])] = count;
  }
  return std::nullopt;
}

/// Whether an operator exponentiates something that is not affine in its operands' own exponents, such as gelu's cubic,
/// or hides its exponential in a quotient: as a random function it has a bound.
bool hides_exponential(const OpTraits& traits) {
  return traits.elementwise && traits.lax.exponentiations > 0 && !traits.algebra.exponential;
}

/// As walk, with operators that do not fit made free; false where one that is not elementwise does not fit.
bool mark_free(const Graph& graph, const DecidedOperators& decided, std::vector<int>& exponentiations,
               FreeOperators& all) {
  all[&graph].resize(graph.operations().size(), false);
  for (size_t i = 0; i < graph.operations().size(); ++i) {
    const Operation& op = graph.operations()[i];
    const auto count_of = [&](TensorId id) { return exponentiations[static_cast<size_t>(id)]; };
    if (op.body) {
      std::vector<int> inner(op.body->tensors().size(), 0);
      for (size_t n = 0; n < op.operands.size(); ++n) {
        inner[static_cast<size_t>(op.body->inputs()[n])] = count_of(op.operands[n]);
      }
      if (!mark_free(*op.body, decided, inner, all)) return false;
      for (size_t n = 0; n < op.results.size(); ++n) {
        exponentiations[static_cast<size_t>(op.results[n])] = inner[static_cast<size_t>(op.body->outputs()[n])];
      }
      continue;
    }
    const OpTraits& traits = op_def(op.kind).traits;
    int count = 0;
    for (size_t n = 0; n < op.operands.size(); ++n) {
      const bool adds = traits.lax.exponent_operand == LaxProperty::kAllOperands ||
                        traits.lax.exponent_operand == static_cast<int>(n);
      count = std::max(count, count_of(op.operands[n]) + (adds ? traits.lax.exponentiations : 0));
    }
    const bool outside = !traits.lax.inside && !decided.at(&graph)[i];
    if (outside || hides_exponential(traits) || count > 1) {
      if (!traits.elementwise) return false;
      all[&graph][i] = true;
      count = 0;  // a value of its own, with both residues
    }
    // Max gives new values too (Maximum::Free), but may return an operand.
    exponentiations[static_cast<size_t>(op.results[0])] = count;
  }
  return true;
}

}  // namespace

std::optional<std::string> lax_violation(const Graph& graph) {
  std::vector<int> exponentiations(graph.tensors().size(), 0);
  return walk(graph, decided_operators(graph), exponentiations);
}

std::optional<FreeOperators> free_operators(const Graph& graph) {
  FreeOperators all;
  std::vector<int> exponentiations(graph.tensors().size(), 0);
  if (!mark_free(graph, decided_operators(graph), exponentiations, all)) return std::nullopt;
  return all;
}

bool takes_maxima(const Graph& graph) {
  return std::any_of(graph.operations().begin(), graph.operations().end(), [](const Operation& op) {
    if (op.body) return takes_maxima(*op.body);
    const bool accumulated = op.kind == OpKind::Accum && op.attributes.word("kind") == "max";
    return accumulated || op.kind == OpKind::AccumRescale || op_def(op.kind).traits.lax.maximum;
  });
}

bool takes_roots(const Graph& graph) {
  return std::any_of(graph.operations().begin(), graph.operations().end(), [](const Operation& op) {
    return op.body ? takes_roots(*op.body) : op_def(op.kind).traits.lax.root;
  });
}

}  // namespace strata
