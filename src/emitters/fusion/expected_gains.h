// What pairs of groups saved when they were rated last, for groups that have grown since.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace strata::emitters {

/// A group of hundreds of instructions has hundreds of neighbours. Rating each of these pairs anew whenever the group
/// grows takes time that rises with the third power of its size. What a pair saved before tells about when it is its
/// turn: it is rated again then, and not before.
class ExpectedGains {
 public:
  /// What a pair saved, whose groups had so many instructions together, and `gone` arrays that nobody else read.
  /// Nothing, or infinitely much less, counts, too.
  void rated(int one, int other, double gain, size_t size, size_t gone) {
    known_[key(one, other)] = {gain, size, gone};
  }

  /// What `one`, which has just taken in `taken` (or -1), saves with another group at most, by the bound of it, and
  /// about, by what both saved with it. The bound holds again where an array between them is gone only now. A pair that
  /// saved nothing is rated again where both were its neighbours, or when it has grown by half.
  double of(int one, int taken, int other, double bound, size_t size, size_t gone) const {
    const Known* first = find(one, other);
    const Known* second = taken >= 0 ? find(taken, other) : nullptr;
    if (first == nullptr || gone > first->gone || (second != nullptr && (first->gain <= 0 || second->gain <= 0)))
      return bound;
    if (first->gain <= 0) return size * 2 >= first->size * 3 ? bound : 0;
    return std::min(bound, first->gain + (second != nullptr ? second->gain : 0));
  }

 private:
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

  std::unordered_map<uint64_t, Known> known_;
};

}  // namespace strata::emitters
