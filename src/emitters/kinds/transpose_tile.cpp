#include "emitters/kinds/transpose_tile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "indexing/simplify.h"
#include "indexing/thread_maps.h"

namespace strata::emitters {

using indexing::Expr;
using indexing::IndexingMap;

namespace {

constexpr int64_t kLineBytes = 128, kSectorBytes = 32;
constexpr int64_t kFewTerms = 8;  ///< of an element: as long as the first load of a line takes
constexpr int64_t kTileBytes = 16 * 1024;

int64_t product(const std::vector<int64_t>& factors) {
  return std::accumulate(factors.begin(), factors.end(), int64_t{1}, std::multiplies<>());
}

/// The dimensions in the order in which they lie in memory at one side of the permutation.
std::vector<size_t> side(const Permutation& permutation, bool result) {
  std::vector<size_t> order(permutation.rank());
  for (size_t i = 0; i < order.size(); ++i) order[i] = result ? static_cast<size_t>(permutation.order[i]) : i;
  return order;
}

/// The first of the innermost dimensions whose elements of a tile lie together: the ones after it are covered whole.
size_t run_start(const TransposeTile& tile, const std::vector<size_t>& order) {
  size_t first = order.size() - 1;
  while (first > 0 && tile.extents[order[first]] == tile.permutation.dims[order[first]]) --first;
  return first;
}

int64_t run_length(const std::vector<int64_t>& sizes, const std::vector<size_t>& order, size_t first) {
  int64_t length = 1;
  for (size_t i = first; i < order.size(); ++i) length *= sizes[order[i]];
  return length;
}

/// The innermost dimension that the result does not keep in its place, and those after it, are columns of the tile.
size_t first_column(const Permutation& permutation) {
  const bool keeps_minor = permutation.order.back() == static_cast<int>(permutation.rank()) - 1;
  return static_cast<size_t>(permutation.order[permutation.rank() - (keeps_minor ? 2 : 1)]) + 1;
}

/// Widens the tile until `need` elements lie together at one side.
void cover(TransposeTile& tile, bool result, int64_t need) {
  const std::vector<size_t> order = side(tile.permutation, result);
  for (size_t i = order.size(); i-- > 0 && need > 1;) {
    const int64_t size = tile.permutation.dims[order[i]];
    int64_t& extent = tile.extents[order[i]];
    const auto part = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(need)));
    extent = std::max(extent, size <= 2 * need ? size : part);
    if (extent < size) return;
    need = indexing::ceil_div(need, extent);
  }
}

int64_t vector_of(const TransposeTile& tile, bool result, int64_t limit) {
  const std::vector<size_t> order = side(tile.permutation, result);
  const size_t first = run_start(tile, order);
  const int64_t within = run_length(tile.extents, order, first);
  const int64_t whole = run_length(tile.permutation.dims, order, first);
  int64_t vector = 1;
  while (vector * 2 <= limit && within % (vector * 2) == 0 && whole % (vector * 2) == 0) vector *= 2;
  return vector;
}

}  // namespace

int64_t TransposeTile::elements() const { return product(extents); }

std::vector<int64_t> TransposeTile::grid() const {
  std::vector<int64_t> tiles;
  for (size_t i = 0; i < extents.size(); ++i) tiles.push_back(indexing::ceil_div(permutation.dims[i], extents[i]));
  return tiles;
}

int64_t TransposeTile::blocks() const { return product(grid()); }

