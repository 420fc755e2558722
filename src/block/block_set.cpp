#include "block/block_set.h"

#include <algorithm>

#include "indexing/interval.h"

namespace strata {

using indexing::saturating_add;
using indexing::saturating_mul;

int64_t StridedRange::count() const {
  int64_t count = 1;
  for (const Level& level : levels) count = saturating_mul(count, level.count);
  return count;
}

bool StridedRange::contains(int64_t value) const {
  int64_t rest = value - first;
  if (rest < 0) return false;
  // The largest index is right, because the levels below reach less than a step.
  for (size_t k = levels.size(); k-- > 0;) {
    rest -= std::min(rest / levels[k].step, levels[k].count - 1) * levels[k].step;
  }
  return rest == 0;
}

int64_t BlockSet::count() const {
  int64_t total = 0;
  for (const BlockBox& box : boxes) {
    int64_t count = 1;
    for (const StridedRange& range : box) count = saturating_mul(count, range.count());
    total = saturating_add(total, count);
  }
  return total;
}

bool BlockSet::contains(std::span<const int64_t> block) const {
  return std::any_of(boxes.begin(), boxes.end(), [&](const BlockBox& box) {
    for (size_t g = 0; g < box.size(); ++g) {
      if (!box[g].contains(block[g])) return false;
    }
    return true;
  });
}

void BlockSet::for_each(const std::function<void(const std::vector<int64_t>&)>& visit) const {
  for (const BlockBox& box : boxes) {
    std::vector<int64_t> block(box.size());
    const std::function<void(size_t)> along = [&](size_t g) {
      if (g == box.size()) return visit(block);
      const std::function<void(size_t, int64_t)> level = [&](size_t k, int64_t value) {
        if (k == box[g].levels.size()) {
          block[g] = value;
          return along(g + 1);
        }
        for (int64_t i = 0; i < box[g].levels[k].count; ++i) level(k + 1, value + i * box[g].levels[k].step);
      };
      level(0, box[g].first);
    };
    along(0);
  }
}

}  // namespace strata
