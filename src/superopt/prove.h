// The proofs of candidates, side by side.
#pragma once

#include "superopt/optimize_part.h"

namespace strata {

/// Why a graph is no candidate.
struct Refusal {
  std::string reason;
  bool out_of_time = false;  ///< nothing was found against it: the deadline passed first
};

/// The first `options.candidates` graphs that can be proved equivalent to the program, in their order, into
/// `result.candidates`, at shrunk shapes where there are some; those that were turned down are counted, with the reason
/// of the first. When the deadline passes, or once one is proved after an interrupt, the others are left.
void prove_cheapest(const GraphPtr& program, const std::vector<GraphPtr>& graphs, const SuperoptimizeOptions& options,
                    const Deadline& deadline, OptimizedPart& result);

/// One graph with its proof at shrunk shapes, where there are some, or what speaks against it.
tl::expected<Candidate, Refusal> prove(const GraphPtr& program, const GraphPtr& graph,
                                       const SuperoptimizeOptions& options, const Deadline& deadline);

/// Which of `order`, indices of candidates, is the first whose steps all hold at full shape; several are proved side by
/// side, on `options.search.threads` threads. Where full shape takes more than `options.largest_full_proof`, or the
/// deadline passes, a proof at shrunk shapes stands, and the candidate says so. Steps that are turned down have
/// `refuted` set, and no candidate with one is taken. None where all are turned down; the program itself never is.
std::optional<size_t> first_proved(std::vector<Candidate>& candidates, const std::vector<size_t>& order,
                                   const SuperoptimizeOptions& options, const Deadline& deadline);

/// Sets the candidate's proof and errors again from its steps. Composition is exact, so that error bounds add up.
void combine_steps(Candidate& candidate);

/// What the proof at full shape says against a candidate; empty where nothing.
std::string refutation(const Candidate& candidate);

}  // namespace strata
