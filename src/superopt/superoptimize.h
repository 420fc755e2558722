// The superoptimizer as one function: text-level program in, proved and compiled µGraph out.
#pragma once

#include <map>
#include <optional>

#include "superopt/codegen/generate.h"
#include "superopt/optimize/cost.h"
#include "superopt/search/search.h"
#include "superopt/verify/verify.h"

namespace strata {

struct SuperoptimizeOptions {
  SearchOptions search;
  double delta = 1e-12;
  double solver_time_limit = 10;  ///< seconds a graph that the finite fields leave undecided
  int candidates = 8;             ///< how many of the cheapest graphs are fully verified and returned
  /// Called when a stage begins and ends: --dump-after and timing hang on it. `graph` is the best so far.
  std::function<void(std::string_view stage, double seconds, const Graph& graph)> stage_done;
  std::function<void(const SearchProgress&)> progress;
};

struct Candidate {
  GraphPtr graph;
  CostEstimate cost;
  VerifyResult verification;
  FloatErrors errors;
};

struct Superoptimized {
  GraphPtr program;
  CostEstimate program_cost;
  /// Proved, numerically acceptable, cheapest first. Never empty: the program itself is the last resort.
  std::vector<Candidate> candidates;
  int unproved = 0;             ///< cheaper graphs that the proof or the rounding test turned down
  std::string unproved_reason;  ///< of the cheapest of them
  SearchStatistics statistics;
  StopReason stop_reason = StopReason::Exhausted;
  std::string left_out;
  GeneratedProgram code;    ///< of the first candidate
  std::vector<char> cubin;  ///< empty where compile_error is set
  std::optional<Error> compile_error;
};

Result<Superoptimized> superoptimize(const GraphPtr& program, const SuperoptimizeOptions& options);

}  // namespace strata
