// What was decided of a part, kept in the cache of results: with a second run nothing is searched or measured again.
#pragma once

#include <optional>
#include <string>

#include "emitters/lax/parts.h"
#include "emitters/lax/steps.h"
#include "machine/target.h"
#include "runtime/result_cache.h"

namespace strata::emitters {

/// What became of a part: a step, or why there is none.
struct LaxDecision {
  std::optional<LaxStep> step;
  double microseconds = 0;  ///< of the step, measured or by the model
  double others = 0;        ///< of the kernels and libraries that it replaces, in the same way
  std::string why_not;
  /// Whether more time for the same search is what it would take to decide otherwise. Where something was missing, a
  /// compiler or time to measure, the next run may have it.
  bool settled = false;
};

/// By input of a graph that computes the program, which of the part's inputs it is; none where the part has no such.
std::optional<std::vector<int>> inputs_of(const Graph& graph, const LaxProgram& program);

/// A settled decision under the key, if it had `seconds` or more. Its graph has the part's interface; who takes it
/// proves it anew.
std::optional<LaxDecision> find_decision(ResultCache& cache, const std::string& key, double seconds,
                                         const LaxPart& part, const Target& target);
/// Nothing happens where it is not settled.
void store_decision(ResultCache& cache, const std::string& key, double seconds, const LaxDecision& decision);

}  // namespace strata::emitters
