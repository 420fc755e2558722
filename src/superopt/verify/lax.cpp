#include "superopt/verify/lax.h"

#include <algorithm>
#include <cmath>

namespace strata {
namespace {

/// Fills `exponentiations`, by TensorId, from those of the inputs.
std::optional<std::string> walk(const Graph& graph, std::vector<int>& exponentiations) {
  for (const Operation& op : graph.operations()) {
    if (op.body) {
      std::vector<int> inner(op.body->tensors().size(), 0);
      for (size_t i = 0; i < op.operands.size(); ++i) {
        inner[static_cast<size_t>(op.body->inputs()[i])] = exponentiations[static_cast<size_t>(op.operands[i])];
      }
      if (auto violation = walk(*op.body, inner)) return violation;
      for (size_t i = 0; i < op.results.size(); ++i) {
        exponentiations[static_cast<size_t>(op.results[i])] = inner[static_cast<size_t>(op.body->outputs()[i])];
      }
      continue;
    }
    const LaxProperty& lax = op_def(op.kind).traits.lax;
    const std::string& name = graph.tensor(op.results[0]).name;
    if (!lax.inside) {
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

/// Bits of the product of all numerators and denominators that an output depends on. Constants that are equal modulo p
/// and not over the reals differ by a multiple of p; below this limit no combination of a program's constants reaches
/// one.
constexpr double kConstantBits = 40;

double own_bits(const Operation& op) {
  double bits = 0;
  for (const auto& [name, value] : op.attributes.entries()) {
    const auto* constant = std::get_if<Rational>(&value);
    if (constant == nullptr || constant->num == 0) continue;
    bits += std::log2(std::fabs(static_cast<double>(constant->num))) + std::log2(static_cast<double>(constant->den));
  }
  return bits;
}

/// Of the output with the most: constants of different outputs do not meet.
double constant_bits(const Graph& graph) {
  double most = 0;
  for (TensorId output : graph.outputs()) {
    std::vector<bool> needed(graph.tensors().size(), false);
    needed[static_cast<size_t>(output)] = true;
    double bits = 0;
    for (size_t i = graph.operations().size(); i-- > 0;) {
      const Operation& op = graph.operations()[i];
      if (std::none_of(op.results.begin(), op.results.end(),
                       [&](TensorId id) { return needed[static_cast<size_t>(id)]; }))
        continue;
      for (TensorId id : op.operands) needed[static_cast<size_t>(id)] = true;
      bits += op.body ? constant_bits(*op.body) : own_bits(op);
    }
    most = std::max(most, bits);
  }
  return most;
}

}  // namespace

std::optional<std::string> lax_violation(const Graph& graph) {
  if (constant_bits(graph) > kConstantBits) {
    return fmt::format("its constants together have more than {} bits, too many for the field", kConstantBits);
  }
  std::vector<int> exponentiations(graph.tensors().size(), 0);
  return walk(graph, exponentiations);
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
