#include "block/regions.h"

#include <algorithm>

#include "indexing/simplify.h"

namespace strata {

using indexing::Expr;
using indexing::ExprKind;
using indexing::IndexingMap;

namespace {

/// The number of a tensor among inputs or outputs.
int place(const std::vector<TensorId>& tensors, TensorId id) {
  return static_cast<int>(std::find(tensors.begin(), tensors.end(), id) - tensors.begin());
}

/// What the blocks read that compute what `written` says.
std::vector<AccessRegion> regions_of(const Graph& graph, const Operation& op, const IndexingMap& written) {
  const OperandReads reads = op_def(op.kind).reads(graph.types(op.operands), op.attributes);
  const int coordinates = static_cast<int>(written.dims.size());
  std::vector<AccessRegion> regions;
  for (size_t n = 0; n < reads.size(); ++n) {
    const IndexingMap read = compose(written, reads[n]);
    regions.push_back({static_cast<int>(n), false, coordinates, simplify(read, indexing::UnusedVariables::Keep), true});
  }
  regions.push_back({0, true, coordinates, written, true});
  return regions;
}

}  // namespace

IndexingMap of_all_iterations(const AccessRegion& region) {
  if (!region.iterates()) return region.map;
  IndexingMap map = region.map;
  const int iteration = region.coordinates;
  map.ranges.insert(map.ranges.begin(), map.dims.back());
  map.dims.pop_back();
  const auto replace = [&](const Expr& expr) {
    return substitute(expr, [&](ExprKind kind, int number) {
      if (kind == ExprKind::Dimension && number == iteration) return Expr::range(0);
      return Expr::variable(kind, kind == ExprKind::Range ? number + 1 : number);
    });
  };
  for (Expr& result : map.results) result = replace(result);
  for (auto& constraint : map.constraints) constraint.expr = replace(constraint.expr);
  for (auto& variable : map.runtime) {
    for (Expr& index : variable.element) index = replace(index);
  }
  return map;
}

AccessRegion tile_region(const Graph& graph, const Operation& op) {
  const bool writes = op.kind == OpKind::OutSaver;
  const LaunchShape& launch = graph.launch();
  const std::vector<int64_t>& cuts = op.attributes.list(writes ? "omap" : "imap");
  const int64_t fmap = writes ? kReplicate : op.attributes.integer_or("fmap", kReplicate);
  const Shape& tile = graph.type(writes ? op.operands[0] : op.results[0]).shape;

  AccessRegion region{writes ? place(graph.outputs(), op.results[0]) : place(graph.inputs(), op.operands[0]),
                      writes,
                      static_cast<int>(launch.grid.size()),
                      {},
                      true};
  region.map.dims = indexing::positions(launch.grid);
  region.map.ranges = indexing::positions(tile);
  const bool iterates = fmap != kReplicate && launch.loop > 1;
  if (iterates) region.map.dims.push_back(indexing::below(launch.loop));
  for (size_t d = 0; d < tile.size(); ++d) {
    // The first dimension of the grid that cuts this one is the outermost (ops/tiling.h), the loop the innermost.
    Expr position;
    for (size_t g = 0; g < cuts.size(); ++g) {
      if (cuts[g] == static_cast<int64_t>(d)) position = position * launch.grid[g] + Expr::dim(static_cast<int>(g));
    }
    if (iterates && fmap == static_cast<int64_t>(d)) position = position * launch.loop + Expr::dim(region.coordinates);
    region.map.results.push_back(position * tile[d] + Expr::range(static_cast<int>(d)));
  }
  return region;
}

std::vector<AccessRegion> block_regions(const Graph& graph) {
  std::vector<AccessRegion> regions;
  for (const OpKind kind : {OpKind::InIter, OpKind::OutSaver}) {
    for (const Operation& op : graph.operations()) {
      if (op.kind == kind) regions.push_back(tile_region(graph, op));
    }
  }
  return regions;
}

std::vector<AccessRegion> predefined_regions(const Graph& graph, const Operation& op,
                                             const std::vector<int64_t>& tile) {
  const Shape& shape = graph.type(op.results[0]).shape;
  IndexingMap written;
  written.ranges = indexing::positions(tile);
  for (size_t d = 0; d < shape.size(); ++d) {
    written.dims.push_back(indexing::below(indexing::ceil_div(shape[d], tile[d])));
    const auto number = static_cast<int>(d);
    written.results.push_back(Expr::dim(number) * tile[d] + Expr::range(number));
    if (shape[d] % tile[d] != 0) written.constraints.push_back({written.results[d], indexing::below(shape[d])});
  }
  return regions_of(graph, op, written);
}

std::vector<AccessRegion> predefined_regions(const Graph& graph, const Operation& op, int64_t elements) {
  const Shape& shape = graph.type(op.results[0]).shape;
  const int64_t all = element_count(shape);
  IndexingMap written;
  written.dims = {indexing::below(indexing::ceil_div(all, elements))};
  written.ranges = {indexing::below(elements)};
  const Expr position = Expr::dim(0) * elements + Expr::range(0);
  if (all % elements != 0) written.constraints.push_back({position, indexing::below(all)});
  written.results = indexing::delinearize(position, shape);
  return regions_of(graph, op, simplify(written, indexing::UnusedVariables::Keep));
}

MemoryRegion through_views(const Graph& graph, TensorId id, IndexingMap map, const std::vector<bool>& strided) {
  const TensorId memory = memory_view(graph, id, strided).memory;
  while (id != memory) {
    const Operation& view = graph.operations()[static_cast<size_t>(graph.tensor(id).producer)];
    const OperandReads reads = op_def(view.kind).reads(graph.types(view.operands), view.attributes);
    map = simplify(compose(map, reads[0]), indexing::UnusedVariables::Keep);
    id = view.operands[0];
  }
  return {memory, std::move(map)};
}

std::vector<Expr> first_element(const IndexingMap& map) {
  return substitute(map.results, [&](ExprKind kind, int number) {
    if (kind != ExprKind::Range) return Expr::variable(kind, number);
    return Expr::constant(map.ranges[static_cast<size_t>(number)].lo);
  });
}

}  // namespace strata
