// Dimensions of a computation's values, joined where they always lie side by side.
#pragma once

#include <vector>

#include "hlo/hlo.h"

namespace strata::emitters {

/// Two dimensions that stand next to each other, in the same order, in every value that has one of them are one
/// dimension (batch and position of a token, mostly); dimensions of one element are none, and one along which an iota
/// counts stays by itself. What remains are the joined
/// dimensions of each value, outermost first.
class JoinedAxes {
 public:
  explicit JoinedAxes(const hlo::Computation& computation);

  const std::vector<int64_t>& sizes(hlo::InstructionId id) const { return sizes_[static_cast<size_t>(id)]; }
  /// The joined dimension that a dimension belongs to; −1 where it has one element.
  int joined(hlo::InstructionId id, int64_t dimension) const {
    return joined_[static_cast<size_t>(id)][static_cast<size_t>(dimension)];
  }
  /// Of a broadcast or a transpose: for each of its joined dimensions, that of the operand, or −1.
  std::vector<int> sources(hlo::InstructionId id, const hlo::Instruction& it) const;
  /// The same for several, each joined dimension once, in the order given.
  std::vector<int> joined(hlo::InstructionId id, const std::vector<int64_t>& dimensions) const;

 private:
  std::vector<std::vector<int64_t>> sizes_;
  std::vector<std::vector<int>> joined_;
};

}  // namespace strata::emitters
