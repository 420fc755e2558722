#include "interpret/liveness.h"

namespace strata {
namespace {

/// What of its operands an operator reads to compute `live` of its result.
uint8_t read_by(const OpDef& op, uint8_t live) {
  if (live == 0) return 0;
  if (op.kind == OpKind::Exp) return FieldArithmetic::kResidueQ;
  // Other operators that exponentiate use their argument outside the exponent too; those outside the Lax fragment
  // look at both residues.
  if (op.traits.lax.exponentiations > 0 || !op.traits.lax.inside) {
    return FieldArithmetic::kBothResidues;
  }
  return live;
}

void mark(const Graph& graph, std::vector<uint8_t> of_outputs, const FreeOperators* free, ResidueLiveness& all) {
  auto& live = all[&graph];  // a body used twice keeps the union
  live.resize(graph.tensors().size(), 0);
  for (size_t i = 0; i < of_outputs.size(); ++i) live[static_cast<size_t>(graph.outputs()[i])] |= of_outputs[i];
  for (size_t i = graph.operations().size(); i-- > 0;) {
    const Operation& op = graph.operations()[i];
    if (op.body) {
      std::vector<uint8_t> results;
      for (TensorId id : op.results) results.push_back(all[&graph][static_cast<size_t>(id)]);
      mark(*op.body, std::move(results), free, all);
      for (size_t n = 0; n < op.operands.size(); ++n) {
        all[&graph][static_cast<size_t>(op.operands[n])] |=
            all[op.body.get()][static_cast<size_t>(op.body->inputs()[n])];
      }
      continue;
    }
    auto& tensors = all[&graph];
    if (free != nullptr && free->at(&graph)[i]) {
      // A function of what its operands are modulo p, whatever of its result is read.
      for (TensorId id : op.operands) tensors[static_cast<size_t>(id)] |= FieldArithmetic::kResidueP;
      continue;
    }
    const OpDef& def = op_def(op.kind);
    const uint8_t read = op.kind == OpKind::AccumRescale ? FieldArithmetic::kResidueQ
                                                         : read_by(def, tensors[static_cast<size_t>(op.results[0])]);
    for (size_t n = 0; n < op.operands.size(); ++n) {
      const bool only = def.traits.lax.exponent_operand != LaxProperty::kAllOperands &&
                        def.traits.lax.exponent_operand != static_cast<int>(n);
      // Beside the operand that is exponentiated, others are factors; what is selected is handed on.
      const bool as_it_is = only || (op.kind == OpKind::Select && n > 0);
      tensors[static_cast<size_t>(op.operands[n])] |= as_it_is ? tensors[static_cast<size_t>(op.results[0])] : read;
    }
  }
}

}  // namespace

ResidueLiveness residue_liveness(const Graph& graph, uint8_t wanted, const FreeOperators* free) {
  ResidueLiveness all;
  mark(graph, std::vector<uint8_t>(graph.outputs().size(), wanted), free, all);
  return all;
}

}  // namespace strata
