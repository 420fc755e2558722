#include "ops/op_def.h"

namespace strata {

#define STRATA_OP(Name) const OpDef& define_##Name();
#include "ops/ops.def"
#undef STRATA_OP

std::span<const OpDef* const> all_ops() {
  static const std::array<const OpDef*, kOpCount> table = {
#define STRATA_OP(Name) &define_##Name(),
#include "ops/ops.def"
#undef STRATA_OP
  };
  return table;
}

const OpDef& op_def(OpKind kind) { return *all_ops()[static_cast<size_t>(kind)]; }

int64_t product_terms(const OpDef& op, OperandTypes operands, const Attributes& attributes, int number) {
  const IndexLabels labels = op.labels(operands, attributes);
  const auto second = static_cast<size_t>(number + op.traits.products);
  int64_t terms = 1;
  for (size_t d = 0; d < labels.operands[second].size(); ++d) {
    const int label = labels.operands[second][d];
    const bool kept = label != IndexLabels::kFree &&
                      std::find(labels.result.begin(), labels.result.end(), label) != labels.result.end();
    if (!kept) terms *= operands[second].shape[d];
  }
  return terms;
}

int64_t product_terms(const OpDef& op, OperandTypes operands, const Attributes& attributes) {
  int64_t terms = 0;
  for (int i = 0; i < op.traits.products; ++i) terms += product_terms(op, operands, attributes, i);
  return terms;
}

const OpDef* find_op(std::string_view name) {
  for (const OpDef* op : all_ops()) {
    if (op->traits.name == name) return op;
  }
  return nullptr;
}

}  // namespace strata