TransposeTile choose_transpose_tile(const Permutation& permutation, const TransposeTraffic& traffic,
                                    const Target& target) {
  const int64_t narrowest = *std::min_element(traffic.tile_bytes.begin(), traffic.tile_bytes.end());
  const int64_t bytes = std::accumulate(traffic.tile_bytes.begin(), traffic.tile_bytes.end(), int64_t{0});
  int64_t line = std::max<int64_t>(kLineBytes / narrowest, 16);
  const auto of_lines = [&] {
    TransposeTile made{permutation, std::vector<int64_t>(permutation.rank(), 1)};
    made.narrowest = narrowest;
    cover(made, false, line);
    cover(made, true, line);
    return made;
  };
  TransposeTile tile = of_lines();
  // Where elements are sums, few blocks compute long: parts of lines for more of them, down to a sector.
  const bool is_long = traffic.terms > kFewTerms;
  while (is_long && line * narrowest > kSectorBytes && tile.blocks() < target.multiprocessors) {
    line /= 2;
    tile = of_lines();
  }
  // Longer runs at the side where lines are cut in two, then at the shorter one.
  while (tile.elements() * 2 * bytes <= kTileBytes) {
    TransposeTile best = tile;
    std::pair<bool, int64_t> best_rank{false, 0};
    for (const bool result : {false, true}) {
      const std::vector<size_t> order = side(permutation, result);
      const size_t first = run_start(tile, order);
      const size_t dim = order[first];
      if (tile.extents[dim] >= permutation.dims[dim]) continue;
      const int64_t run = run_length(tile.extents, order, first);
      const bool cut = run_length(permutation.dims, order, first) * narrowest % kLineBytes != 0;
      const std::pair<bool, int64_t> rank{cut && run < 2 * line, -run};
      if (best.extents != tile.extents && rank <= best_rank) continue;
      best = tile;
      best.extents[dim] = std::min(tile.extents[dim] * 2, permutation.dims[dim]);
      best_rank = rank;
    }
    const bool few = best.blocks() < 2 * target.multiprocessors;
    if (best.extents == tile.extents || few) break;
    tile = best;
  }
  tile.read_vector = vector_of(tile, false, std::max<int64_t>(16 / traffic.widest_read, 1));
  tile.write_vector = vector_of(tile, true, std::max<int64_t>(16 / traffic.widest_written, 1));
  // Neighbours in the operand that share a word are taken together, if the run that is written has other dimensions.
  const std::vector<size_t> written = side(permutation, true);
  const size_t inner = permutation.rank() - 1;
  bool in_run = false;
  for (size_t i = run_start(tile, written); i < written.size(); ++i) in_run |= written[i] == inner;
  while (!in_run && tile.pack * 2 * narrowest <= 4 && tile.extents[inner] % (tile.pack * 2) == 0) tile.pack *= 2;
  const int64_t items = tile.elements() / std::max(tile.read_vector, tile.write_vector * tile.pack);
  while (tile.threads > 64 && items < tile.threads) tile.threads /= 2;
  // Measured on an H200: 1 to 2 % less time than with 256 threads.
  constexpr int kMovingThreads = 512;
  if (!traffic.computes && items >= kMovingThreads) tile.threads = kMovingThreads;
  return tile;
}

