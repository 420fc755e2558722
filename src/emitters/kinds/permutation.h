// How an array's elements are permuted in memory, in as few dimensions as describe it.
#pragma once

#include <optional>

#include "hlo/hlo.h"

namespace strata::emitters {

/// Dimensions that stay together are one; there are none of size 1. Dimensions are counted in memory, outermost first.
struct Permutation {
  std::vector<int64_t> dims;  ///< of the operand
  std::vector<int> order;     ///< the operand's dimension that each dimension of the result is

  size_t rank() const { return dims.size(); }
  std::vector<int64_t> result_dims() const;
  /// "64x1024x1000 by 0,2,1".
  std::string text() const;
  bool operator==(const Permutation&) const = default;
};

/// What warps of a loop over the result, with vectors of 16 bytes, touch in the operand, over what the same bytes fill:
/// 1 at best.
struct LoopReads {
  double lines = 1;    ///< of memory
  double sectors = 1;  ///< 16 where elements of 2 bytes lie apart
};
LoopReads reads_of_loop(const Permutation& permutation, int64_t element_bytes);
/// Where a loop touches so many times the lines, a tile of shared memory is worth it.
inline constexpr double kLeastLineRatio = 1.5;

/// The normal form of the permutation by which dimension i of an array of shape `result` is dimension `dimensions[i]`
/// of one of shape `operand`, with their layouts. None where nothing moves, or where there are no elements.
std::optional<Permutation> permutation_of(const hlo::Shape& operand, const hlo::Shape& result,
                                          const std::vector<int64_t>& dimensions);

/// That of a transpose or of a copy to another layout; none of other instructions.
std::optional<Permutation> permutation_of(const hlo::Computation& computation, hlo::InstructionId id);

}  // namespace strata::emitters
