// What pairs of groups saved when they were rated last, for groups that have grown since.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

namespace strata::emitters {

/// A group of hundreds of instructions has hundreds of neighbours. Rating each of these pairs anew whenever the group
/// grows takes time that rises with the third power of its size. What a pair saved before tells about when it is its
/// turn: it is rated again then, and not before.
/// Of two groups that become one large one, the larger one's pairs tell about those of both: an unrolled loop's group
/// takes in one instruction after the other, whichever of them is the consumer. Of small ones, which are soon rated,
/// the consumer's do: a group that its reader takes in is rated anew with its neighbours.
class ExpectedGains {
 public:
  /// Of so many groups.
  explicit ExpectedGains(size_t groups = 0) : names_(groups) { std::iota(names_.begin(), names_.end(), 0); }

  /// What a pair saved, whose groups had so many instructions together, and `gone` arrays that nobody else read.
  /// Nothing, or infinitely much less, counts, too.
  void rated(int one, int other, double gain, size_t size, size_t gone) {
    known_[key(name(one), name(other))] = {gain, size, gone};
  }

  /// Two groups become one, which keeps the consumer's number.
  void join(int producer, size_t of_producer, int consumer, size_t of_consumer) {
    int& kept = names_[static_cast<size_t>(consumer)];
    taken_ = names_[static_cast<size_t>(producer)];
    if (of_producer > of_consumer && of_producer + of_consumer > kSmall) std::swap(kept, taken_);
  }

  /// What `one`, of the last two that were joined, saves with another group at most, by the bound of it, and about, by
  /// what both of which it is made saved with it; both saved a launch then, of which it has one. The bound holds again
  /// where an array between them is gone only now. A pair that saved nothing is rated again where both were its
  /// neighbours, or when it has grown by half.
  double of(int one, int other, double bound, size_t size, size_t gone, double launch) const {
    const Known* first = find(name(one), name(other));
    const Known* second = find(taken_, name(other));
    if (first == nullptr || gone > first->gone) return bound;
    if (second != nullptr && (first->gain <= 0 || second->gain <= 0)) return bound;
    if (first->gain <= 0) return size * 2 >= first->size * 3 ? bound : 0;
    return std::min(bound, first->gain + (second != nullptr ? std::max(second->gain - launch, 0.0) : 0));
  }

 private:
  static constexpr size_t kSmall = 256;  // instructions
  struct Known {
    double gain = 0;
    size_t size = 0, gone = 0;
  };
  static uint64_t key(int one, int other) {
    const auto [low, high] = std::minmax(one, other);
    return static_cast<uint64_t>(low) << 32U | static_cast<uint64_t>(high);
  }
  const Known* find(int one, int other) const {
    const auto found = known_.find(key(one, other));
    return found == known_.end() ? nullptr : &found->second;
  }

  int name(int group) const { return names_[static_cast<size_t>(group)]; }

  std::unordered_map<uint64_t, Known> known_;
  std::vector<int> names_;  ///< of each group: the number of the one whose pairs tell about its own
  int taken_ = -1;          ///< the name of the group that was taken in last
};

}  // namespace strata::emitters
