// Select-and-scatter, the gradient of pooling by maxima, in terms of reduce-window and elementwise operators.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether any computation has a select-and-scatter.
bool has_select_and_scatter(const Module& module);

/// Each select-and-scatter becomes a call of a computation in two steps. A reduce-window finds for each window the
/// place of the element that it selects: as many of the last bits of its indices as tell the elements of windows that
/// overlap apart. Then each element of the operand looks at the windows
/// that cover it, in their order, and combines the sources of those that selected it. So the second step does no more
/// than 2^d times the first one's work in d dimensions, no element depends on the order in which threads run, and sums
/// and products of floats narrower than 32 bits are rounded once. Where more than 32 windows cover an element, the
/// sources are scattered to the elements instead. Error where the module is not verified.
Result<Module> expand_select_and_scatter(const Module& module);

}  // namespace strata::hlo
