// In which order groups of instructions can run, while they are joined.
#pragma once

#include <cstddef>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace strata::emitters {

/// All groups by number, each behind those that it reads: a group that stands before another one does not need it.
class GroupOrder {
 public:
  GroupOrder() = default;
  /// So many groups, which stand in the order of their numbers.
  explicit GroupOrder(size_t count) : sequence_(count), places_(count) {
    std::iota(sequence_.begin(), sequence_.end(), 0);
    std::iota(places_.begin(), places_.end(), size_t{0});
  }

  size_t place(int group) const { return places_[static_cast<size_t>(group)]; }

  /// Two groups that become one, which keeps the consumer's number. What the later of the two needs goes before it, all
  /// else that stands between them behind it. `producers` gives the groups that a group reads.
  template <class Producers>
  void join(int producer, int consumer, const Producers& producers) {
    size_t first = place(producer);
    size_t last = place(consumer);
    if (first > last) std::swap(first, last);
    std::set<int> needed;
    std::vector<int> stack{sequence_[last]};
    while (!stack.empty()) {
      const int group = stack.back();
      stack.pop_back();
      for (const int from : producers(group)) {
        if (place(from) > first && needed.insert(from).second) stack.push_back(from);
      }
    }
    std::vector<int> before, behind;
    for (size_t i = first + 1; i < last; ++i) (needed.contains(sequence_[i]) ? before : behind).push_back(sequence_[i]);
    size_t next = first;
    const auto put = [&](int group) {
      sequence_[next] = group;
      places_[static_cast<size_t>(group)] = next++;
    };
    for (const int group : before) put(group);
    put(producer);  // has no instructions any more
    put(consumer);
    for (const int group : behind) put(group);
  }

 private:
  std::vector<int> sequence_;   ///< all groups
  std::vector<size_t> places_;  ///< of each group in it
};

}  // namespace strata::emitters
