// What the fusion pass may join next.
#pragma once

#include <cstddef>
#include <tuple>

namespace strata::emitters {

/// Two groups that might become one, by their numbers.
struct GroupPair {
  double gain = 0;
  size_t size = 0;  ///< of the joined group, where that decides between equal gains
  int consumer = 0;
  bool siblings = false;
  int producer = 0;
  int producer_version = 0, consumer_version = 0;
  bool rated = true;  ///< else the gain is at most that

  /// The pair to be joined first is the largest; of equal ones what is to be rated.
  bool operator<(const GroupPair& other) const {
    const auto key = [](const GroupPair& p) {
      return std::tuple(-p.gain, p.rated, p.size, p.consumer, p.siblings, p.producer);
    };
    return key(other) < key(*this);
  }
};

}  // namespace strata::emitters
