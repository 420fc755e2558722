// One part of a program: searched, its best graphs proved.
#pragma once

#include <functional>
#include <optional>

#include "ir/sized_program.h"
#include "runtime/result_cache.h"
#include "superopt/codegen/generate.h"
#include "superopt/optimize/cost.h"
#include "superopt/search/search.h"
#include "superopt/verify/verify.h"
#include "support/deadline.h"

namespace strata {

/// A program whose sizes have names, at some of them (docs/sizes.md).
struct SizedRun {
  std::shared_ptr<const SizedProgram> program;
  DimSizes sizes;
  /// The structure that was the fastest where it was measured at the nearest sizes (structure_of), and its schedule;
  /// empty: the model chooses.
  std::string preferred = {};
  std::string preferred_schedule = {};
};

struct SuperoptimizeOptions {
  /// Its time limit is for everything: partition, search, proofs, code.
  SearchOptions search;
  /// When everything must have ended; made of `search.time_limit` and `search.stop` where it is empty.
  std::optional<Deadline> deadline = {};
  double delta = 1e-12;
  /// Also graphs that overflow for inputs of magnitude 1e4 where the exact result does not; of programs that
  /// exponentiate without subtracting a maximum, those that do neither.
  bool allow_unstable = false;
  double solver_time_limit = 10;  ///< seconds a graph that the finite fields leave undecided
  Passes passes;
  int candidates = 8;  ///< how many of the cheapest graphs are fully verified and returned
  /// Programs and parts whose execution takes more multiply-adds and elements are proved at shrunk shapes alone.
  double largest_full_proof = 3e8;
  bool compile = true;  ///< code to a cubin; not where only graphs and code are wanted
  /// Where results are kept and looked up; none where null. Not owned.
  ResultCache* cache = nullptr;
  /// Set where the program has dims: parts that were searched at other sizes are made of what was found there.
  std::optional<SizedRun> sized = {};
  /// Called when a stage begins and ends: --dump-after and timing hang on it. `graph` is the best so far.
  std::function<void(std::string_view stage, double seconds, const Graph& graph)> stage_done;
  std::function<void(const SearchProgress&)> progress;
  /// `done` of `count` pieces of a stage's work; called from any thread.
  std::function<void(std::string_view stage, size_t done, size_t count)> stage_progress;
};

/// A graph in the place of a program or of a part of one, and what is known of the two. Candidates share it.
struct ProofStep {
  GraphPtr program;
  GraphPtr graph;
  VerifyResult verification;
  FloatErrors errors;
  bool full_shape = false;  ///< proved at the shapes of `program`, not at shrunk ones
  std::string why_shrunk;   ///< why it was not proved at full shape, once that was asked for
  std::string refuted;      ///< what the proof at full shape said against it
  bool settled = false;     ///< that proof was tried to its end
};

struct Candidate {
  GraphPtr graph;
  CostEstimate cost;
  VerifyResult verification;
  FloatErrors errors;
  Schedules schedules = {};  ///< the model's choice of what libraries compute; `cost` is with them
  bool full_shape = false;   ///< whether all that `verification` says was shown at the program's own shapes
  /// Whose proofs together are this one's; none where it is the program itself.
  std::vector<std::shared_ptr<ProofStep>> steps = {};
  std::string composition = {};  ///< of a program of several parts: how many of them are replaced
};

struct OptimizedPart {
  /// Proved, numerically acceptable, cheapest first. Never empty: the part itself is the last resort.
  std::vector<Candidate> candidates;
  int unproved = 0;             ///< cheaper graphs that the proof or the rounding test turned down
  std::string unproved_reason;  ///< of the cheapest of them
  SearchStatistics statistics;
  StopReason stop_reason = StopReason::Exhausted;
  bool cut = false;  ///< variants or proofs were left out for want of time, of which the search may have had enough
  std::string left_out;
  std::string cached_at;     ///< when it was computed, if it comes from the cache
  double made_seconds = 0;   ///< what that took without proofs
  std::string made_of;       ///< the sizes at which it was searched, where these are others
  std::string why_searched;  ///< of a program with dims: why it was not made of what is known at other sizes
};

/// The input program as a candidate: its own proof needs no test.
Candidate as_candidate(const GraphPtr& program, const Target& target);

/// Of a program of predefined operators. What the deadline leaves no time for is left out: at the worst, the part
/// itself is the only candidate.
Result<OptimizedPart> optimize_part(const GraphPtr& program, const SuperoptimizeOptions& options,
                                    const Deadline& deadline);

}  // namespace strata
