// The probability that one random test accepts a different program, from the degrees of both programs.
// docs/verification.md has the derivation; the letters here are its letters.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace strata {

/// Degrees of each output of a kernel graph, in order, over-estimated, when input i has degree `of_inputs[i]`; with
/// `maxima_cancel`, maxima count as constants.
std::vector<DegreeArithmetic::Value> output_degrees(const Graph& graph, const std::vector<double>& of_inputs,
                                                    bool maxima_cancel = false);

struct TestBound {
  double per_test = 1;   ///< a different program passes one test with at most this probability
  std::string argument;  ///< which argument, with its numbers
};

/// `maxima_cancel`: nothing depends on maxima. `independent`: the exponents of every output entry were found to be
/// jointly uniform (exponents.h).
TestBound test_bound(const Graph& reference, const Graph& candidate, const FieldPrimes& primes, bool independent,
                     bool maxima_cancel = false);

}  // namespace strata
