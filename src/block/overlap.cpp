#include "block/overlap.h"

#include <algorithm>

namespace strata {

using indexing::Expr;
using indexing::intersect;
using indexing::Interval;
using indexing::saturating_add;
using indexing::saturating_mul;

namespace {

/// More boxes than this become one that contains them.
constexpr size_t kMostBoxes = 256;

/// So many elements from `first` on.
Interval elements(int64_t first, int64_t length) { return {first, saturating_add(first, length - 1)}; }

int64_t value_at(const Expr& expr, std::span<const int64_t> block) {
  return *evaluate(expr, indexing::Point{block, {}, {}});
}

/// Σ over v in [0, n - 1] of floor((a · v + b) / m), for a, b ≥ 0 and m > 0.
__int128 floor_sum(__int128 n, __int128 m, __int128 a, __int128 b) {
  __int128 sum = 0;
  while (true) {
    sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
    a %= m;
    b %= m;
    const __int128 most = a * n + b;
    if (most < m) return sum;
    n = most / m;
    b = most % m;
    std::swap(m, a);
  }
}

__int128 floor_div128(__int128 a, __int128 b) { return a / b - (a % b != 0 && a < 0); }

/// Σ over v in [0, n - 1] of how many u in [0, most - 1] have a · u ≤ b · v + k; a, b > 0.
__int128 pairs_up_to(__int128 n, __int128 most, __int128 a, __int128 b, __int128 k) {
  // From v = none on there is one, from v = all on there are all of them.
  const __int128 none = std::clamp<__int128>(-floor_div128(k, b), 0, n);
  const __int128 all = std::clamp<__int128>(-floor_div128(k - (most - 1) * a, b), none, n);
  const __int128 start = b * none + k;  // not below 0 where there is any v left
  return (all > none ? floor_sum(all - none, a, b, start) + (all - none) : 0) + (n - all) * most;
}

int64_t saturated(__int128 value) { return static_cast<int64_t>(std::min<__int128>(value, indexing::kGreatest)); }

}  // namespace

BlockOverlap::Side BlockOverlap::side_of(GridRegions regions) {
  std::vector<Expr> exprs;
  for (const RegionAxis& axis : regions.axes) exprs.push_back(axis.first);
  GridDigits digits(regions.grid, exprs);
  return {std::move(regions), std::move(digits)};
}

BlockOverlap::BlockOverlap(const indexing::IndexingMap& write, const indexing::IndexingMap& read,
                           const std::vector<int64_t>& tensor)
    : BlockOverlap(common_regions(write, read, tensor)) {}

BlockOverlap::BlockOverlap(std::pair<GridRegions, GridRegions> regions)
    : producer_(side_of(std::move(regions.first))), consumer_(side_of(std::move(regions.second))) {
  empty_ = producer_.regions.empty || consumer_.regions.empty;
  for (const Side* side : {&producer_, &consumer_}) {
    exact_ = exact_ && side->regions.exact;
    for (size_t i = 0; i < side->regions.axes.size(); ++i) exact_ = exact_ && side->digits.exact(i);
  }
  if (empty_) return;
  for (size_t i = 0; i < producer_.regions.axes.size(); ++i) {
    Interval& clip = producer_.regions.axes[i].clip;
    clip = consumer_.regions.axes[i].clip = intersect(clip, consumer_.regions.axes[i].clip);
    // Intervals may be far apart for all blocks.
    const Interval from = producer_.digits.range(i);
    const Interval to = consumer_.digits.range(i);
    const int64_t from_end = elements(from.hi, producer_.regions.axes[i].length).hi;
    const int64_t to_end = elements(to.hi, consumer_.regions.axes[i].length).hi;
    empty_ = empty_ || clip.empty() || from.lo > to_end || to.lo > from_end || std::max(from.lo, to.lo) > clip.hi ||
             std::min(from_end, to_end) < clip.lo;
  }
  if (empty_) exact_ = true;
}

bool BlockOverlap::overlaps(std::span<const int64_t> producer, std::span<const int64_t> consumer) const {
  if (empty_) return false;
  for (size_t g = 0; g < producer.size(); ++g) {
    if (!producer_.regions.blocks[g].contains(producer[g])) return false;
  }
  for (size_t g = 0; g < consumer.size(); ++g) {
    if (!consumer_.regions.blocks[g].contains(consumer[g])) return false;
  }
  for (size_t i = 0; i < producer_.regions.axes.size(); ++i) {
    const RegionAxis& from = producer_.regions.axes[i];
    const RegionAxis& to = consumer_.regions.axes[i];
    const int64_t written = value_at(from.first, producer);
    const int64_t read = value_at(to.first, consumer);
    const Interval common = intersect(intersect(elements(written, from.length), elements(read, to.length)), from.clip);
    if (common.empty()) return false;
  }
  return true;
}

BlockSet BlockOverlap::partners(const Side& side, const Side& others, std::span<const int64_t> block) const {
  BlockSet found{{}, exact_, 0};
  if (empty_) return found;
  for (size_t g = 0; g < block.size(); ++g) {
    ++found.steps;
    if (!side.regions.blocks[g].contains(block[g])) return found;
  }
  std::vector<GridDigits::DigitBox> boxes{others.digits.everything()};
  const auto restrict_to = [&](const std::vector<GridDigits::DigitBox>& allowed) {
    std::vector<GridDigits::DigitBox> left;
    for (const auto& a : boxes) {
      for (const auto& b : allowed) {
        ++found.steps;
        GridDigits::DigitBox both;
        for (size_t i = 0; i < a.size(); ++i) both.push_back(intersect(a[i], b[i]));
        if (std::none_of(both.begin(), both.end(), [](const Interval& digit) { return digit.empty(); }))
          left.push_back(both);
      }
    }
    if (left.size() > kMostBoxes) {
      for (const auto& box : left) {
        for (size_t i = 0; i < box.size(); ++i) {
          left[0][i] = {std::min(left[0][i].lo, box[i].lo), std::max(left[0][i].hi, box[i].hi)};
        }
      }
      left.resize(1);
      found.exact = false;
    }
    boxes = std::move(left);
  };
  for (size_t i = 0; i < side.regions.axes.size() && !boxes.empty(); ++i) {
    const RegionAxis& axis = side.regions.axes[i];
    const int64_t first = value_at(axis.first, block);
    const Interval touched = intersect(elements(first, axis.length), axis.clip);
    if (touched.empty()) return found;
    const Interval firsts{saturating_add(touched.lo, 1 - others.regions.axes[i].length), touched.hi};
    restrict_to(others.digits.solutions(i, firsts, found.steps));
  }
  for (size_t g = 0; g < others.regions.grid.size(); ++g) {
    if (others.regions.blocks[g].contains(indexing::below(others.regions.grid[g]))) continue;
    restrict_to(others.digits.coordinate_within(g, others.regions.blocks[g], found.steps));
  }
  for (const auto& box : boxes) found.boxes.push_back(others.digits.blocks(box));
  return found;
}

BlockSet BlockOverlap::producers_of(std::span<const int64_t> consumer) const {
  return partners(consumer_, producer_, consumer);
}

BlockSet BlockOverlap::consumers_of(std::span<const int64_t> producer) const {
  return partners(producer_, consumer_, producer);
}

namespace {

/// Whether every block of a grid has a region that the clip leaves something of. Then the clip decides nothing: of
/// intervals that meet each other and each meet a third, some element lies in all three.
bool all_blocks_count(const GridRegions& regions, const GridDigits& digits) {
  for (size_t g = 0; g < regions.grid.size(); ++g) {
    if (!regions.blocks[g].contains(indexing::below(regions.grid[g]))) return false;
  }
  for (size_t i = 0; i < regions.axes.size(); ++i) {
    const Interval first = digits.range(i);
    const RegionAxis& axis = regions.axes[i];
    if (first.hi > axis.clip.hi || elements(first.lo, axis.length).hi < axis.clip.lo) return false;
  }
  return true;
}

}  // namespace

std::optional<int64_t> BlockOverlap::count() const {
  if (empty_) return 0;
  if (producer_.digits.shares_digits() || consumer_.digits.shares_digits() ||
      !all_blocks_count(producer_.regions, producer_.digits) ||
      !all_blocks_count(consumer_.regions, consumer_.digits)) {
    return std::nullopt;
  }
  int64_t total = 1;
  for (const Side* side : {&producer_, &consumer_}) {
    for (size_t digit : side->digits.unused()) total = saturating_mul(total, side->digits.digits()[digit].extent);
  }
  for (size_t i = 0; i < producer_.regions.axes.size(); ++i) {
    const RegionAxis& from = producer_.regions.axes[i];
    const RegionAxis& to = consumer_.regions.axes[i];
    const auto u = producer_.digits.flat(i);
    const auto v = consumer_.digits.flat(i);
    if (!u || !v) return std::nullopt;
    // first + step · u of the producer lies in [.., ..] around first + step · v of the consumer.
    const __int128 apart = static_cast<__int128>(v->first) - u->first;
    const auto up_to = [&](__int128 k) { return pairs_up_to(v->count, u->count, u->step, v->step, k); };
    total = saturating_mul(total, saturated(up_to(apart + to.length - 1) - up_to(apart - from.length)));
  }
  return total;
}

bool BlockOverlap::is_one_to_one() const {
  if (empty_ || !exact_ || !producer_.digits.unused().empty() || !consumer_.digits.unused().empty() ||
      producer_.digits.shares_digits() || consumer_.digits.shares_digits() ||
      !all_blocks_count(producer_.regions, producer_.digits) ||
      !all_blocks_count(consumer_.regions, consumer_.digits)) {
    return false;
  }
  for (size_t i = 0; i < producer_.regions.axes.size(); ++i) {
    const RegionAxis& from = producer_.regions.axes[i];
    const RegionAxis& to = consumer_.regions.axes[i];
    const auto u = producer_.digits.flat(i);
    const auto v = consumer_.digits.flat(i);
    if (!u || !v || u->count != v->count) return false;
    // Block n meets block n, and neither n + 1 nor n - 1: linear in n, so that the first and the last n tell.
    const auto distance = [&](int64_t n, int64_t m) { return u->first + u->step * n - v->first - v->step * m; };
    const int64_t last = u->count - 1;
    for (int64_t n : {int64_t{0}, last}) {
      if (distance(n, n) < 1 - from.length || distance(n, n) > to.length - 1) return false;
    }
    if (last == 0) continue;
    for (int64_t n : {int64_t{0}, last - 1}) {
      if (distance(n + 1, n) <= to.length - 1 || distance(n, n + 1) >= 1 - from.length) return false;
    }
  }
  return true;
}

bool BlockOverlap::is_all_to_all() const {
  if (empty_ || !all_blocks_count(producer_.regions, producer_.digits) ||
      !all_blocks_count(consumer_.regions, consumer_.digits)) {
    return false;
  }
  for (size_t i = 0; i < producer_.regions.axes.size(); ++i) {
    const RegionAxis& from = producer_.regions.axes[i];
    const RegionAxis& to = consumer_.regions.axes[i];
    const Interval first = producer_.digits.range(i);
    const Interval other = consumer_.digits.range(i);
    if (first.hi > elements(other.lo, to.length).hi || other.hi > elements(first.lo, from.length).hi) return false;
  }
  return true;
}

bool BlockOverlap::keeps_parts(size_t producer, int64_t producer_part, size_t consumer, int64_t consumer_part) const {
  if (empty_) return true;
  if (producer_.regions.grid[producer] / producer_part != consumer_.regions.grid[consumer] / consumer_part)
    return false;
  for (size_t i = 0; i < producer_.regions.axes.size(); ++i) {
    const auto u = producer_.digits.parts(i, producer, producer_part);
    const auto v = consumer_.digits.parts(i, consumer, consumer_part);
    if (!u || !v || u->step != v->step) continue;
    // step · (part - part) + rest - rest lies in [1 - length, length - 1] only if the parts are equal.
    const int64_t least = saturating_add(u->rest.lo, -v->rest.hi);
    const int64_t most = saturating_add(u->rest.hi, -v->rest.lo);
    if (u->step + least > consumer_.regions.axes[i].length - 1 &&
        most - u->step < 1 - producer_.regions.axes[i].length) {
      return true;
    }
  }
  return false;
}

}  // namespace strata
