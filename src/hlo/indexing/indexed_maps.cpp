// Maps of operators that move elements to places known only when the program runs.
#include <algorithm>
#include <cassert>

#include "hlo/indexing/operator_maps.h"

namespace strata::indexing {
namespace {

using hlo::Opcode;

bool contains(const std::vector<int64_t>& list, int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

/// The operands from `first` on, with one start index a dimension: scalars, or one vector of all.
struct StartIndices {
  const Site& site;
  size_t first;

  bool is_vector() const { return site.operand(first).rank() == 1; }
  Expr add(IndexingMap& map, size_t dimension, int64_t last) const {
    const auto operand = static_cast<int>(is_vector() ? first : first + dimension);
    std::vector<Expr> element;
    if (is_vector()) element.push_back(Expr::constant(static_cast<int64_t>(dimension)));
    return add_runtime(map, site, operand, std::move(element), last);
  }
  void add_reads(std::vector<Read>& reads) const {
    for (size_t i = first; i < site.instruction.operands.size(); ++i) {
      IndexingMap map = site.map();
      if (is_vector()) map.results.push_back(add_range(map, site.operand(i).dims[0]));
      reads.push_back({static_cast<int>(i), 0, false, {std::move(map)}});
    }
  }
};

std::vector<Read> dynamic_slice(const Site& site) {
  const std::vector<int64_t>& extents = site.operand(0).dims;
  IndexingMap map = site.map();
  const StartIndices starts{site, 1};
  for (size_t i = 0; i < map.dims.size(); ++i) {
    const Expr start = starts.add(map, i, extents[i] - site.shape.dims[i]);
    map.results.push_back(Expr::dim(static_cast<int>(i)) + start);
  }
  std::vector<Read> reads{{0, 0, false, {std::move(map)}}};
  if (site.shape.rank() > 0) starts.add_reads(reads);
  return reads;
}

std::vector<Read> dynamic_update_slice(const Site& site) {
  const std::vector<int64_t>& extents = site.operand(1).dims;
  IndexingMap map = site.map();
  const StartIndices starts{site, 2};
  for (size_t i = 0; i < map.dims.size(); ++i) {
    const Expr start = starts.add(map, i, site.shape.dims[i] - extents[i]);
    map.results.push_back(Expr::dim(static_cast<int>(i)) - start);
    map.constraints.push_back({map.results.back(), below(extents[i])});
  }
  // What lies outside of the update is no single box, so the old value counts as read everywhere.
  std::vector<Read> reads{{0, 0, false, {identity_map(site.shape.dims)}}, {1, 0, false, {std::move(map)}}};
  if (site.shape.rank() > 0) starts.add_reads(reads);
  return reads;
}

/// The index into the tensor of start indices for batch coordinates and entry `entry` of the index vector.
std::vector<Expr> start_element(std::vector<Expr> batch, int64_t index_vector_dim, int64_t rank, const Expr& entry) {
  if (index_vector_dim < rank) batch.insert(batch.begin() + index_vector_dim, entry);
  return batch;
}

/// The dimensions of gather's start indices, or of scatter's, that are batch coordinates: all but the index vector's.
/// `batching` are dimensions of the start indices; the answer is where each stands among the batch coordinates.
size_t batch_position(int64_t batching, int64_t index_vector_dim) {
  return static_cast<size_t>(batching > index_vector_dim ? batching - 1 : batching);
}

std::vector<Read> gather(const Site& site) {
  const auto& a = site.instruction.as<hlo::GatherAttributes>();
  const hlo::Shape& operand = site.operand(0);
  const hlo::Shape& indices = site.operand(1);
  IndexingMap map = site.map();
  std::vector<Expr> batch;
  for (size_t i = 0; i < map.dims.size(); ++i) {
    if (!contains(a.offset_dims, static_cast<int64_t>(i))) batch.push_back(Expr::dim(static_cast<int>(i)));
  }
  size_t offset = 0;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    const auto batching = std::find(a.operand_batching_dims.begin(), a.operand_batching_dims.end(), d);
    if (batching != a.operand_batching_dims.end()) {
      const int64_t of_indices =
          a.start_indices_batching_dims[static_cast<size_t>(batching - a.operand_batching_dims.begin())];
      map.results.push_back(batch[batch_position(of_indices, a.index_vector_dim)]);
      continue;
    }
    Expr index;
    if (!contains(a.collapsed_slice_dims, d)) index = Expr::dim(static_cast<int>(a.offset_dims[offset++]));
    const auto start = std::find(a.start_index_map.begin(), a.start_index_map.end(), d);
    if (start != a.start_index_map.end()) {
      const Expr entry = Expr::constant(start - a.start_index_map.begin());
      index = index + add_runtime(map, site, 1, start_element(batch, a.index_vector_dim, indices.rank(), entry),
                                  operand.dim(d) - a.slice_sizes[static_cast<size_t>(d)]);
    }
    map.results.push_back(index);
  }
  IndexingMap of_indices = site.map();
  Expr entry;
  if (a.index_vector_dim < indices.rank()) entry = add_range(of_indices, indices.dim(a.index_vector_dim));
  of_indices.results = start_element(batch, a.index_vector_dim, indices.rank(), entry);
  return {{0, 0, false, {std::move(map)}}, {1, 0, false, {std::move(of_indices)}}};
}

/// All values of an integer type, as int64_t.
Interval values_of(hlo::ElementType type) {
  const int bits = hlo::bit_width(type);
  if (bits >= 64) return hlo::is_unsigned(type) ? Interval{0, kGreatest} : kEverything;
  if (!hlo::is_signed(type)) return {0, (int64_t{1} << bits) - 1};
  return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}

std::vector<Read> scatter(const Site& site) {
  const auto& a = site.instruction.as<hlo::ScatterAttributes>();
  const size_t count = (site.instruction.operands.size() - 1) / 2;
  const hlo::Shape& indices = site.operand(count);
  const hlo::Shape& updates = site.operand(count + 1);
  // For each element of the result all batch coordinates of the updates are tried: those whose window covers it count.
  IndexingMap map = site.map();
  std::vector<Expr> update_index(updates.dims.size());
  std::vector<Expr> batch;
  for (size_t i = 0; i < updates.dims.size(); ++i) {
    if (contains(a.update_window_dims, static_cast<int64_t>(i))) continue;
    update_index[i] = add_range(map, updates.dims[i]);
    batch.push_back(update_index[i]);
  }
  size_t window = 0;
  for (int64_t d = 0; d < site.shape.rank(); ++d) {
    Expr within = Expr::dim(static_cast<int>(d));
    const auto batching = std::find(a.input_batching_dims.begin(), a.input_batching_dims.end(), d);
    if (batching != a.input_batching_dims.end()) {
      const int64_t of_indices =
          a.scatter_indices_batching_dims[static_cast<size_t>(batching - a.input_batching_dims.begin())];
      map.constraints.push_back({within - batch[batch_position(of_indices, a.index_vector_dim)], {0, 0}});
      continue;
    }
    const bool inserted = contains(a.inserted_window_dims, d);
    const auto update_dim = inserted ? 0 : static_cast<size_t>(a.update_window_dims[window++]);
    const int64_t extent = inserted ? 1 : updates.dims[update_dim];
    const auto start = std::find(a.scatter_dims_to_operand_dims.begin(), a.scatter_dims_to_operand_dims.end(), d);
    if (start != a.scatter_dims_to_operand_dims.end()) {
      const Expr entry = Expr::constant(start - a.scatter_dims_to_operand_dims.begin());
      const Expr position = add_runtime(map, site, static_cast<int>(count),
                                        start_element(batch, a.index_vector_dim, indices.rank(), entry), 0);
      map.runtime.back().range = values_of(indices.type);
      map.constraints.push_back({position, {0, site.shape.dim(d) - extent}});
      within = within - position;
    }
    map.constraints.push_back({within, below(extent)});
    if (!inserted) update_index[update_dim] = within;
  }
  map.results = update_index;
  // Which updates count is not known before the indices are read: all of them are.
  IndexingMap of_indices = site.map();
  for (const int64_t extent : indices.dims) of_indices.results.push_back(add_range(of_indices, extent));
  std::vector<Read> reads;
  for (size_t i = 0; i < count; ++i) {
    reads.push_back({static_cast<int>(i), 0, false, {identity_map(site.shape.dims)}});
    reads.push_back({static_cast<int>(count + 1 + i), 0, false, {map}});
  }
  reads.push_back({static_cast<int>(count), 0, false, {std::move(of_indices)}});
  return reads;
}

}  // namespace

std::vector<Read> indexed_reads(const Site& site) {
  switch (site.instruction.opcode) {
    case Opcode::DynamicSlice:
      return dynamic_slice(site);
    case Opcode::DynamicUpdateSlice:
      return dynamic_update_slice(site);
    case Opcode::Gather:
      return gather(site);
    case Opcode::Scatter:
      return scatter(site);
    default:
      break;
  }
  assert(false);
  return {};
}

}  // namespace strata::indexing
