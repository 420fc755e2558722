// One part of a program: searched, its best graphs proved.
#pragma once

#include <functional>
#include <optional>

#include "runtime/result_cache.h"
#include "superopt/codegen/generate.h"
#include "superopt/optimize/cost.h"
#include "superopt/search/search.h"
#include "superopt/verify/verify.h"

namespace strata {

struct SuperoptimizeOptions {
  SearchOptions search;
  double delta = 1e-12;
  /// Also graphs that overflow for inputs of magnitude 1e4 where the exact result does not; of programs that
  /// exponentiate without subtracting a maximum, those that do neither.
  bool allow_unstable = false;
  double solver_time_limit = 10;  ///< seconds a graph that the finite fields leave undecided
  Passes passes;
  int candidates = 8;  ///< how many of the cheapest graphs are fully verified and returned
  /// Programs whose execution takes more multiply-adds and elements are proved at shrunk shapes: at full shape that
  /// takes seconds a graph. The parts of one program share it.
  double largest_full_proof = 3e8;
  /// Where results are kept and looked up; none where null. Not owned.
  ResultCache* cache = nullptr;
  /// Called when a stage begins and ends: --dump-after and timing hang on it. `graph` is the best so far.
  std::function<void(std::string_view stage, double seconds, const Graph& graph)> stage_done;
  std::function<void(const SearchProgress&)> progress;
};

struct Candidate {
  GraphPtr graph;
  CostEstimate cost;
  VerifyResult verification;
  FloatErrors errors;
  Schedules schedules = {};  ///< the model's choice of what libraries compute; `cost` is with them
};

struct OptimizedPart {
  /// Proved, numerically acceptable, cheapest first. Never empty: the part itself is the last resort.
  std::vector<Candidate> candidates;
  int unproved = 0;             ///< cheaper graphs that the proof or the rounding test turned down
  std::string unproved_reason;  ///< of the cheapest of them
  SearchStatistics statistics;
  StopReason stop_reason = StopReason::Exhausted;
  std::string left_out;
  std::string cached_at;  ///< when it was computed, if it comes from the cache
};

/// The input program as a candidate: its own proof needs no test.
Candidate as_candidate(const GraphPtr& program, const Target& target);

/// Of a program of predefined operators.
Result<OptimizedPart> optimize_part(const GraphPtr& program, const SuperoptimizeOptions& options);

}  // namespace strata
