// Which dimensions of a computation's values are one.
#pragma once

#include <vector>

#include "hlo/hlo.h"

namespace strata::emitters {

/// Which dimensions of which values are walked together: classes of (instruction, dimension). A reshape keeps those
/// that it neither cuts nor joins.
class DimensionClasses {
 public:
  explicit DimensionClasses(const hlo::Computation& computation);

  /// A number below `count()`, the same for all dimensions of a class.
  int of(hlo::InstructionId id, int64_t dimension) const;
  size_t count() const { return parent_.size(); }

 private:
  void tie(hlo::InstructionId a, int64_t of_a, hlo::InstructionId b, int64_t of_b);
  void tie(hlo::InstructionId id);
  void tie_dot(hlo::InstructionId id, const hlo::Instruction& it);
  void tie_reshape(hlo::InstructionId id, const hlo::Instruction& it);

  const hlo::Computation& computation_;
  std::vector<int> first_, parent_;
};

}  // namespace strata::emitters
