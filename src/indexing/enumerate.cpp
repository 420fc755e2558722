#include "indexing/enumerate.h"

namespace strata::indexing {
namespace {

std::vector<Interval> all_ranges(const IndexingMap& map) {
  std::vector<Interval> result = map.dims;
  result.insert(result.end(), map.ranges.begin(), map.ranges.end());
  for (const RuntimeVariable& variable : map.runtime) result.push_back(variable.range);
  return result;
}

}  // namespace

int64_t box_size(const IndexingMap& map) {
  int64_t size = map.known_empty ? 0 : 1;
  for (const Interval& range : all_ranges(map)) size = saturating_mul(size, range.size());
  return size;
}

void for_each_point(const IndexingMap& map, const std::function<bool(const Point&)>& visit) {
  if (box_size(map) == 0) return;
  const std::vector<Interval> ranges = all_ranges(map);
  std::vector<int64_t> values;
  for (const Interval& range : ranges) values.push_back(range.lo);
  const std::span<const int64_t> all(values);
  const Point point{all.subspan(0, map.dims.size()), all.subspan(map.dims.size(), map.ranges.size()),
                    all.subspan(map.dims.size() + map.ranges.size())};
  for (;;) {
    if (in_domain(map, point) && !visit(point)) return;
    size_t i = values.size();
    while (i > 0 && values[i - 1] == ranges[i - 1].hi) {
      values[i - 1] = ranges[i - 1].lo;
      --i;
    }
    if (i == 0) return;
    ++values[i - 1];
  }
}

}  // namespace strata::indexing
