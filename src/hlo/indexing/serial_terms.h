// How many terms one thread of a kernel goes through, one after the other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hlo/hlo.h"

namespace strata::indexing {

/// Terms of reductions that are computed inside each other, multiplied: a sum of 7 sums of 61 terms each has 427. Each
/// that is short enough for one thread by itself (kFewTerms) may be in a chain that is not. What is the same for all
/// terms of a sum around it is computed once before: a softmax of 12 numbers, whose sum each of them is divided by, and
/// a sum of the quotients have 12 terms each, not 144.
struct SerialTerms {
  int64_t all = 1;       ///< of the longest chain of reductions, windows, products and convolutions
  int64_t combined = 0;  ///< of the longest chain with a reduction or scan, which threads could compute together; or 0
};

/// By InstructionId, for one element of each instruction up to the root. What is computed `once`, threads read.
std::vector<SerialTerms> serial_terms(const hlo::Computation& computation, const std::vector<hlo::InstructionId>& once);

/// The longest of all these instructions, in ascending order, where threads read what others compute.
SerialTerms longest_serial_terms(const hlo::Computation& computation, std::span<const hlo::InstructionId> instructions);

}  // namespace strata::indexing
