// The probability that one random test accepts a different program, from the degrees of both programs.
// docs/verification.md has the derivation; the letters here are its letters.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace strata {

/// Degrees of each output of a kernel graph, in order, over-estimated, when input i has degree `of_inputs[i]`; with
/// `maxima_cancel`, maxima count as constants; `free`: operators that are random functions, and maxima with them, of
/// the degree `function_degree` unless they are of constants.
std::vector<DegreeArithmetic::Value> output_degrees(const Graph& graph, const std::vector<double>& of_inputs,
                                                    bool maxima_cancel = false, const FreeOperators* free = nullptr,
                                                    double function_degree = 1);

struct BoundOptions {
  uint64_t p = kVerifierPrimes.p;  ///< the prime, or the least that may be drawn
  bool random_primes = false;      ///< each test draws its own
  bool independent = false;        ///< the exponents of every output entry are jointly uniform (exponents.h)
  bool maxima_cancel = false;      ///< nothing depends on maxima
  std::pair<const FreeOperators*, const FreeOperators*> free{};  ///< of both programs; null: none
};

struct TestBound {
  double per_test = 1;   ///< a different program passes one test with at most this probability
  double roots = 0;      ///< square roots that one output entry of the two programs depends on, at most
  std::string argument;  ///< which argument, with its numbers
};

TestBound test_bound(const Graph& reference, const Graph& candidate, const BoundOptions& options = {});

}  // namespace strata
