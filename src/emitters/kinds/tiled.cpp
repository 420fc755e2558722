#include "emitters/kinds/tiled.h"

#include <algorithm>
#include <cassert>

#include "indexing/simplify.h"

namespace strata::emitters {

using indexing::Expr;
using indexing::IndexingMap;
using indexing::kBlock;
using indexing::kThread;
using indexing::kWarpSize;
using indexing::UnusedVariables;

namespace {

template <class Size>
int64_t product(const TiledReduction& tiled, bool reduced, Size size) {
  int64_t total = 1;
  for (size_t i = 0; i < tiled.rank(); ++i) {
    if (tiled.reduced[i] == reduced) total *= size(i);
  }
  return total;
}

Expr row_major(const std::vector<Expr>& index, const std::vector<int64_t>& sizes) {
  Expr position;
  for (size_t i = 0; i < index.size(); ++i) position = position * sizes[i] + index[i];
  return position;
}

/// What a thread's coordinates are, and the numbers of its outputs.
struct Coordinates {
  explicit Coordinates(const TiledReduction& tiled) {
    const indexing::Tiling& tiling = tiled.tiling;
    const std::vector<Expr> thread = indexing::delinearize(Expr::dim(kThread), tiling.threads);
    const int rank = static_cast<int>(tiled.rank());
    std::vector<Expr> sharing, repetitions, vectors, local;
    std::vector<int64_t> sharing_sizes, unroll, vector, tile;
    for (int d = 0; d < rank; ++d) {
      const auto i = static_cast<size_t>(d);
      if (tiled.reduced[i]) {
        sharing.push_back(thread[i]);
        sharing_sizes.push_back(tiling.threads[i]);
        continue;
      }
      const Expr within = Expr::range(d) * tiling.threads[i] + thread[i];
      local.push_back(within * tiling.vector[i] + Expr::range(2 * rank + d));
      tile.push_back(tiling.tile(i));
      repetitions.push_back(Expr::range(d));
      unroll.push_back(tiling.unroll[i]);
      vectors.push_back(Expr::range(2 * rank + d));
      vector.push_back(tiling.vector[i]);
    }
    share = row_major(sharing, sharing_sizes);
    output = row_major(local, tile);
    repetitions.insert(repetitions.end(), vectors.begin(), vectors.end());
    unroll.insert(unroll.end(), vector.begin(), vector.end());
    slot = row_major(repetitions, unroll);
    slot_variables = repetitions;
    slot_sizes = unroll;
  }

