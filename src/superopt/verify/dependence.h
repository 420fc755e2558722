// On which grid dimensions and on the loop the tensors of a block graph depend: where a value does not, sums over those
// iterations multiply it by their number, and that number is part of what the graph computes.
#pragma once

#include "ir/graph.h"

namespace strata {

/// Bits 0 to 2: grid dimensions.
inline constexpr unsigned kLoopBit = 8;

/// Operators that add or compare their operands, or a constant, so that one of them may be constant where another
/// varies. Not where the result is only exponentiated: e^(x + c) = e^x · e^c, and products count nothing.
bool adds_operands(const Graph& graph, const Operation& op);

/// The grid dimensions and the loop whose sizes may be factors of a block graph's results; none of other graphs.
struct SizeDependence {
  unsigned always = 0;         ///< a value that they do not change is accumulated or stacked
  unsigned where_reduced = 0;  ///< it is added to one that they change: only if something sums over them later
};
SizeDependence size_dependence(const Graph& graph);

}  // namespace strata
