// The superoptimizer as one function: text-level program in, proved and compiled µGraph out. The program is split into
// parts (partition.h), equal parts are searched once, and their results are put together again. A program that is one
// part takes the same way.
#pragma once

#include <map>
#include <optional>

#include "superopt/codegen/generate.h"
#include "superopt/optimize_part.h"
#include "superopt/partition/partition.h"

namespace strata {

/// What became of one part of the partition.
struct PartOutcome {
  int equal_to = -1;  ///< an earlier part that was searched for both; −1: itself
  CostEstimate program_cost;
  CostEstimate best_cost;
  OptimizedPart optimized;  ///< candidates with the program's names; of parts left predefined, the part itself
};

struct Superoptimized {
  GraphPtr program;
  CostEstimate program_cost;    ///< with every operator a kernel of its own, or a library's
  Schedules program_schedules;  ///< which are a library's
  Partition partition;
  std::vector<PartOutcome> parts;  ///< one a part of the partition
  /// Whole programs: the i-th has every part's i-th best. Proved, numerically acceptable, cheapest first. Never empty:
  /// the program itself is the last resort.
  std::vector<Candidate> candidates;
  /// Programs of several parts: what a run of the whole in float64 against the program showed, or why there was none.
  std::string whole_check;
  int unproved = 0;             ///< cheaper graphs that the proof or the rounding test turned down
  std::string unproved_reason;  ///< of the cheapest of them
  SearchStatistics statistics;  ///< of all searches
  StopReason stop_reason = StopReason::Exhausted;
  std::string left_out;
  GeneratedProgram code;    ///< of the first candidate
  std::vector<char> cubin;  ///< empty where compile_error is set, or none is wanted
  std::optional<Error> compile_error;
};

/// The end of everything, from the options' limit and stop. A stop leaves a second or so to put together what is known;
/// compiling may begin just before the limit, and ends a little after it.
Deadline deadline_of(const SearchOptions& options);

/// Moves the first candidate that holds at full shape (first_proved) to the front; those that do not are dropped and
/// counted.
void take_first_proved(Superoptimized& result, const SuperoptimizeOptions& options, const Deadline& deadline);

/// The time limit is for everything. Where it leaves no time for anything else, the result is the program as given.
Result<Superoptimized> superoptimize(const GraphPtr& program, const SuperoptimizeOptions& options);

}  // namespace strata
