#include "superopt/optimize/rewrite.h"

namespace strata {

Result<GraphPtr> rewrite_blocks(const Graph& graph, const std::function<Result<GraphPtr>(const Graph&)>& rewrite) {
  GraphBuilder builder(Level::Kernel, graph.name());
  std::vector<TensorId> ids(graph.tensors().size(), -1);
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const TensorId id = graph.inputs()[i];
    STRATA_TRY(ids[static_cast<size_t>(id)],
               builder.input(graph.tensor(id).name, graph.type(id), {}, graph.input_comments()[i]));
  }
  for (const Operation& op : graph.operations()) {
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
    if (!op.body) {
      STRATA_TRY(
          ids[static_cast<size_t>(op.results[0])],
          builder.add(op.kind, operands, op.attributes, graph.tensor(op.results[0]).name, op.location, op.comments));
      continue;
    }
    STRATA_TRY(GraphPtr body, rewrite(*op.body));
    std::vector<std::string> names;
    for (TensorId id : op.results) names.push_back(graph.tensor(id).name);
    STRATA_TRY(const std::vector<TensorId> results,
               builder.add(std::move(body), operands, names, op.location, op.comments));
    for (size_t n = 0; n < results.size(); ++n) ids[static_cast<size_t>(op.results[n])] = results[n];
  }
  for (TensorId id : graph.outputs()) STRATA_CHECK(builder.output(ids[static_cast<size_t>(id)]));
  builder.comment(graph.comments(), graph.output_comments(), graph.closing_comments());
  return builder.finish();
}

}  // namespace strata
