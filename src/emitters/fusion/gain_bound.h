// What two groups of instructions can save at most as one kernel, without a look at that kernel.
#pragma once

#include <span>
#include <vector>

#include "emitters/fusion/pass.h"
#include "emitters/fusion/ratings.h"
#include "hlo/hlo.h"

namespace strata::emitters {

/// What of an instruction matters to the bound; a group has what one of its instructions has.
enum Trait : unsigned {
  kReadsPart = 1,  ///< it may need only some elements of an operand
  kSpreads = 2,    ///< it has the same value for elements beside each other, so that threads compute what it reads once
  kPricedByEmitter = 4,  ///< what its operations take depends on the emitter
};

/// Of each instruction its traits.
std::vector<unsigned> instruction_traits(const hlo::Computation& computation);

/// A group, as far as the bound depends on it.
struct BoundedGroup {
  const KernelTime& time;                 ///< as a kernel of its own
  const std::vector<ArrayValue>& inputs;  ///< arrays of others and of parameters that it reads, in order
  unsigned traits = 0;
};

class GainBound {
 public:
  GainBound(const hlo::Computation& computation, const Ratings& ratings)
      : computation_(computation), ratings_(ratings) {}

  /// Of two groups, neither of which reads the other: a launch, and the time of arrays that both read. All else that
  /// one of them does it also does beside the other; reading such an array is work, too, which the two may share.
  double of_readers(const BoundedGroup& first, const BoundedGroup& second) const;

  /// Of a producer and a consumer that reads `passed` of it. The arrays `gone` among them nobody else needs. All bytes
  /// but those of these arrays still move, and all operations of both are still done: of the producer unless the
  /// consumer may need a part of what it computes, or may have threads compute it once for several elements. A row that
  /// only the joined kernel can keep in registers may save more: then the pair is rated later than it might be.
  double of_pair(const BoundedGroup& producer, const BoundedGroup& consumer, std::span<const ArrayValue> passed,
                 std::span<const ArrayValue> gone) const;

  /// The same of a pair of which nothing is known but that it saves a launch.
  double of_launch(const KernelTime& first, const KernelTime& second) const;

 private:
  double microseconds_of(std::span<const ArrayValue> values) const;
  double microseconds_of_shared(const BoundedGroup& a, const BoundedGroup& b) const;

  const hlo::Computation& computation_;
  const Ratings& ratings_;
};

}  // namespace strata::emitters