namespace {

/// One side's loop over a tile: the coordinates of an element in it.
struct SideMap {
  IndexingMap map;                ///< to the coordinates in the tile
  std::vector<Expr> coordinates;  ///< in the permutation's dimensions
};

/// The index of an item: `line` lanes of a warp go along the last dimension, as many as move a line, the others of the
/// warp along the one before it, where these divide the extents; so all lanes meet different banks.
std::vector<Expr> lanes_by_lines(const Expr& item, const std::vector<int64_t>& items, int64_t line) {
  const size_t last = items.size() - 1;
  const int64_t lines = indexing::kWarpSize / std::max<int64_t>(line, 1);
  const bool fits = last > 0 && line > 1 && lines > 1 && items[last] > line && items[last] % line == 0 &&
                    items[last - 1] % lines == 0;
  if (!fits) return indexing::delinearize(item, items);
  std::vector<int64_t> digits = items;
  digits[last - 1] /= lines;
  digits[last] /= line;
  digits.push_back(lines);
  digits.push_back(line);
  std::vector<Expr> index = indexing::delinearize(item, digits);
  index[last - 1] = index[last - 1] * lines + index[last + 1];
  index[last] = index[last] * line + index[last + 2];
  index.resize(items.size());
  return index;
}

SideMap side_map(const TransposeTile& tile, bool result) {
  const std::vector<size_t> order = side(tile.permutation, result);
  const size_t first = run_start(tile, order);
  const size_t inner = tile.permutation.rank() - 1;
  const int64_t vector = result ? tile.write_vector : tile.read_vector;
  const int64_t pack = result ? tile.pack : 1;
  const auto packed = [&](size_t dim) { return result && dim == inner ? pack : 1; };
  std::vector<int64_t> items;  // what a thread takes at a time is one item
  std::vector<int64_t> run;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i < first) {
      items.push_back(tile.extents[order[i]] / packed(order[i]));
    } else {
      run.push_back(tile.extents[order[i]]);
    }
  }
  items.push_back(product(run) / vector);
  const int64_t count = product(items);
  SideMap side;
  side.map.dims = {indexing::below(tile.blocks()), indexing::below(tile.threads)};
  side.map.ranges = {indexing::below(indexing::ceil_div(count, tile.threads))};
  if (result) side.map.ranges.push_back(indexing::below(pack));
  side.map.ranges.push_back(indexing::below(vector));
  const Expr item = Expr::range(0) * tile.threads + Expr::dim(indexing::kThread);
  if (count % tile.threads != 0) side.map.constraints.push_back({item, indexing::below(count)});
  const std::vector<Expr> places = lanes_by_lines(item, items, kLineBytes / (vector * tile.narrowest));
  const Expr last = Expr::range(static_cast<int>(side.map.ranges.size()) - 1);
  const Expr along = places.back() * vector + last;
  const std::vector<Expr> in_run = indexing::delinearize(along, run);
  side.coordinates.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    Expr coordinate = i < first ? places[i] : in_run[i - first];
    if (i < first && packed(order[i]) > 1) coordinate = coordinate * pack + Expr::range(1);
    side.coordinates[order[i]] = coordinate;
  }
  const std::vector<Expr> block = indexing::delinearize(Expr::dim(indexing::kBlock), tile.grid());
  for (const size_t dim : order) {
    const Expr index = block[dim] * tile.extents[dim] + side.coordinates[dim];
    side.map.results.push_back(index);
    const int64_t size = tile.permutation.dims[dim];
    if (size % tile.extents[dim] == 0) continue;
    if (dim == order[first]) {  // so that whole vectors are within or not
      const int64_t after = product(run) / tile.extents[dim];
      side.map.constraints.push_back({block[dim] * product(run) + along, indexing::below(size * after)});
    } else {
      side.map.constraints.push_back({index, indexing::below(size)});
    }
  }
  return side;
}

}  // namespace

TransposeMaps transpose_maps(const TransposeTile& tile) {
  TransposeMaps maps;
  const size_t columns = first_column(tile.permutation);
  const std::vector<int64_t> rows(tile.extents.begin(), tile.extents.begin() + static_cast<std::ptrdiff_t>(columns));
  const std::vector<int64_t> row(tile.extents.begin() + static_cast<std::ptrdiff_t>(columns), tile.extents.end());
  maps.shared_shape = {product(rows), product(row)};
  for (const bool result : {false, true}) {
    SideMap side = side_map(tile, result);
    const auto linear = [&](size_t first, size_t last) {
      Expr position;
      for (size_t i = first; i < last; ++i) position = position * tile.extents[i] + side.coordinates[i];
      return indexing::simplify(position, side.map, indexing::ExprRange::Facts::VariablesAndConstraints);
    };
    (result ? maps.drain : maps.fill) = {linear(0, columns), linear(columns, tile.extents.size())};
    (result ? maps.write : maps.read) = indexing::simplify(side.map, indexing::UnusedVariables::Keep);
  }
  return maps;
}

std::string SharedLayout::text() const {
  std::string how = tile.swizzle_chunk > 0 ? fmt::format("swizzled by {}", tile.swizzle_chunk)
                                           : fmt::format("padded by {}", tile.padding);
  if (row_group > 0) how += fmt::format(", rows in groups of {}", row_group);
  return fmt::format("{} of {} byte{}, {}, {} bank conflict{} in {} accesses", fmt::join(tile.shape, "x"),
                     tile.element_bytes, tile.element_bytes == 1 ? "" : "s", how, conflicts(),
                     conflicts() == 1 ? "" : "s", fill_cost.accesses + drain_cost.accesses);
}

