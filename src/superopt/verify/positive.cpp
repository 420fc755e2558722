#include "superopt/verify/positive.h"

#include <algorithm>

namespace strata {
namespace {

Sign least(const std::vector<Sign>& signs) { return *std::min_element(signs.begin(), signs.end()); }
Sign greatest(const std::vector<Sign>& signs) { return *std::max_element(signs.begin(), signs.end()); }

/// A sum of terms that are all ≥ 0 is > 0 where one is.
Sign sum_of(Sign a, Sign b) { return std::min(a, b) == Sign::Unknown ? Sign::Unknown : std::max(a, b); }

Sign of(const Operation& op, const std::vector<Sign>& operands) {
  const OpTraits& traits = op_def(op.kind).traits;
  const Algebra& algebra = traits.algebra;
  if (traits.products > 0) {
    const auto products = static_cast<size_t>(traits.products);
    Sign sign = std::min(operands[0], operands[products]);
    for (size_t i = 1; i < products; ++i) sign = sum_of(sign, std::min(operands[i], operands[i + products]));
    // Where others than matrices are padded with zeros, it may be 0.
    return traits.matrices ? sign : std::min(sign, Sign::NonNegative);
  }
  if (traits.moves || traits.reduces) return least(operands);
  switch (op.kind) {
    case OpKind::Add:
      return sum_of(operands[0], operands[1]);
    case OpKind::Mul:
      if (op.operands[0] == op.operands[1]) return std::max(operands[0], Sign::NonNegative);
      return least(operands);
    case OpKind::Div:
      return least(operands);
    case OpKind::Max:
      return greatest(operands);
    case OpKind::Select:
      return std::min(operands[1], operands[2]);
    case OpKind::Sqr:
    case OpKind::Relu:
      return std::max(operands[0], Sign::NonNegative);
    case OpKind::Sqrt:
      return std::max(operands[0], Sign::NonNegative);
    case OpKind::Scale: {
      const int64_t factor = op.attributes.rational("factor").num;
      return factor > 0 ? operands[0] : factor == 0 ? Sign::NonNegative : Sign::Unknown;
    }
    case OpKind::AddConstant: {
      const int64_t added = op.attributes.rational("value").num;
      if (operands[0] == Sign::Unknown || added < 0) return Sign::Unknown;
      return added > 0 ? Sign::Positive : operands[0];
    }
    case OpKind::Accum:
    case OpKind::AccumRescale:
      return operands[0];
    default:
      return algebra.positive ? Sign::Positive : algebra.nonnegative ? Sign::NonNegative : Sign::Unknown;
  }
}

}  // namespace

std::vector<Sign> signs_of(const Graph& graph, const std::vector<Sign>& of_inputs) {
  std::vector<Sign> signs(graph.tensors().size(), Sign::Unknown);
  for (size_t i = 0; i < of_inputs.size(); ++i) signs[static_cast<size_t>(graph.inputs()[i])] = of_inputs[i];
  for (const Operation& op : graph.operations()) {
    std::vector<Sign> operands;
    for (TensorId id : op.operands) operands.push_back(signs[static_cast<size_t>(id)]);
    if (op.body) {
      const std::vector<Sign> inner = signs_of(*op.body, operands);
      for (size_t i = 0; i < op.results.size(); ++i) {
        signs[static_cast<size_t>(op.results[i])] = inner[static_cast<size_t>(op.body->outputs()[i])];
      }
    } else {
      signs[static_cast<size_t>(op.results[0])] = of(op, operands);
    }
  }
  return signs;
}

}  // namespace strata
