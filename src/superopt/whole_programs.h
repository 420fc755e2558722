// Whole programs of the candidates of their parts.
#pragma once

#include "superopt/superoptimize.h"

namespace strata {

/// Gives products to cuBLASLt and convolutions to cuDNN where the model rates that better, and rates what emitters
/// write by their kernels.
void rate_as_generated(Candidate& candidate, const SuperoptimizeOptions& options);

/// What the program costs as it is given (Superoptimized::program_cost).
void rate_program(Superoptimized& result, const SuperoptimizeOptions& options);

/// Cheapest first; equals keep their order.
void sort_by_cost(std::vector<Candidate>& candidates);

/// Adds a candidate, unless its graph is known.
void add_new(std::vector<Candidate>& candidates, Candidate candidate);

/// The candidates of a result whose parts are known: the i-th of every part together, those with the other of library
/// and generated code, and the program itself. Once the deadline passes, the first and the program alone.
Result<void> put_together(const SuperoptimizeOptions& options, const Deadline& deadline, Superoptimized& result);

/// What the best whole program does against the input in float64: what would show a mistake in taking apart and
/// composing. From the cache where it was run on the same two programs; empty of programs of one part.
std::string checked_whole(const Superoptimized& result, const SuperoptimizeOptions& options, const Deadline& deadline);

}  // namespace strata
