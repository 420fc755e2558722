#include "superopt/optimize/retile.h"

#include <algorithm>

#include "superopt/optimize/rewrite.h"

namespace strata {
namespace {

/// Extent of the longest tile in the dimension that the loop cuts; 0 where there is no loop or no product.
int64_t loop_extent(const Graph& body) {
  int64_t longest = 0;
  bool product = false;
  for (const Operation& op : body.operations()) {
    product |= multiplies_matrices(op.kind);
    if (op.kind != OpKind::InIter || body.launch().loop == 1) continue;
    const int64_t fmap = op.attributes.integer_or("fmap", -1);
    if (fmap >= 0) longest = std::max(longest, body.type(op.results[0]).shape[static_cast<size_t>(fmap)]);
  }
  return product ? longest : 0;
}

Result<GraphPtr> with_loop(const Graph& body, int64_t loop) {
  LaunchShape launch = body.launch();
  launch.loop = loop;
  GraphBuilder builder(Level::Block, body.name(), launch);
  std::vector<TensorId> ids(body.tensors().size(), -1);
  for (TensorId id : body.inputs()) {
    STRATA_TRY(ids[static_cast<size_t>(id)], builder.input(body.tensor(id).name, body.type(id)));
  }
  for (const Operation& op : body.operations()) {
    if (op.body) return unsupported("thread graphs are formed after loops are cut");
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
    STRATA_TRY(
        ids[static_cast<size_t>(op.results[0])],
        builder.add(op.kind, operands, op.attributes, body.tensor(op.results[0]).name, op.location, op.comments));
  }
  return builder.finish();
}

}  // namespace

Result<GraphPtr> retile_loops(const Graph& graph, int64_t extent) {
  return rewrite_blocks(graph, [&](const Graph& body) -> Result<GraphPtr> {
    const int64_t longest = loop_extent(body);
    int64_t factor = 1;
    while (longest / factor > extent && longest % (2 * factor) == 0) factor *= 2;
    return with_loop(body, body.launch().loop * factor);
  });
}

}  // namespace strata
