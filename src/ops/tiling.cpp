#include "ops/tiling.h"

namespace strata {

Result<std::vector<int64_t>> tile_counts(const Shape& shape, const std::vector<int64_t>& grid,
                                         const std::vector<int64_t>& map, std::string_view map_name) {
  if (map.size() != grid.size()) {
    return invalid("{} has {} entries for {} grid dimensions", map_name, map.size(), grid.size());
  }
  std::vector<int64_t> counts(shape.size(), 1);
  for (size_t i = 0; i < map.size(); ++i) {
    if (map[i] == kReplicate) continue;
    if (map[i] < 0 || map[i] >= static_cast<int64_t>(shape.size())) {
      return invalid("{}={} names dimension {} of a tensor of shape {}", map_name, to_string(AttributeValue(map)),
                     map[i], to_string(shape));
    }
    int64_t& count = counts[static_cast<size_t>(map[i])];
    STRATA_TRY(count, checked_product(count, grid[i]));
  }
  return counts;
}

Tiling tile_of(size_t rank, const std::vector<int64_t>& grid, const std::vector<int64_t>& map, const GridPoint& point) {
  Tiling tiling{std::vector<int64_t>(rank, 1), std::vector<int64_t>(rank, 0)};
  for (size_t i = 0; i < map.size(); ++i) {
    if (map[i] == kReplicate) continue;
    const auto d = static_cast<size_t>(map[i]);
    tiling.counts[d] *= grid[i];
    tiling.position[d] = tiling.position[d] * grid[i] + point.block[i];
  }
  return tiling;
}

}  // namespace strata
