// Gradients of linear recurrences that are written out by halves as scans again.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether fold_linear_recurrences might rewrite something of the entry or of what it calls.
bool may_have_linear_recurrences(const Module& module);

/// The module with calls written out, and what the gradients of scans by h[t] = a[t] · h[t-1] + b[t] compute as
/// reduce-windows that grow with the index (scan_window.h). Of scans that are written as a recursion over pairs
/// (scan_recursion.h), such a gradient is slices, pads, sums and products of arrays of n/2, n/4, … elements, with all
/// of the forward recursion's. It has, of the gradient g of h,
///   λ[t] = g[t] + a[t+1] · λ[t+1], the gradient of b, and λ[t] · h[t-1], the gradient of a;
/// for sums, a is 1 and for products, b is 0 and h[-1] is 1. Then h is a window, too. So are
///   y[t] = log(e^b[0] + … + e^b[t]), and the gradient e^(b[t] - y[t]) · λ[t] of b, of the gradient g of y, with
///   λ[t] = g[t] + e^(y[t] - y[t+1]) · λ[t+1].
/// Where all of these arrays are reversed along the dimension, scans run from the end instead.
/// How a text writes these does not matter: an array that is made of others, along one dimension, by those operators
/// alone is computed of random elements of a prime field of 61 bits and compared with each of the formulas. Where all n
/// elements agree, it is that formula, except with a probability of less than (n + 2) / 2^60 (Schwartz-Zippel), where
/// comparisons come out as they did for the random reals by which they were decided (recurrence_region.h).
/// Floats only, from n = 16 on. Elements are then combined in another order, and gradients beside infinities may be
/// finite where the text has none.
Module fold_linear_recurrences(const Module& module);

}  // namespace strata::hlo
