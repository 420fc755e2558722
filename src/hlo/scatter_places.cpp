#include "hlo/scatter_places.h"

#include <fmt/format.h>

#include <algorithm>

#include "hlo/strided.h"

namespace strata::hlo {
namespace {

using Integers = std::vector<int64_t>;

bool contains(const Integers& list, int64_t value) { return std::find(list.begin(), list.end(), value) != list.end(); }

/// The operand's dimension of each dimension of the updates' window.
Integers window_dims_of(const ScatterAttributes& how, size_t rank) {
  Integers dims;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d) {
    if (!contains(how.inserted_window_dims, d) && !contains(how.input_batching_dims, d)) dims.push_back(d);
  }
  return dims;
}

}  // namespace

std::vector<int64_t> scatter_extents(const ScatterAttributes& how, size_t rank, const Integers& update_dims) {
  const Integers window_dims = window_dims_of(how, rank);
  Integers extents(rank, 1);
  for (size_t i = 0; i < window_dims.size(); ++i) {
    extents[static_cast<size_t>(window_dims[i])] = update_dims[static_cast<size_t>(how.update_window_dims[i])];
  }
  return extents;
}

ScatterPlaces scatter_places(const ScatterAttributes& how, const Literal& indices, const Integers& dims,
                             const Integers& update_dims) {
  ScatterPlaces places;
  if (is_empty(update_dims)) return places;
  const Integers strides = row_major_strides(dims);
  const Integers index_strides = row_major_strides(indices.shape().dims);
  const Integers window_dims = window_dims_of(how, dims.size());
  const Integers extents = scatter_extents(how, dims.size(), update_dims);
  // The indices' stride of each scatter dimension of the updates, and which dimension it is.
  Integers scatter_dims, batch_strides, batch_dims;
  for (int64_t d = 0; d < static_cast<int64_t>(update_dims.size()); ++d) {
    if (!contains(how.update_window_dims, d)) scatter_dims.push_back(d);
  }
  for (int64_t d = 0; d < indices.shape().rank(); ++d) {
    if (d == how.index_vector_dim) continue;
    batch_dims.push_back(d);
    batch_strides.push_back(index_strides[static_cast<size_t>(d)]);
  }
  const bool has_vector = how.index_vector_dim < indices.shape().rank();
  const int64_t vector_stride = has_vector ? index_strides[static_cast<size_t>(how.index_vector_dim)] : 0;
  Integers update(update_dims.size());
  int64_t next = 0;
  do {
    const int64_t source = next++;
    int64_t at = 0;
    for (size_t i = 0; i < scatter_dims.size(); ++i) {
      at += update[static_cast<size_t>(scatter_dims[i])] * batch_strides[i];
    }
    // The whole window has to be inside, or none of it is written.
    Integers place(dims.size());
    bool inside = true;
    for (size_t i = 0; i < how.scatter_dims_to_operand_dims.size(); ++i) {
      const size_t d = static_cast<size_t>(how.scatter_dims_to_operand_dims[i]);
      place[d] = indices.get_integer(at + static_cast<int64_t>(i) * vector_stride);
      inside &= place[d] >= 0 && place[d] <= dims[d] - extents[d];
    }
    if (!inside) continue;
    for (size_t i = 0; i < how.input_batching_dims.size(); ++i) {
      const auto which = std::find(batch_dims.begin(), batch_dims.end(), how.scatter_indices_batching_dims[i]);
      const size_t scatter_dim = static_cast<size_t>(which - batch_dims.begin());
      place[static_cast<size_t>(how.input_batching_dims[i])] = update[static_cast<size_t>(scatter_dims[scatter_dim])];
    }
    for (size_t i = 0; i < window_dims.size(); ++i) {
      place[static_cast<size_t>(window_dims[i])] += update[static_cast<size_t>(how.update_window_dims[i])];
    }
    places.to.push_back(dot_product(place, strides));
    places.from.push_back(source);
  } while (next_index(update, update_dims));
  return places;
}

std::string scatter_combination(const Computation& called) {
  const Instruction& root = called.root_instruction();
  if (called.root == called.parameters[1]) return "copy(b)";
  if (root.operands.size() == 2 && root.operands == called.parameters && family(root.opcode) == Family::Binary)
    return fmt::format("{}(a, b)", name(root.opcode));
  return "map(a, b), to_apply=scatter";
}

}  // namespace strata::hlo
