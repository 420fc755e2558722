#include "megakernel/tgraph/grid_set.h"

#include "indexing/interval.h"
#include "support/hash.h"

namespace strata::megakernel {

using indexing::Interval;
using indexing::saturating_add;
using indexing::saturating_mul;

namespace {

using Part = GridSet::Part;
using Parts = std::vector<Part>;

/// Adds a part after all others, as one with its neighbour where they can be one.
void append(Parts& parts, int64_t lo, int64_t hi, Parts inner) {
  if (!parts.empty() && parts.back().hi + 1 == lo && parts.back().inner == inner) {
    parts.back().hi = hi;
  } else {
    parts.push_back({lo, hi, std::move(inner)});
  }
}

enum class Mode { Unite, Intersect, Subtract };

Parts combine(const Parts& a, const Parts& b, Mode mode) {
  Parts result;
  size_t i = 0, j = 0;
  int64_t at = indexing::kLeast;  // what lies before has been dealt with
  while (i < a.size() || j < b.size()) {
    if (i == a.size() && mode != Mode::Unite) break;
    const int64_t a_lo = i < a.size() ? std::max(a[i].lo, at) : indexing::kGreatest;
    const int64_t b_lo = j < b.size() ? std::max(b[j].lo, at) : indexing::kGreatest;
    const int64_t lo = std::min(a_lo, b_lo);
    const bool in_a = a_lo == lo && i < a.size();
    const bool in_b = b_lo == lo && j < b.size();
    int64_t hi = indexing::kGreatest;
    hi = std::min(hi, in_a ? a[i].hi : a_lo - 1);
    hi = std::min(hi, in_b ? b[j].hi : b_lo - 1);
    if (in_a && in_b) {
      // Along the last coordinate there is nothing inside: both have the blocks.
      if (a[i].inner.empty()) {
        if (mode != Mode::Subtract) append(result, lo, hi, {});
      } else if (Parts inner = combine(a[i].inner, b[j].inner, mode); !inner.empty()) {
        append(result, lo, hi, std::move(inner));
      }
    } else if (in_a && mode != Mode::Intersect) {
      append(result, lo, hi, a[i].inner);
    } else if (in_b && mode == Mode::Unite) {
      append(result, lo, hi, b[j].inner);
    }
    if (in_a && a[i].hi == hi) ++i;
    if (in_b && b[j].hi == hi) ++j;
    at = hi + 1;
  }
  return result;
}

/// The values of a range, as intervals.
std::vector<Interval> intervals_of(const StridedRange& range) {
  std::vector<Interval> intervals{{range.first, range.first}};
  for (const StridedRange::Level& level : range.levels) {
    std::vector<Interval> more;
    for (int64_t n = 0; n < level.count; ++n) {
      for (const Interval& one : intervals) {
        const Interval moved{one.lo + n * level.step, one.hi + n * level.step};
        if (!more.empty() && more.back().hi + 1 == moved.lo) {
          more.back().hi = moved.hi;
        } else {
          more.push_back(moved);
        }
      }
      // Where the whole is one interval that repeats without gaps, the rest follows.
      if (n == 0 && intervals.size() == 1 && intervals[0].size() == level.step) {
        more[0].hi = intervals[0].hi + (level.count - 1) * level.step;
        break;
      }
    }
    intervals = std::move(more);
  }
  return intervals;
}

int64_t count_of(const Parts& parts) {
  int64_t total = 0;
  for (const Part& part : parts)
    total = saturating_add(total, saturating_mul(part.hi - part.lo + 1, part.inner.empty() ? 1 : count_of(part.inner)));
  return total;
}

void hash_parts(const Parts& parts, Hasher& hasher) {
  hasher.add(static_cast<uint64_t>(parts.size()));
  for (const Part& part : parts) {
    hasher.add(static_cast<uint64_t>(part.lo)).add(static_cast<uint64_t>(part.hi));
    hash_parts(part.inner, hasher);
  }
}

}  // namespace

GridSet GridSet::all(const std::vector<int64_t>& grid) {
  Parts parts;
  for (size_t g = grid.size(); g-- > 0;) parts = {{0, grid[g] - 1, std::move(parts)}};
  return GridSet(std::move(parts));
}

GridSet GridSet::of(const BlockBox& box) {
  Parts parts;
  for (size_t g = box.size(); g-- > 0;) {
    Parts outer;
    for (const Interval& interval : intervals_of(box[g])) outer.push_back({interval.lo, interval.hi, parts});
    parts = std::move(outer);
  }
  return GridSet(std::move(parts));
}

GridSet GridSet::of(const BlockSet& set) {
  std::vector<GridSet> sets;
  for (const BlockBox& box : set.boxes) sets.push_back(of(box));
  return unite(std::move(sets));
}

GridSet GridSet::of(const std::vector<int64_t>& numbers, const std::vector<int64_t>& grid) {
  const std::function<Parts(size_t, size_t, size_t, int64_t)> along = [&](size_t from, size_t to, size_t g,
                                                                          int64_t base) {
    int64_t stride = 1;
    for (size_t h = g + 1; h < grid.size(); ++h) stride *= grid[h];
    Parts parts;
    while (from < to) {
      const int64_t coordinate = (numbers[from] - base) / stride;
      const int64_t start = base + coordinate * stride;
      size_t end = from;
      while (end < to && numbers[end] < start + stride) ++end;
      append(parts, coordinate, coordinate, g + 1 == grid.size() ? Parts() : along(from, end, g + 1, start));
      from = end;
    }
    return parts;
  };
  return GridSet(along(0, numbers.size(), 0, 0));
}

int64_t GridSet::count() const { return count_of(parts_); }

bool GridSet::contains(const Coordinates& block) const {
  const Parts* parts = &parts_;
  for (const int64_t coordinate : block) {
    const auto part = std::lower_bound(parts->begin(), parts->end(), coordinate,
                                       [](const Part& one, int64_t value) { return one.hi < value; });
    if (part == parts->end() || part->lo > coordinate) return false;
    parts = &part->inner;
  }
  return true;
}

Coordinates GridSet::first() const {
  Coordinates block;
  for (const Parts* parts = &parts_; !parts->empty(); parts = &parts->front().inner) block.push_back(parts->front().lo);
  return block;
}

void GridSet::for_each_run(const std::vector<int64_t>& grid, const std::function<void(int64_t, int64_t)>& visit) const {
  int64_t first = 0, last = -1;  // a run that may go on
  const auto add = [&](int64_t lo, int64_t hi) {
    if (last >= first && last + 1 == lo) {
      last = hi;
      return;
    }
    if (last >= first) visit(first, last);
    first = lo;
    last = hi;
  };
  const std::function<void(const Parts&, size_t, int64_t)> along = [&](const Parts& parts, size_t g, int64_t base) {
    int64_t stride = 1;
    for (size_t h = g + 1; h < grid.size(); ++h) stride *= grid[h];
    for (const Part& part : parts) {
      const bool whole = part.inner.empty() || count_of(part.inner) == stride;
      if (whole) {
        add(base + part.lo * stride, base + (part.hi + 1) * stride - 1);
        continue;
      }
      for (int64_t c = part.lo; c <= part.hi; ++c) along(part.inner, g + 1, base + c * stride);
    }
  };
  along(parts_, 0, 0);
  if (last >= first) visit(first, last);
}

GridSet unite(const GridSet& a, const GridSet& b) { return GridSet(combine(a.parts_, b.parts_, Mode::Unite)); }
GridSet intersect(const GridSet& a, const GridSet& b) { return GridSet(combine(a.parts_, b.parts_, Mode::Intersect)); }
GridSet subtract(const GridSet& a, const GridSet& b) { return GridSet(combine(a.parts_, b.parts_, Mode::Subtract)); }

GridSet unite(std::vector<GridSet> sets) {
  if (sets.empty()) return {};
  // By halves, so that each piece is copied only so often as the logarithm of their number.
  for (size_t step = 1; step < sets.size(); step *= 2) {
    for (size_t i = 0; i + step < sets.size(); i += 2 * step) sets[i] = unite(sets[i], sets[i + step]);
  }
  return std::move(sets[0]);
}

uint64_t GridSet::hash() const {
  Hasher hasher;
  hash_parts(parts_, hasher);
  return hasher.value();
}

int64_t number_of(const Coordinates& block, const std::vector<int64_t>& grid) {
  int64_t number = 0;
  for (size_t g = 0; g < grid.size(); ++g) number = number * grid[g] + block[g];
  return number;
}

Coordinates block_of(int64_t number, const std::vector<int64_t>& grid) {
  Coordinates block(grid.size());
  for (size_t g = grid.size(); g-- > 0;) {
    block[g] = number % grid[g];
    number /= grid[g];
  }
  return block;
}

int64_t TaskSet::count() const {
  int64_t total = 0;
  for (const auto& [group, blocks] : groups) total = saturating_add(total, blocks.count());
  return total;
}

void TaskSet::add(int group, const GridSet& blocks) {
  if (blocks.empty()) return;
  GridSet& mine = groups[group];
  mine = mine.empty() ? blocks : unite(mine, blocks);
}

uint64_t TaskSet::hash() const {
  Hasher hasher;
  for (const auto& [group, blocks] : groups) hasher.add(static_cast<uint64_t>(group)).add(blocks.hash());
  return hasher.value();
}

TaskSet unite(const TaskSet& a, const TaskSet& b) {
  TaskSet result = a;
  for (const auto& [group, blocks] : b.groups) result.add(group, blocks);
  return result;
}

TaskSet subtract(const TaskSet& a, const TaskSet& b) {
  TaskSet result;
  for (const auto& [group, blocks] : a.groups) {
    const auto other = b.groups.find(group);
    result.add(group, other == b.groups.end() ? blocks : subtract(blocks, other->second));
  }
  return result;
}

}  // namespace strata::megakernel
