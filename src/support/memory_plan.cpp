#include "support/memory_plan.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <limits>
#include <numeric>
#include <tuple>

namespace strata {
namespace {

int64_t align_up(int64_t offset, int64_t alignment) { return (offset + alignment - 1) / alignment * alignment; }

/// A tensor over the depths at which another one begins to live: two tensors that share any depth share one of these.
struct Block {
  size_t index = 0;  ///< in plan_memory's argument
  int64_t bytes = 0;
  int64_t alignment = 1;
  size_t first = 0;
  size_t last = 0;
  int64_t rounded = 0;  ///< bytes up to where another tensor can begin

  bool meets(const Block& other) const { return first <= other.last && other.first <= last; }
  auto shape() const { return std::tuple(bytes, alignment, first, last); }
};

/// The part of a vector over depths at which the block lives.
template <class Values>
auto depths_of(const Block& block, Values& values) {
  const auto begin = values.begin();
  return std::pair(begin + static_cast<ptrdiff_t>(block.first), begin + static_cast<ptrdiff_t>(block.last) + 1);
}

/// Places blocks in this order, each in the lowest gap among those before it.
std::vector<int64_t> first_fit(const std::vector<Block>& blocks, const std::vector<size_t>& order) {
  std::vector<int64_t> offsets(blocks.size(), 0);
  std::vector<size_t> below;  // what is placed, by offset
  for (size_t b : order) {
    int64_t offset = 0;
    for (size_t other : below) {
      if (!blocks[other].meets(blocks[b])) continue;
      if (offset + blocks[b].bytes <= offsets[other]) break;
      offset = std::max(offset, align_up(offsets[other] + blocks[other].bytes, blocks[b].alignment));
    }
    offsets[b] = offset;
    const auto place = std::upper_bound(below.begin(), below.end(), offset,
                                        [&](int64_t at, size_t other) { return at < offsets[other]; });
    below.insert(place, b);
  }
  return offsets;
}

int64_t peak_of(const std::vector<Block>& blocks, const std::vector<int64_t>& offsets) {
  int64_t peak = 0;
  for (size_t b = 0; b < blocks.size(); ++b) peak = std::max(peak, offsets[b] + blocks[b].bytes);
  return peak;
}

/// The best of first fit in some orders that are known to do well.
std::vector<int64_t> greedy(const std::vector<Block>& blocks) {
  const auto span = [](const Block& block) { return static_cast<int64_t>(block.last - block.first + 1); };
  const auto by = [&](auto key) {
    std::vector<size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(blocks[a]) > key(blocks[b]); });
    return first_fit(blocks, order);
  };
  std::vector<int64_t> best = by([](const Block& block) { return block.bytes; });
  for (auto& other : {by([&](const Block& block) { return block.bytes * span(block); }),
                      by([&](const Block& block) { return std::pair(span(block), block.bytes); }),
                      by([](const Block& block) { return -static_cast<int64_t>(block.first); })}) {
    if (peak_of(blocks, other) < peak_of(blocks, best)) best = other;
  }
  return best;
}

/// Depth-first over plans in which no tensor can be moved down, each built once, from below: tensors are placed by
/// (offset, index), each on top of what it shares a depth with.
class PlanSearch {
 public:
  PlanSearch(std::vector<Block> blocks, size_t depths, int64_t enough, int64_t node_limit)
      : blocks_(std::move(blocks)), height_(depths, 0), to_place_(depths, 0), enough_(enough), node_limit_(node_limit) {
    for (const Block& block : blocks_) {
      for (size_t d = block.first; d <= block.last; ++d) to_place_[d] += block.rounded;
      slack_ = std::max(slack_, block.rounded - block.bytes);
    }
    // At one offset, tensors of the fullest depth go first, and long ones before short ones, which fit anywhere.
    const auto key = [&](const Block& block) {
      const auto [first, end] = depths_of(block, to_place_);
      return std::tuple(-*std::max_element(first, end), -(end - first), -block.bytes, block.shape(), block.index);
    };
    std::sort(blocks_.begin(), blocks_.end(), [&](const Block& a, const Block& b) { return key(a) < key(b); });
    offsets_.assign(blocks_.size(), kNotPlaced);
  }

