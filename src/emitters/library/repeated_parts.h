// Along which parts of its dimensions a value repeats its elements.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "hlo/hlo.h"

namespace strata::emitters {

/// A part of a dimension whose indices are i: the digit i / low % (high / low). Of a dimension of 2 × 4 × 3 elements,
/// [3, 12) is the part of 4. Low divides high, which divides the dimension's size.
struct DimensionPart {
  int64_t low = 1, high = 1;

  int64_t size() const { return high / low; }
  auto operator<=>(const DimensionPart&) const = default;
};

/// The parts of a dimension along which a value repeats its elements: these do not depend on that digit of their index.
/// Found through broadcasts, reshapes, transposes, conversions and other elementwise operators, and what moves elements
/// along other dimensions; a concatenation of one array repeats it, too.
class RepeatedParts {
 public:
  using Parts = std::vector<DimensionPart>;

  explicit RepeatedParts(const hlo::Computation& computation) : computation_(computation) {}

  /// Apart from each other, in ascending order.
  const Parts& of(hlo::InstructionId id, int64_t dimension) { return find(id, dimension, 0); }

 private:
  const Parts& find(hlo::InstructionId id, int64_t dimension, int depth);
  Parts parts(const hlo::Instruction& it, int64_t dimension, int depth);
  Parts of_reshape(const hlo::Instruction& it, int64_t dimension, int depth);
  Parts of_concatenation(const hlo::Instruction& it, int64_t dimension, int depth);
  /// Those along which all operands do that are no scalars.
  Parts of_all(const hlo::Instruction& it, int64_t dimension, int depth);

  const hlo::Computation& computation_;
  std::map<std::pair<hlo::InstructionId, int64_t>, Parts> found_;
};

/// A part of a reshape's result as parts of its operand's dimensions, each with the dimension: none where it is cut at
/// places that do not divide it.
std::vector<std::pair<int64_t, DimensionPart>> parts_before_reshape(const std::vector<int64_t>& from,
                                                                    const std::vector<int64_t>& to, int64_t dimension,
                                                                    DimensionPart part);

}  // namespace strata::emitters
