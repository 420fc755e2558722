// What is computed of constants alone.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// The module with a constant in the place of each instruction of the entry that computes 64 elements or fewer,
/// elementwise or by moving them, of constants alone. JAX computes the bounds of random numbers so, and a kernel would
/// compute them for each element, or another kernel before it. Values are the interpreter's. Results of the entry stay
/// instructions, as do operators on constants whose elements the text leaves out, and broadcasts: that all elements
/// are one value is worth knowing. What is computed of iotas, too, becomes a constant where reading an element takes
/// less than computing it: floats such as the frequencies of rotary embeddings, and concatenations.
Module fold_constants(const Module& module);

}  // namespace strata::hlo
