// How many terms the sums of a module have: what decides how far two ways of adding them up may lie apart.
#pragma once

#include <cstdint>
#include <vector>

#include "hlo/hlo.h"

namespace strata::hlo {

/// How many elements of a window along one dimension are not holes (lhs_dilate) of the array below it, at most.
int64_t elements_beside_holes(const WindowDimension& window);

/// The terms of one element of a reduction, product, convolution, window, solve or factor; 1 for all other operators.
int64_t terms_of(const Computation& computation, const Instruction& it);

/// The most terms of one element of a reduction, product, convolution, window or scan that is written as a recursion
/// (scan_recursion.h) anywhere in the module; at least 1.
int64_t most_terms(const Module& module);

/// Which results come from a Fourier transform, a solve or a factor: of each operand where the root is a tuple, else of
/// the one result. Each element of these has the rounding errors of all that is transformed or eliminated, so they are
/// of one size in all elements, however small an element is. All results of a loop, branch or call with one in it
/// count.
std::vector<bool> transformed_results(const Module& module);

/// By how much tolerances of single operators grow where sums have this many terms: the roundings of a chain of n
/// additions add up to about √n of one. 1 up to 64 terms.
double slack_of_terms(int64_t terms);

/// The same where every one of the sums is rounded to the type of 16 bits or fewer that it is kept in: the n-th rounds
/// a number of about √n, so that they add up to about n of one. 1 up to 4 terms.
double slack_of_narrow_sums(int64_t terms);

}  // namespace strata::hlo
