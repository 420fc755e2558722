#include "indexing/thread_maps.h"

#include <fmt/format.h>

#include <cassert>

#include "indexing/simplify.h"

namespace strata::indexing {
namespace {

int64_t saturating_product(const std::vector<int64_t>& factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) product = saturating_mul(product, factor);
  return product;
}

}  // namespace

int64_t Tiling::tile(size_t i) const { return saturating_product({threads[i], unroll[i], vector[i]}); }
int64_t Tiling::tiles(size_t i) const { return ceil_div(shape[i], tile(i)); }

int64_t Tiling::blocks() const {
  int64_t count = 1;
  for (size_t i = 0; i < shape.size(); ++i) count = saturating_mul(count, tiles(i));
  return count;
}

int64_t Tiling::threads_per_block() const { return saturating_product(threads); }

Tiling linear_tiling(const std::vector<int64_t>& shape, int64_t threads, int64_t vector, int64_t unroll) {
  return {{saturating_product(shape)}, {threads}, {unroll}, {vector}};
}

std::string to_string(const Tiling& tiling) {
  return fmt::format("{} threads {} unroll {} vector {}, {} blocks", fmt::join(tiling.shape, "x"),
                     fmt::join(tiling.threads, "x"), fmt::join(tiling.unroll, "x"), fmt::join(tiling.vector, "x"),
                     tiling.blocks());
}

IndexingMap tile_map(const Tiling& tiling) {
  const size_t rank = tiling.shape.size();
  assert(tiling.threads.size() == rank && tiling.unroll.size() == rank && tiling.vector.size() == rank);
  IndexingMap map;
  for (size_t i = 0; i < rank; ++i) map.dims.push_back(below(tiling.tiles(i)));
  map.dims.push_back(below(tiling.threads_per_block()));
  map.ranges = positions(tiling.unroll);
  for (const int64_t vector : tiling.vector) map.ranges.push_back(below(vector));
  const std::vector<Expr> thread = delinearize(Expr::dim(static_cast<int>(rank)), tiling.threads);
  for (size_t i = 0; i < rank; ++i) {
    const int number = static_cast<int>(i);
    const Expr repetition = Expr::dim(number) * tiling.unroll[i] + Expr::range(number);
    const Expr vector = repetition * tiling.threads[i] + thread[i];
    map.results.push_back(vector * tiling.vector[i] + Expr::range(static_cast<int>(rank) + number));
    map.constraints.push_back({map.results[i], below(tiling.shape[i])});
  }
  return map;
}

IndexingMap thread_map(const Tiling& tiling) {
  std::vector<int64_t> grid;
  for (size_t i = 0; i < tiling.shape.size(); ++i) grid.push_back(tiling.tiles(i));
  IndexingMap tile;
  tile.dims = {below(tiling.blocks()), below(tiling.threads_per_block())};
  tile.results = delinearize(Expr::dim(kBlock), grid);
  tile.results.push_back(Expr::dim(kThread));
  return compose(tile, tile_map(tiling));
}

IndexingMap thread_map(const Tiling& tiling, const std::vector<int64_t>& shape) {
  assert(saturating_product(tiling.shape) == saturating_product(shape));
  IndexingMap map = thread_map(tiling);
  if (tiling.shape == shape) return map;
  const auto strides = row_major_strides(tiling.shape);
  const Expr position = strides ? linearize(map.results, *strides) : Expr::undefined();
  map.results = delinearize(position, shape);
  return map;
}

IndexingMap linear_form(const IndexingMap& map, const std::vector<int64_t>& shape) {
  assert(map.results.size() == shape.size());
  IndexingMap result = map;
  const auto strides = row_major_strides(shape);
  result.results = {strides ? linearize(map.results, *strides) : Expr::undefined()};
  return simplify(result, UnusedVariables::Keep);
}

}  // namespace strata::indexing