  Expr share;   ///< of the threads that share an output: which one this is
  Expr output;  ///< of the block's
  Expr slot;    ///< of the thread's
  std::vector<Expr> slot_variables;
  std::vector<int64_t> slot_sizes;
};

}  // namespace

int64_t TiledReduction::slots() const {
  return product(*this, false, [&](size_t i) { return tiling.unroll[i] * tiling.vector[i]; });
}
int64_t TiledReduction::outputs() const {
  return product(*this, false, [&](size_t i) { return tiling.tile(i); });
}
int64_t TiledReduction::sharing() const {
  return product(*this, true, [&](size_t i) { return tiling.threads[i]; });
}
int64_t TiledReduction::splits() const {
  return product(*this, true, [&](size_t i) { return tiling.tiles(i); });
}
int64_t TiledReduction::lanes() const {
  return combines_lanes() ? std::min<int64_t>(tiling.threads.back(), kWarpSize) : 1;
}
int64_t TiledReduction::parts() const { return sharing() / lanes(); }

bool TiledReduction::combines_everywhere() const {
  constexpr int64_t kMostParts = 16;
  return all_want_results && combines_lanes() && outputs() == 1 && parts() > 1 && parts() <= kMostParts;
}

int64_t TiledReduction::combining_lanes() const {
  if (combines_everywhere()) return 1;
  int64_t count = 1;
  const int64_t threads = tiling.threads_per_block();
  while (count < kWarpSize && count < parts() && outputs() * count * 2 <= threads) count *= 2;
  return count;
}

int64_t TiledReduction::in_flight(size_t dimension) const {
  constexpr int64_t kInFlight = 8;
  const int64_t unroll = tiling.unroll[dimension];
  if (in_registers > 0) return 1;  // these loops are short already
  return dimension + 1 == rank() && reduced[dimension] && unroll > kInFlight && unroll % kInFlight == 0 ? kInFlight : 1;
}

IndexingMap TiledReduction::elements() const {
  const int count = static_cast<int>(rank());
  IndexingMap map = indexing::thread_map(tiling);
  const auto variable = [&](indexing::ExprKind kind, int number) {
    if (kind != indexing::ExprKind::Range) return Expr::variable(kind, number);
    if (number >= count) return Expr::range(number + count);
    return Expr::range(number) * in_flight(static_cast<size_t>(number)) + Expr::range(number + count);
  };
  map.results = indexing::substitute(map.results, variable);
  for (indexing::Constraint& constraint : map.constraints) {
    constraint.expr = indexing::substitute(constraint.expr, variable);
  }
  std::vector<indexing::Interval> together;
  for (size_t i = 0; i < rank(); ++i) {
    together.push_back(indexing::below(in_flight(i)));
    map.ranges[i] = indexing::below(tiling.unroll[i] / in_flight(i));
  }
  map.ranges.insert(map.ranges.begin() + count, together.begin(), together.end());
  return map;
}

Expr TiledReduction::first_aligned(const std::vector<Expr>& index) const {
  if (!aligned_rows) return Expr();
  Expr row;
  for (size_t i = 0; i + 1 < rank(); ++i) row = row * tiling.shape[i] + index[i];
  return mod(row * -tiling.shape.back(), tiling.vector.back());
}

IndexingMap TiledReduction::points() const {
  IndexingMap map = elements();
  if (aligned_rows) {
    const int64_t length = tiling.shape.back();
    const int64_t width = tiling.vector.back();
    const Expr within = map.results.back();
    const Expr head = first_aligned(map.results);
    map.results.back() = within + head;
    std::erase_if(map.constraints, [&](const indexing::Constraint& one) { return one.expr == within; });
    // Of whole vectors: where the first element is tells whether all are within the row.
    const Expr first = within - Expr::range(static_cast<int>(3 * rank()) - 1);
    map.constraints.push_back({first + head, {0, length - width}});
  }
  const Coordinates at(*this);
  map.results.push_back(at.output);
  map.results.push_back(at.slot);
  return indexing::simplify(map, UnusedVariables::Keep);
}

std::optional<IndexingMap> TiledReduction::edges() const {
  if (!aligned_rows) return std::nullopt;
  IndexingMap map = elements();
  for (size_t i = 1; i <= 3; ++i) map.ranges[i * rank() - 1] = {0, 0};
  const int64_t length = tiling.shape.back();
  const int64_t width = tiling.vector.back();
  const Expr within = map.results.back();
  std::erase_if(map.constraints, [&](const indexing::Constraint& one) { return one.expr == within; });
  const Expr head = first_aligned(map.results);
  const Expr tail = mod(Expr::constant(length) - head, width);
  // The row as a ring: its end and its beginning are one run. The last threads take it, which have the least to do.
  const Expr number = Expr::constant(tiling.threads.back() - 1) - mod(Expr::dim(kThread), tiling.threads.back());
  map.results.back() = mod(number - tail, length);
  map.constraints.push_back({number - head - tail, {-tiling.threads.back(), -1}});
  // Of a row that blocks share, the last block has what is left.
  if (const int64_t tiles = tiling.tiles(rank() - 1); tiles > 1)
    map.constraints.push_back({mod(Expr::dim(kBlock), tiles), {tiles - 1, tiles - 1}});
  const Coordinates at(*this);
  map.results.push_back(at.output);
  map.results.push_back(at.slot);
  return indexing::simplify(map, UnusedVariables::Keep);
}

std::vector<ElementLoop> TiledReduction::loops() const {
  constexpr int64_t kUnrolled = 8;  // repetitions of a loop that disappears
  std::vector<ElementLoop> result;
  const IndexingMap all = points();
  const auto add = [&](int64_t first, int64_t end, bool in_shared) {
    IndexingMap part = all;
    indexing::Interval& repetitions = part.ranges[rank() - 1];
    repetitions = intersect(repetitions, {first, end - 1});
    if (repetitions.empty()) return;
    result.push_back({indexing::simplify(part, UnusedVariables::Keep), in_shared});
  };
  if (in_registers == 0) {
    result.push_back({all, true});
  } else {
    // What goes on to shared memory first: until its loads are there, no register is taken.
    add(in_registers, tiling.unroll.back(), true);
    for (int64_t first = 0; first < in_registers; first += kUnrolled) {
      add(first, std::min(first + kUnrolled, in_registers), false);
    }
  }
  if (std::optional<IndexingMap> rest = edges()) result.push_back({std::move(*rest), false});
  return result;
}

Expr TiledReduction::place_in_shared(const std::vector<Expr>& index) const {
  Expr place;
  for (size_t i = 0; i + 1 < rank(); ++i) {
    if (reduced[i]) place = place * tiling.shape[i] + index[i];
  }
  if (!reduced.back()) return place;
  const int64_t before = in_registers * tiling.threads.back() * tiling.vector.back();
  return place * row_in_shared() + index.back() - first_aligned(index) - before;
}

int64_t TiledReduction::row_in_shared() const {
  const int64_t length = tiling.shape.back();
  return aligned_rows && rank() > 2 ? indexing::ceil_div(length, tiling.vector.back()) * tiling.vector.back() : length;
}

int64_t TiledReduction::most_in_shared() const {
  const int64_t length =
      product(*this, true, [&](size_t i) { return i + 1 == rank() ? row_in_shared() : tiling.shape[i]; });
  return length - in_registers * tiling.threads.back() * tiling.vector.back();
}

std::optional<int64_t> TiledReduction::vector() const {
  if (rank() == 0 || tiling.vector.back() == 1) return std::nullopt;
  return static_cast<int64_t>(3 * rank() - 1);
}

indexing::SharedTile TiledReduction::part_tile(int element_bytes) const {
  indexing::SharedTile tile;
  tile.element_bytes = element_bytes;
  if (combines_lanes()) {
    tile.shape = {outputs(), parts()};  // lanes read one output's parts, which lie together
  } else {
    tile.shape = {parts(), outputs()};
    if (combining_lanes() > 1 && outputs() % 2 == 0) tile.padding = 1;
  }
  return tile;
}

IndexingMap TiledReduction::part_writes(int64_t slot) const {
  const Coordinates at(*this);
  std::vector<int64_t> digits(at.slot_sizes.size());
  for (size_t i = digits.size(); i-- > 0; slot /= at.slot_sizes[i]) digits[i] = slot % at.slot_sizes[i];
  const Expr output = indexing::substitute(at.output, [&](indexing::ExprKind kind, int number) {
    const Expr variable = Expr::variable(kind, number);
    const auto place = std::find(at.slot_variables.begin(), at.slot_variables.end(), variable);
    if (place == at.slot_variables.end()) return variable;
    return Expr::constant(digits[static_cast<size_t>(place - at.slot_variables.begin())]);
  });
  IndexingMap map;
  map.dims = {indexing::below(tiling.blocks()), indexing::below(tiling.threads_per_block())};
  const Expr part = floor_div(at.share, lanes());
  map.results = combines_lanes() ? std::vector<Expr>{output, part} : std::vector<Expr>{part, output};
  if (lanes() > 1) map.constraints.push_back({mod(at.share, lanes()), {0, 0}});
  return indexing::simplify(map, UnusedVariables::Keep);
}

IndexingMap TiledReduction::part_reads() const {
  assert(outputs() <= tiling.threads_per_block());
  const int64_t together = combining_lanes();
  IndexingMap map;
  map.dims = {indexing::below(tiling.blocks()), indexing::below(tiling.threads_per_block())};
  if (combines_everywhere()) {
    map.ranges = {indexing::below(parts())};
    map.results = {Expr(), Expr::range(0)};
    return map;
  }
  map.ranges = {indexing::below(indexing::ceil_div(parts(), together))};
  const Expr output = floor_div(Expr::dim(kThread), together);
  const Expr part = Expr::range(0) * together + mod(Expr::dim(kThread), together);
  map.results = combines_lanes() ? std::vector<Expr>{output, part} : std::vector<Expr>{part, output};
  map.constraints = {{output, indexing::below(outputs())}, {part, indexing::below(parts())}};
  return indexing::simplify(map, UnusedVariables::Keep);
}

IndexingMap TiledReduction::holders() const {
  const Coordinates at(*this);
  IndexingMap map = elements();
  if (parts() == 1) {
    map.constraints.clear();
    for (size_t i = 0; i < rank(); ++i) {
      if (reduced[i]) {
        map.results[i] = Expr();
        map.ranges[i] = map.ranges[rank() + i] = map.ranges[2 * rank() + i] = {0, 0};
      } else {
        map.constraints.push_back({map.results[i], indexing::below(tiling.shape[i])});
      }
    }
    if (sharing() > 1) map.constraints.push_back({at.share, {0, 0}});
    map.results.push_back(at.output);
    map.results.push_back(at.slot);
    return indexing::simplify(map, UnusedVariables::Keep);
  }
  // Output after output, each with its combining lanes.
  const int64_t together = combining_lanes();
  const Expr output = floor_div(Expr::dim(kThread), together);
  std::vector<int64_t> tiles, kept_tile;
  for (size_t i = 0; i < rank(); ++i) {
    tiles.push_back(tiling.tiles(i));
    if (!reduced[i]) kept_tile.push_back(tiling.tile(i));
  }
  const std::vector<Expr> block = indexing::delinearize(Expr::dim(kBlock), tiles);
  const std::vector<Expr> local = indexing::delinearize(output, kept_tile);
  map.ranges.clear();
  map.constraints.clear();
  size_t kept = 0;
  for (size_t i = 0; i < rank(); ++i) {
    map.results[i] = reduced[i] ? Expr() : block[i] * tiling.tile(i) + local[kept++];
    if (!reduced[i]) map.constraints.push_back({map.results[i], indexing::below(tiling.shape[i])});
  }
  map.constraints.push_back({output, indexing::below(outputs())});
  if (together > 1) map.constraints.push_back({mod(Expr::dim(kThread), together), {0, 0}});
  map.results.push_back(output);
  map.results.push_back(Expr());
  return indexing::simplify(map, UnusedVariables::Keep);
}

}  // namespace strata::emitters
