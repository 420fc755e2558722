// The same two programs at the smallest shapes at which their tiles, grids and loops still have more than one element:
// what the screen of the search runs on. docs/verification.md says why equivalent programs stay equivalent.
#pragma once

#include <utility>

#include "ir/graph.h"

namespace strata {

enum class Shrinking {
  Sound,  ///< sizes that may be factors of results stay: equivalent programs stay equivalent
  Loose,  ///< only dimensions that operators regroup stay, and those that iotas count
  Masks,  ///< as Loose, but what iotas count need not stay: masks are what they are at the smaller shapes
};

/// The reference and the candidate at common shrunk input shapes. Constants stay. Error (Unsupported) where an axis,
/// grid or loop cannot be cut consistently, (InvalidInput) where the graphs' inputs or outputs do not correspond.
Result<std::pair<GraphPtr, GraphPtr>> shrink(const Graph& reference, const Graph& candidate,
                                             Shrinking shrinking = Shrinking::Sound);

/// As shrink; where the reference is still of more operations than this, what iotas count is shrunk as well.
Result<std::pair<GraphPtr, GraphPtr>> shrink_to(double operations, const Graph& reference, const Graph& candidate);

}  // namespace strata
