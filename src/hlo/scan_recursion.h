// Scans written out as a recursion over pairs: the form in which jax.lax.associative_scan is lowered.
#pragma once

#include <optional>
#include <vector>

#include "hlo/hlo.h"

namespace strata::hlo {

/// A scan of k arrays side by side: element i of the results is c(… c(c(x₀, x₁), x₂) …, xᵢ) in some grouping.
struct ScanRecursion {
  int64_t dimension = 0;
  int64_t length = 0;
  std::vector<InstructionId> inputs;  ///< k arrays of the first one's sizes, or repeated to these
  std::vector<int64_t> axes;          ///< by input: its own dimension that is scanned
  /// By input, the first one's dimension of each of its dimensions, ascending; those of one element may have any.
  std::vector<std::vector<int64_t>> places;
  std::vector<InstructionId> results;  ///< by input: its scanned values, or -1 where nothing reads them
  /// (a₀ … aₖ₋₁, b₀ … bₖ₋₁) → c, scalars; a tuple where k > 1. It calls nothing.
  Computation combiner;
};

/// The scans of a computation without calls (inline_calls.h) that are written as
///   scan(x) = interleave(concatenate(x[0], c(scan(c(x[0::2], x[1::2]))[:-1], x[2::2])), scan(c(x[0::2], x[1::2]))),
/// of any length from `least` on, down to one element, where c is made of elementwise operators and scalar constants
/// and is the same at all levels. Results of inner levels that are not read outside belong to one scan. They may share
/// no result; those of more arrays come first.
std::vector<ScanRecursion> find_scan_recursions(const Computation& computation, int64_t least = 16);

}  // namespace strata::hlo
