#include "emitters/kinds/permutation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "indexing/memory_access.h"
#include "indexing/thread_maps.h"

namespace strata::emitters {

std::vector<int64_t> Permutation::result_dims() const {
  std::vector<int64_t> result;
  for (const int dim : order) result.push_back(dims[static_cast<size_t>(dim)]);
  return result;
}

std::string Permutation::text() const { return fmt::format("{} by {}", fmt::join(dims, "x"), fmt::join(order, ",")); }

namespace {

LoopReads find_reads_of_loop(const Permutation& permutation, int64_t element_bytes) {
  const std::vector<int64_t> result = permutation.result_dims();
  const int64_t vector = std::max<int64_t>(16 / element_bytes, 1);
  const indexing::IndexingMap loop =
      indexing::thread_map(indexing::linear_tiling(result, indexing::kWarpSize, vector, 1), result);
  indexing::IndexingMap read = loop;
  for (size_t i = 0; i < result.size(); ++i) read.results[static_cast<size_t>(permutation.order[i])] = loop.results[i];
  const auto strides = hlo::row_major_strides(permutation.dims);
  const auto ratio = [&](int64_t bits) {
    return indexing::global_access(read, strides, static_cast<int>(bits), /*vector=*/1).ratio();
  };
  // A quarter of an element's bits makes sectors of lines.
  return {.lines = ratio(2 * element_bytes), .sectors = ratio(8 * element_bytes)};
}

}  // namespace

LoopReads reads_of_loop(const Permutation& permutation, int64_t element_bytes) {
  // Each group that may become a kernel is priced, and has the transposes of many others.
  thread_local std::map<std::tuple<std::vector<int64_t>, std::vector<int>, int64_t>, LoopReads> known;
  constexpr size_t kMost = 10000;
  if (known.size() >= kMost) known.clear();
  const auto [found, is_new] = known.try_emplace({permutation.dims, permutation.order, element_bytes});
  if (is_new) found->second = find_reads_of_loop(permutation, element_bytes);
  return found->second;
}

std::optional<Permutation> permutation_of(const hlo::Shape& operand, const hlo::Shape& result,
                                          const std::vector<int64_t>& dimensions) {
  if (operand.element_count() == 0) return std::nullopt;
  // The places in memory, outermost first, of the operand's dimensions without those of size 1.
  std::vector<int> place(operand.dims.size(), -1);
  std::vector<int64_t> sizes;
  for (size_t i = operand.dims.size(); i-- > 0;) {
    const int64_t dim = operand.minor_to_major[i];
    if (operand.dim(dim) == 1) continue;
    place[static_cast<size_t>(dim)] = static_cast<int>(sizes.size());
    sizes.push_back(operand.dim(dim));
  }
  std::vector<int> order;
  for (size_t i = result.dims.size(); i-- > 0;) {
    const int from = place[static_cast<size_t>(dimensions[static_cast<size_t>(result.minor_to_major[i])])];
    if (from >= 0) order.push_back(from);
  }
  // Neighbours that stay neighbours, in order, are one dimension.
  std::vector<bool> joins_next(sizes.size());
  for (size_t k = 0; k + 1 < order.size(); ++k) {
    if (order[k + 1] == order[k] + 1) joins_next[static_cast<size_t>(order[k])] = true;
  }
  Permutation merged;
  std::vector<int> number(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0 && joins_next[i - 1]) {
      merged.dims.back() *= sizes[i];
    } else {
      merged.dims.push_back(sizes[i]);
    }
    number[i] = static_cast<int>(merged.dims.size()) - 1;
  }
  for (const int from : order) {
    const int to = number[static_cast<size_t>(from)];
    if (merged.order.empty() || merged.order.back() != to) merged.order.push_back(to);
  }
  if (merged.order.size() < 2) return std::nullopt;
  return merged;
}

std::optional<Permutation> permutation_of(const hlo::Computation& computation, hlo::InstructionId id) {
  const hlo::Instruction& it = computation[id];
  std::vector<int64_t> dimensions;
  if (it.opcode == hlo::Opcode::Transpose) {
    dimensions = it.dimensions();
  } else if (it.opcode == hlo::Opcode::Copy) {
    dimensions.resize(it.shape.dims.size());
    std::iota(dimensions.begin(), dimensions.end(), 0);
  }
  if (dimensions.empty() || !it.shape.is_array()) return std::nullopt;
  return permutation_of(computation.operand_shape(it, 0), it.shape, dimensions);
}

}  // namespace strata::emitters
