#include "superopt/codegen/block_accesses.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "block/regions.h"
#include "indexing/simplify.h"
#include "runtime/launch_accesses.h"
#include "superopt/codegen/emit.h"

namespace strata {

using indexing::Expr;
using indexing::ExprKind;
using indexing::IndexingMap;

namespace {

constexpr int64_t kPackedElement = 4;  // bytes of an element of the buffer of packed constants

std::vector<int64_t> sizes(const std::array<int64_t, 3>& grid) { return {grid.begin(), grid.end()}; }

/// The blocks of a graph that those of its launch do the work of: KernelLaunch::coordinates as a map.
IndexingMap graph_blocks(const KernelLaunch& launch, size_t rank) {
  IndexingMap map;
  map.dims = indexing::positions(sizes(launch.grid));
  std::array<Expr, 3> at{floor_div(Expr::dim(0), launch.split), Expr::dim(1), Expr::dim(2)};
  std::swap(at[0], at[launch.along_x]);
  map.results.assign(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(rank));
  return map;
}

/// The numbers along x, y and z of block `number` of a grid, x first.
std::vector<Expr> numbers_of(const Expr& number, const std::array<int64_t, 3>& grid) {
  return {mod(number, grid[0]), mod(floor_div(number, grid[0]), grid[1]), floor_div(number, grid[0] * grid[1])};
}

int64_t blocks_of(const std::array<int64_t, 3>& grid) { return grid[0] * grid[1] * grid[2]; }

/// Of a block graph: the operands whose tiles all are packed, and those of which some are.
struct PackedOperands {
  std::set<int64_t> all, some;
};

PackedOperands packed_operands(const Graph& body, const Packing& packing) {
  PackedOperands packed;
  std::map<int64_t, int64_t> tiles;  // that are not packed
  for (const AccessRegion& region : block_regions(body)) {
    if (!region.writes) ++tiles[region.argument];
  }
  for (const Packing::Tile& tile : packing.tiles) {
    --tiles[tile.operand];
    packed.some.insert(tile.operand);
  }
  for (const int64_t operand : packed.some) {
    if (tiles[operand] == 0) packed.all.insert(operand);
  }
  return packed;
}

/// The buffer of packed constants by the coordinates of the graph's block: its stages, each behind those of all blocks.
GpuAccess packed_access(const Graph& body, const Packing& packing, size_t argument, bool writes) {
  const std::vector<int64_t>& grid = body.launch().grid;
  const int64_t blocks = element_count(grid);
  const int64_t stage = packing.bytes / body.launch().loop / blocks / kPackedElement;
  GpuAccess access{argument, writes, true, {}};
  access.map.dims = indexing::positions(grid);
  access.map.ranges = indexing::positions({body.launch().loop, stage});
  Expr number;  // of the block, x first
  for (size_t d = grid.size(); d-- > 0;) number = number * grid[d] + Expr::dim(static_cast<int>(d));
  access.map.results = {Expr::range(0) * (blocks * stage) + number * stage + Expr::range(1)};
  return access;
}

}  // namespace

std::vector<GpuAccess> renumbered(const IndexingMap& numbers, std::vector<GpuAccess> accesses) {
  for (GpuAccess& access : accesses) access.map = compose(numbers, access.map);
  return accesses;
}

IndexingMap blocks_from(int64_t first, const std::array<int64_t, 3>& grid) {
  IndexingMap map;
  map.dims = {{first, first + blocks_of(grid) - 1}, {0, 0}, {0, 0}};
  map.results = numbers_of(Expr::dim(0) - first, grid);
  return map;
}

IndexingMap blocks_in_turn(int64_t blocks, const std::array<int64_t, 3>& grid) {
  const int64_t all = blocks_of(grid);
  IndexingMap map;
  map.dims = indexing::positions({blocks, 1, 1});
  map.ranges = {indexing::below(ceil_div(all, blocks))};
  const Expr number = Expr::range(0) * blocks + Expr::dim(0);
  map.constraints = {{number, indexing::below(all)}};
  map.results = numbers_of(number, grid);
  return map;
}

std::vector<GpuAccess> manifest_accesses(const KernelLaunch& launch) {
  std::vector<GpuAccess> made;
  for (GpuAccess access : launch.block_accesses) {
    IndexingMap& map = access.map;
    map = simplify(map);
    if (map.known_empty) continue;
    std::vector<indexing::Interval> across;  // what the block's numbers along y and z may be
    std::vector<Expr> dims{Expr::dim(0)};
    for (size_t d = 1; d < launch.grid.size(); ++d) {
      dims.push_back(launch.grid[d] > 1 ? Expr::range(static_cast<int>(across.size())) : Expr());
      if (launch.grid[d] > 1) across.push_back(map.dims[d]);
    }
    const auto replace = [&](ExprKind kind, int number) {
      if (kind == ExprKind::Dimension) return dims[static_cast<size_t>(number)];
      return Expr::variable(kind, kind == ExprKind::Range ? number + static_cast<int>(across.size()) : number);
    };
    map.results = substitute(map.results, replace);
    for (auto& constraint : map.constraints) constraint.expr = substitute(constraint.expr, replace);
    for (auto& variable : map.runtime) variable.element = substitute(variable.element, replace);
    map.dims.resize(1);
    map.ranges.insert(map.ranges.begin(), across.begin(), across.end());
    // What several tiles of a block touch alike is said once.
    const auto same = std::find_if(made.begin(), made.end(), [&](const GpuAccess& other) {
      return other.argument == access.argument && other.writes == access.writes && other.map == map;
    });
    if (same == made.end()) {
      made.push_back(std::move(access));
    } else {
      same->exact |= access.exact;
    }
  }
  return made;
}

void LaunchAccesses::add_read(const Placed& placed, size_t operand, bool exact, IndexingMap map,
                              std::vector<GpuAccess>& found) const {
  const std::vector<TensorId>& operands = placed.op.operands;
  const TensorId id = operands[operand];
  if (graph_.type(id).iota) return;
  const auto before = operands.begin() + static_cast<std::ptrdiff_t>(operand);
  const auto in_memory = [&](TensorId of) { return !graph_.type(of).iota; };
  const size_t argument = placed.places[static_cast<size_t>(std::count_if(operands.begin(), before, in_memory))];
  const auto uncopied = fronts_.find(id);
  if (uncopied == fronts_.end()) {
    found.push_back({argument, false, exact, through_views(graph_, id, std::move(map), strided_).map});
    return;
  }
  // Fronts are the last of the operator's arguments.
  const auto has_front = [&](TensorId of) { return fronts_.count(of) > 0; };
  const auto behind = std::count_if(before, operands.end(), has_front);
  const Front& front = uncopied->second.front;
  IndexingMap in_front = map;
  in_front.constraints.push_back({map.results[front.dim], indexing::below(front.size)});
  in_front.results = indexing::delinearize(indexing::linearize(map.results, front.strides),
                                           graph_.type(uncopied->second.memory).shape);
  found.push_back({placed.places[placed.places.size() - static_cast<size_t>(behind)], false, exact, in_front});
  map.constraints.push_back({map.results[front.dim], {front.size, graph_.type(id).shape[front.dim] - 1}});
  map.results[front.dim] = map.results[front.dim] - front.size;
  found.push_back({argument, false, exact, std::move(map)});
}

std::vector<GpuAccess> LaunchAccesses::of_block_graph(const Placed& placed, const std::set<int64_t>& without) const {
  std::vector<GpuAccess> found;
  const auto results = static_cast<size_t>(std::ssize(arguments_of(graph_, placed.op.operands)));
  for (const AccessRegion& region : block_regions(*placed.op.body)) {
    const auto number = static_cast<size_t>(region.argument);
    if (region.writes) {
      found.push_back({placed.places[results + number], true, region.exact, of_all_iterations(region)});
    } else if (without.count(region.argument) == 0) {
      add_read(placed, number, region.exact, of_all_iterations(region), found);
    }
  }
  return found;
}

void LaunchAccesses::add_block_graph(KernelLaunch& made, const Operation& op, const BlockCode& code) const {
  std::vector<size_t> places(made.arguments.size() - (code.packing ? 1 : 0));
  std::iota(places.begin(), places.end(), size_t{0});
  const std::set<int64_t> packed = code.packing ? packed_operands(*op.body, *code.packing).all : std::set<int64_t>();
  std::vector<GpuAccess> accesses = of_block_graph({op, places}, packed);
  if (code.packing) accesses.insert(accesses.begin(), packed_access(*op.body, *code.packing, places.size(), false));
  // Blocks of a cluster share iterations, results and what they bring.
  for (GpuAccess& access : accesses) access.exact &= code.cluster == 1 && (access.writes || code.sharers == 1);
  made.block_accesses = renumbered(graph_blocks(made, op.body->launch().grid.size()), std::move(accesses));
}

void LaunchAccesses::add_packing(KernelLaunch& made, const Operation& op, const Packing& packing) const {
  std::vector<size_t> places(made.arguments.size() - 1);
  std::iota(places.begin(), places.end(), size_t{0});
  const PackedOperands packed = packed_operands(*op.body, packing);
  std::set<int64_t> without;
  for (int64_t n = 0; n < std::ssize(op.operands); ++n) {
    if (packed.some.count(n) == 0) without.insert(n);
  }
  std::vector<GpuAccess> accesses = of_block_graph({op, places}, without);
  std::erase_if(accesses, [](const GpuAccess& access) { return access.writes; });
  // Operands of which some tiles are not packed are said to be read as a whole, and between tiles may be gaps.
  for (GpuAccess& access : accesses) access.exact &= packed.all.size() == packed.some.size();
  accesses.push_back(packed_access(*op.body, packing, places.size(), true));
  accesses.back().exact = false;
  made.block_accesses = renumbered(graph_blocks(made, op.body->launch().grid.size()), std::move(accesses));
}

/// Each operand's elements are one thread's each, who moves them to the result (device/strata_device.h, place).
std::vector<GpuAccess> LaunchAccesses::of_concatenation(const Operation& op, int64_t threads) const {
  std::vector<size_t> places(op.operands.size() + 1);
  std::iota(places.begin(), places.end(), size_t{0});
  const auto dim = static_cast<size_t>(op.attributes.integer("dim"));
  std::vector<GpuAccess> found;
  int64_t start = 0;
  for (size_t n = 0; n < op.operands.size(); ++n) {
    const Shape& shape = graph_.type(op.operands[n]).shape;
    const int64_t all = element_count(shape);
    IndexingMap map;
    map.dims = {indexing::below(ceil_div(all, threads))};
    map.ranges = {indexing::below(threads)};
    const Expr position = Expr::dim(0) * threads + Expr::range(0);
    map.constraints = {{position, indexing::below(all)}};
    map.results = indexing::delinearize(position, shape);
    add_read({op, places}, n, true, map, found);
    map.results[dim] = map.results[dim] + start;
    found.push_back({arguments_of(graph_, op.operands).size(), true, true, std::move(map)});
    start += shape[dim];
  }
  return found;
}

void LaunchAccesses::add_predefined(KernelLaunch& made, const Operation& op) const {
  std::vector<size_t> places(made.arguments.size());
  std::iota(places.begin(), places.end(), size_t{0});
  // The elements of the result go round: of all threads each takes one, then the next one.
  std::vector<GpuAccess> accesses;
  int64_t chunks = 0;  // that blocks take in turn
  if (op.kind == OpKind::Concat) {
    accesses = of_concatenation(op, made.threads);
  } else {
    for (const AccessRegion& region : predefined_regions(graph_, op, made.threads)) {
      if (region.writes) {
        accesses.push_back({places.size() - 1, true, region.exact, region.map});
      } else {
        add_read({op, places}, static_cast<size_t>(region.argument), region.exact, region.map, accesses);
      }
    }
  }
  for (const GpuAccess& access : accesses) chunks = std::max(chunks, access.map.dims[0].hi + 1);
  IndexingMap in_turn = blocks_in_turn(made.grid[0], {chunks, 1, 1});
  in_turn.results.resize(1);
  made.block_accesses = renumbered(in_turn, std::move(accesses));
}

void LaunchAccesses::add_emitted(KernelLaunch& made, const EmittedKernel& kernel,
                                 const std::function<ArrayType(const std::string&)>& type_of) {
  IndexingMap along_x;
  along_x.dims = indexing::positions(sizes(made.grid));
  along_x.results = {Expr::dim(0)};
  for (const AccessRegion& region : kernel.regions) {
    const auto argument = static_cast<size_t>(region.argument);
    IndexingMap map = of_same_memory(region.map, kernel.types[argument], type_of(kernel.arguments[argument]));
    made.block_accesses.push_back({argument, region.writes, region.exact, compose(along_x, map)});
  }
}

void LaunchAccesses::add_handover(KernelLaunch& made, const Placed& first, const Placed& second, const BlockCode& code,
                                  const HandoverGroups& groups, int64_t counter_stride) const {
  std::vector<GpuAccess> accesses = of_block_graph(first);
  for (GpuAccess& access : accesses) access.exact &= code.cluster == 1 && (access.writes || code.sharers == 1);
  const IndexingMap counter = groups.counter(counter_stride);
  for (const bool writes : {false, true}) accesses.push_back({made.arguments.size() - 1, writes, true, counter});
  // A group's blocks share what comes next, or leave it to the last of them.
  for (GpuAccess& access : renumbered(groups.consumers_of(), of_block_graph(second))) {
    access.exact = false;
    accesses.push_back(std::move(access));
  }
  made.block_accesses = renumbered(graph_blocks(made, first.op.body->launch().grid.size()), std::move(accesses));
}

}  // namespace strata
