// A loop under constraints → a loop over the interior of its map, without, and loops over the edges, with them: where
// that cuts off few points and copies little code.
#include <mlir/IR/IRMapping.h>

#include "emitters/dialect/dialect.h"
#include "emitters/transforms/index_values.h"
#include "emitters/transforms/passes.h"
#include "indexing/enumerate.h"
#include "indexing/simplify.h"
#include "indexing/split_interior.h"

namespace strata::emitters {
namespace {

using indexing::IndexingMap;
using indexing::InteriorSplit;

constexpr size_t kMaxEdges = 2;
constexpr int64_t kMaxOperations = 100;  ///< of a body that is copied
/// An interior with fewer of the points than this gains less than its code costs.
constexpr double kLeastShare = 0.5;

/// Whether all threads must go through the body together.
bool synchronizes(LoopOp loop) {
  return loop
      .walk([](mlir::Operation* op) {
        return llvm::isa<SyncThreadsOp, ShuffleIndexOp, ShuffleReduceOp, WarpProductOp>(op)
                   ? mlir::WalkResult::interrupt()
                   : mlir::WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether the edge comes first in the order of the loop: where the last point of one of its range variables is before
/// the interior's first.
bool is_before(const IndexingMap& edge, const IndexingMap& interior) {
  for (size_t i = 0; i < edge.ranges.size(); ++i) {
    if (edge.ranges[i].hi < interior.ranges[i].lo) return true;
  }
  return false;
}

void split(LoopOp loop) {
  IndexingMap map = loop.indexing_map();
  std::vector<indexing::Interval> given;
  for (size_t i = 0; i < map.dims.size(); ++i) {
    given.push_back(value_range(loop.getDims()[static_cast<unsigned>(i)]));
    map.dims[i] = intersect(map.dims[i], given[i]);
  }
  map = indexing::simplify(map, indexing::UnusedVariables::Keep);
  if (map.known_empty || map.constraints.empty()) return;
  if (count_operations(loop.getBody()) > kMaxOperations || synchronizes(loop)) return;
  const InteriorSplit parts = indexing::split_interior(map);
  if (parts.interior.known_empty || parts.edges.empty() || parts.edges.size() > kMaxEdges) return;
  const auto whole = static_cast<double>(indexing::box_size(map));
  if (static_cast<double>(indexing::box_size(parts.interior)) < kLeastShare * whole) return;

  std::vector<const IndexingMap*> order{&parts.interior};
  for (const IndexingMap& edge : parts.edges) {
    order.insert(is_before(edge, parts.interior) ? order.begin() : order.end(), &edge);
  }
  mlir::OpBuilder builder(loop);
  llvm::SmallVector<mlir::Value> values(loop.getInits());
  for (const IndexingMap* part : order) {
    auto copy = llvm::cast<LoopOp>(builder.clone(*loop));
    copy.setMapAttr(MapAttr::get(builder.getContext(), *part));
    copy.getInitsMutable().assign(values);
    values.assign(copy.getResults().begin(), copy.getResults().end());
  }
  loop.replaceAllUsesWith(values);
  loop.erase();
}

}  // namespace

mlir::LogicalResult split_loops(mlir::ModuleOp module, const LoweringOptions&) {
  llvm::SmallVector<LoopOp> loops;  // inner ones first
  module.walk([&](LoopOp loop) { loops.push_back(loop); });
  for (LoopOp loop : loops) split(loop);
  return mlir::success();
}

}  // namespace strata::emitters