  /// Searches plans below `peak`, the lower the better, until one is `enough`.
  void run(int64_t peak) {
    best_peak_ = peak;
    place_next(0, 0, 0, blocks_.size());
  }

  bool improved() const { return !best_.empty(); }
  int64_t peak() const { return best_peak_; }
  int64_t nodes() const { return nodes_; }
  bool complete() const { return nodes_ <= node_limit_; }
  /// Writes the best plan's offsets to where plan_memory's argument has the tensors.
  void write(std::vector<int64_t>& offsets) const {
    for (size_t b = 0; b < blocks_.size(); ++b) offsets[blocks_[b].index] = best_[b];
  }

 private:
  static constexpr int64_t kNotPlaced = -1;

  bool done() const { return best_peak_ <= enough_ || nodes_ > node_limit_; }

  int64_t lowest(const Block& block) const {
    const auto [first, end] = depths_of(block, height_);
    return align_up(*std::max_element(first, end), block.alignment);
  }

  /// Whether what is left, above `floor`, stays below the best peak at each depth.
  bool hopeful(int64_t floor) const {
    for (size_t d = 0; d < height_.size(); ++d) {
      // All but the uppermost tensor take their rounded bytes.
      if (to_place_[d] > 0 && std::max(height_[d], floor) + to_place_[d] - slack_ >= best_peak_) return false;
    }
    return true;
  }

  /// Tensors are left; the last one was placed at `floor`, with a number below `next`; the highest ends at `peak`.
  void place_next(int64_t floor, size_t next, int64_t peak, size_t left) {
    if (left == 0) {
      best_peak_ = peak;
      best_ = offsets_;
      return;
    }
    if (!hopeful(floor)) return;
    // A tensor that fits below everything to come would be moved down there.
    int64_t ceiling = std::numeric_limits<int64_t>::max();
    std::vector<std::pair<int64_t, size_t>> choices;
    for (size_t b = 0; b < blocks_.size(); ++b) {
      if (offsets_[b] != kNotPlaced) continue;
      const int64_t offset = lowest(blocks_[b]);
      if (offset + blocks_[b].bytes >= best_peak_) return;
      ceiling = std::min(ceiling, offset + blocks_[b].bytes);
      if (std::pair(offset, b) >= std::pair(floor, next)) choices.emplace_back(offset, b);
    }
    std::sort(choices.begin(), choices.end());
    for (const auto& [offset, b] : choices) {
      if (offset >= ceiling || done()) return;
      if (twin_is_left(b)) continue;
      ++nodes_;
      place(b, offset, std::max(peak, offset + blocks_[b].bytes), left);
    }
  }

  void place(size_t b, int64_t offset, int64_t peak, size_t left) {
    const Block& block = blocks_[b];
    const auto [height, height_end] = depths_of(block, height_);
    const auto [waiting, waiting_end] = depths_of(block, to_place_);
    const std::vector<int64_t> before(height, height_end);
    std::fill(height, height_end, offset + block.bytes);
    std::for_each(waiting, waiting_end, [&](int64_t& bytes) { bytes -= block.rounded; });
    offsets_[b] = offset;
    place_next(offset, b + 1, peak, left - 1);
    offsets_[b] = kNotPlaced;
    std::for_each(waiting, waiting_end, [&](int64_t& bytes) { bytes += block.rounded; });
    std::copy(before.begin(), before.end(), height);
  }

  /// Of tensors that are alike, the one with the lower number goes first.
  bool twin_is_left(size_t b) const {
    return b > 0 && offsets_[b - 1] == kNotPlaced && blocks_[b - 1].shape() == blocks_[b].shape();
  }

