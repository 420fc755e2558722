// Concatenations of which block graphs read the first operand where it lies: only what comes after it is copied.
//
// A decode step appends rows to a cache of thousands, and attention reads both as one tensor. Its tiles lie in the
// cache or after a seam, where the last of the cache's rows, which no tile has alone, and the new ones are copied to.
#pragma once

#include <map>
#include <vector>

#include "ir/graph.h"
#include "superopt/codegen/emission.h"
#include "superopt/codegen/operand_place.h"

namespace strata {

/// What is not copied of a concatenation.
struct UncopiedFront {
  TensorId memory = 0;  ///< where it lies: whose memory it is
  Front front;
  Shape rest;  ///< of the concatenation's own memory, which lies row-major
};

/// By result of the concatenation.
using UncopiedFronts = std::map<TensorId, UncopiedFront>;

/// Those of `free` operators, which emitters write (emission.h). Only block graphs with products read their results,
/// and no tile that these read crosses the seam. What is left as a front lies row-major, is written by none of the free
/// ones, and can be copied in pieces as large as those of the whole. `views` and `strided` as in ir/views.h.
UncopiedFronts uncopied_fronts(const Graph& graph, const std::vector<bool>& free, const std::vector<bool>& views,
                               const std::vector<bool>& strided);

/// What emitters write of the free operators, and what of concatenations they leave out.
struct Emission {
  std::vector<EmittedGroup> groups;
  UncopiedFronts fronts;
};
Emission plan_emission(const Graph& graph, const std::vector<bool>& free, const std::vector<bool>& views,
                       const std::vector<bool>& strided, const KernelEmitter& emitter, const Target& target,
                       KernelText text = KernelText::Wanted);

/// How a tensor lies that is read as `view` says, or by its front and what is left of it.
OperandPlace place_of(MemoryView view, const UncopiedFronts& fronts, TensorId id);

}  // namespace strata
