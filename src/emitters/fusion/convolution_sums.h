// Convolutions of long windows at few places, of one channel each, as sums of products.
#pragma once

#include "hlo/hlo.h"

namespace strata::emitters {

/// The module with each such convolution of the entry as one sum for each place of its windows: the elements below the
/// window times its own, summed over images and the window. Gradients of filters are so where each channel has filters
/// of its own (depthwise): thousands of terms for each of a few elements. As a convolution one thread would go through
/// them. As sums they share a kernel that reads both arrays once, and are split over blocks (split_reductions.h).
/// Narrow floats are multiplied and summed in f32, as a convolution does. Windows of two and three dimensions that
/// cuDNN may take stay.
hlo::Module with_convolution_sums(const hlo::Module& module);

}  // namespace strata::emitters
