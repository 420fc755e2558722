// The proofs of a part's candidates, side by side.
#pragma once

#include "superopt/optimize_part.h"

namespace strata {

/// The first `options.candidates` graphs that can be proved equivalent to the program, in their order, into
/// `result.candidates`; those that were turned down are counted, with the reason of the first. At shrunk shapes, except
/// the cheapest: at full shape too, where that is affordable.
void prove_cheapest(const GraphPtr& program, const std::vector<GraphPtr>& graphs, const SuperoptimizeOptions& options,
                    OptimizedPart& result);

/// One graph with its proof at shrunk shapes, where there are some, or what speaks against it.
tl::expected<Candidate, std::string> prove(const GraphPtr& program, const GraphPtr& graph,
                                           const SuperoptimizeOptions& options);

}  // namespace strata
