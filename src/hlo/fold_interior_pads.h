// Windows over arrays with holes, without the holes.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// The module with the padding in the window of each reduce-window of the entry whose operand is a pad with interior
/// padding, where the padding value changes nothing (0 in a sum, the least number in a maximum): the holes become the
/// window's lhs_dilate, and what comes before and after joins its padding. JAX writes the gradient of a pooling with
/// strides so. Then only elements that are no holes are read: of a window of 3 over holes of 1, two. The pad goes where
/// nothing else reads it. A pad that cuts elements off stays where the window has padding of its own there, and so does
/// one under a window that knows holes already.
Module fold_interior_pads(const Module& module);

}  // namespace strata::hlo
