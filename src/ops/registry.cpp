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

const OpDef* find_op(std::string_view name) {
  for (const OpDef* op : all_ops()) {
    if (op->traits.name == name) return op;
  }
  return nullptr;
}

}  // namespace strata