  std::vector<Block> blocks_;
  std::vector<int64_t> offsets_;   ///< by place in blocks_
  std::vector<int64_t> height_;    ///< end of the highest placed tensor, by depth
  std::vector<int64_t> to_place_;  ///< rounded bytes that are not placed, by depth
  int64_t slack_ = 0;              ///< the largest difference that rounding makes
  int64_t enough_;
  int64_t node_limit_;
  int64_t best_peak_ = 0;
  std::vector<int64_t> best_;
  int64_t nodes_ = 0;
};

/// The depths at which a tensor begins, and the tensors over them. Empty tensors have a place anywhere.
struct Problem {
  explicit Problem(const std::vector<LiveTensor>& tensors) {
    std::vector<int64_t> begins;
    int64_t unit = 0;  // every tensor begins at a multiple
    for (const LiveTensor& tensor : tensors) {
      assert(tensor.bytes >= 0 && tensor.first <= tensor.last && tensor.alignment >= 1);
      if (tensor.bytes == 0) continue;
      begins.push_back(tensor.first);
      unit = std::gcd(unit, tensor.alignment);
    }
    std::sort(begins.begin(), begins.end());
    begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
    depths = begins.size();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const LiveTensor& tensor = tensors[i];
      if (tensor.bytes == 0) continue;
      const auto first = std::lower_bound(begins.begin(), begins.end(), tensor.first) - begins.begin();
      const auto end = std::upper_bound(begins.begin(), begins.end(), tensor.last) - begins.begin();
      blocks.push_back({i, tensor.bytes, tensor.alignment, static_cast<size_t>(first), static_cast<size_t>(end - 1),
                        align_up(tensor.bytes, unit)});
    }
  }

  int64_t lower_bound() const {
    std::vector<int64_t> live(depths, 0);
    std::vector<int64_t> slack(depths, 0);
    for (const Block& block : blocks) {
      for (size_t d = block.first; d <= block.last; ++d) {
        live[d] += block.rounded;
        slack[d] = std::max(slack[d], block.rounded - block.bytes);
      }
    }
    int64_t bound = 0;
    for (size_t d = 0; d < depths; ++d) bound = std::max(bound, live[d] - slack[d]);
    return bound;
  }

  /// Groups of tensors that share no depth with another group.
  std::vector<std::vector<Block>> groups() const {
    std::vector<Block> sorted = blocks;
    std::stable_sort(sorted.begin(), sorted.end(), [](const Block& a, const Block& b) { return a.first < b.first; });
    std::vector<std::vector<Block>> result;
    size_t last = 0;
    for (const Block& block : sorted) {
      if (result.empty() || block.first > last) result.emplace_back();
      result.back().push_back(block);
      last = std::max(last, block.last);
    }
    return result;
  }

  std::vector<Block> blocks;
  size_t depths = 0;
};

}  // namespace

MemoryPlan plan_memory(const std::vector<LiveTensor>& tensors, int64_t node_limit) {
  const Problem problem(tensors);
  MemoryPlan plan;
  plan.offsets.assign(tensors.size(), 0);
  plan.lower_bound = problem.lower_bound();
  plan.optimal = true;
  int64_t proved = plan.lower_bound;  // no plan of all groups has a lower peak
  for (const std::vector<Block>& group : problem.groups()) {
    const std::vector<int64_t> offsets = greedy(group);
    for (size_t b = 0; b < group.size(); ++b) plan.offsets[group[b].index] = offsets[b];
    int64_t peak = peak_of(group, offsets);
    if (peak > proved) {
      PlanSearch search(group, problem.depths, proved, node_limit - plan.nodes);
      search.run(peak);
      if (search.improved()) search.write(plan.offsets);
      peak = search.peak();
      plan.nodes += search.nodes();
      plan.optimal = plan.optimal && search.complete();
      if (search.complete()) proved = std::max(proved, peak);
    }
    plan.peak = std::max(plan.peak, peak);
  }
  plan.optimal = plan.optimal || plan.peak <= proved;
  return plan;
}

}  // namespace strata
