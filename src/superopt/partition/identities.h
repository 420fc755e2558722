// Statements that change nothing, out of the program before it is searched.
#pragma once

#include "ir/graph.h"

namespace strata {

/// The same program without statements whose result is their operand: transposes and reshapes to the same order and
/// shape, slices of everything, reductions of one element, factors of 1, sums with 0. Transposes of transposes and
/// reshapes of reshapes become one. Outputs keep their names and their order, and stay tensors of their own: where an
/// output is an input or another output under another name, its statement stays. The program itself where there is
/// nothing to remove.
Result<GraphPtr> without_identities(const GraphPtr& program);

}  // namespace strata
