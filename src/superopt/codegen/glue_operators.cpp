#include "superopt/codegen/glue_operators.h"

#include "ir/views.h"
#include "ops/op_def.h"
#include "ops/reduction.h"

namespace strata {

bool is_glue(const Operation& op) {
  if (op.body || op.results.size() != 1) return false;
  if (moves_elements(op.kind)) return true;
  switch (op.kind) {
    case OpKind::Add:
    case OpKind::Sub:
    case OpKind::Mul:
    case OpKind::Div:
    case OpKind::Max:
    case OpKind::Sqr:
    case OpKind::Scale:
    case OpKind::AddConstant:
    case OpKind::Relu:
    case OpKind::Exp:
    case OpKind::Sqrt:
    case OpKind::Rsqrt:
    case OpKind::SiLU:
    case OpKind::Gelu:
    case OpKind::Greater:
    case OpKind::Select:
      return true;
    default: {
      if (op.kind == OpKind::GraphDefined) return false;
      const OpTraits& traits = op_def(op.kind).traits;
      return is_reduction(op_def(op.kind)) && (traits.lax.maximum || traits.algebra.linear == kFirstOperand);
    }
  }
}

std::vector<size_t> glue_operations(const Graph& graph, const Schedules& schedules) {
  const LibraryPlan libraries = plan_libraries(graph, schedules);
  const std::vector<bool> views = view_operations(graph, libraries.strided);
  std::vector<size_t> found;
  for (size_t i = 0; i < views.size(); ++i) {
    if (is_glue(graph.operations()[i]) && !libraries.covered[i] && !views[i]) found.push_back(i);
  }
  return found;
}

bool is_emitted_product(const Operation& op) { return !op.body && op.kind == OpKind::Matmul; }

std::vector<bool> free_operations(const Graph& graph, const LibraryPlan& libraries, const std::vector<bool>& views,
                                  const Passes& passes) {
  const bool products = passes.libraries && !passes.one_kernel;
  std::vector<bool> free(graph.operations().size());
  for (size_t i = 0; i < free.size(); ++i) {
    const Operation& op = graph.operations()[i];
    free[i] = !op.body && !libraries.covered[i] && !views[i] && (products || !is_emitted_product(op));
  }
  return free;
}

}  // namespace strata
