#include "superopt/codegen/glue_operators.h"

#include "ir/views.h"
#include "superopt/codegen/libraries.h"

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
    default:
      return false;
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

}  // namespace strata