namespace {

/// Passes of two warps' accesses, in two repetitions, of which each takes elements over `variable` that stay together:
/// these show every conflict there is, or nearly, for all others are shifted by whole rows.
indexing::AccessCost access_cost(const IndexingMap& from, const std::vector<Expr>& shared, int variable, int threads,
                                 const indexing::SharedTile& tile) {
  IndexingMap map{shared, from.dims, from.ranges, {}, {}, false};
  map.dims[indexing::kBlock] = {0, 0};
  map.dims[indexing::kThread] = indexing::below(std::min(threads, 64));
  map.ranges[0] = indexing::below(std::min<int64_t>(map.ranges[0].size(), 2));
  const auto number = static_cast<size_t>(variable);
  int64_t together = map.ranges[number].size();
  const int64_t stay = tile.swizzle_chunk > 0 ? tile.swizzle_chunk : tile.shape[1] + tile.padding;
  const IndexingMap column{{shared[1]}, map.dims, map.ranges, {}, {}, false};
  const int64_t wide = shared[0].uses(indexing::ExprKind::Range, variable)
                           ? 1
                           : indexing::vector_width(indexing::simplify(column, indexing::UnusedVariables::Keep),
                                                    variable, 16 / tile.element_bytes);
  while (together > 1 && (together > wide || stay % together != 0)) together /= 2;
  // What one instruction takes is a variable of its own.
  const int added = static_cast<int>(map.ranges.size());
  map.ranges[number] = indexing::below(map.ranges[number].size() / together);
  map.ranges.push_back(indexing::below(together));
  map.results = indexing::substitute(map.results, [&](indexing::ExprKind kind, int which) {
    const Expr self = Expr::variable(kind, which);
    const bool split = kind == indexing::ExprKind::Range && which == variable;
    return split ? self * together + Expr::range(added) : self;
  });
  for (size_t i = 0; i < 2; ++i) map.constraints.push_back({map.results[i], indexing::below(tile.shape[i])});
  return indexing::shared_access(map, tile, added);
}

}  // namespace

SharedLayout choose_shared_layout(const TransposeTile& tile, const TransposeMaps& maps, int64_t element_bytes) {
  const int64_t word = std::max<int64_t>(4 / element_bytes, 1);  // elements of a bank's word
  const auto bytes = static_cast<int>(element_bytes);
  std::vector<indexing::SharedTile> candidates;
  const int64_t columns = maps.shared_shape[1];
  const auto words = static_cast<uint64_t>(columns / word);
  if (columns % word == 0 && words > 1 && std::has_single_bit(words)) {
    candidates.push_back({maps.shared_shape, bytes, 0, word});
  }
  for (const int64_t padding : {int64_t{0}, word, 2 * word, 4 * word}) {
    candidates.push_back({maps.shared_shape, bytes, padding, 0});
  }
  const int64_t rows = maps.shared_shape[0];
  const int64_t vector = tile.write_vector;
  const int64_t lanes = std::max<int64_t>(kLineBytes / (vector * tile.narrowest), 1);
  std::optional<SharedLayout> best;
  const auto rank = [](const SharedLayout& layout) {
    return std::pair(layout.fill_cost.units + layout.drain_cost.units, layout.tile.bytes());
  };
  const std::set<int64_t> groups{0, 1, std::clamp<int64_t>(indexing::kWarpSize / lanes, 1, vector)};
  for (const int64_t group : groups) {
    if (group > 0 && (vector == group || rows % vector != 0)) continue;
    const auto regrouped = [&](const IndexingMap& map, std::vector<Expr> place) {
      if (group == 0) return place;
      const Expr row = place[0];
      place[0] = floor_div(mod(row, vector), group) * (rows / vector * group) + floor_div(row, vector) * group +
                 mod(row, group);
      place[0] = indexing::simplify(place[0], map, indexing::ExprRange::Facts::VariablesAndConstraints);
      return place;
    };
    const std::vector<Expr> fill = regrouped(maps.read, maps.fill);
    const std::vector<Expr> drain = regrouped(maps.write, maps.drain);
    for (const indexing::SharedTile& candidate : candidates) {
      SharedLayout layout{candidate,
                          fill,
                          drain,
                          group,
                          access_cost(maps.read, fill, 1, tile.threads, candidate),
                          access_cost(maps.write, drain, 1, tile.threads, candidate)};
      if (!best || rank(layout) < rank(*best)) best = std::move(layout);
      if (best->conflicts() == 0) return *best;
    }
  }
  return *best;
}

}  // namespace strata::emitters
