// Which two kernels can share a launch, what that costs, and what lies between them in the text (handover.h says which
// blocks wait for which).
#pragma once

#include <functional>

#include "superopt/codegen/generate.h"
#include "superopt/codegen/handover.h"
#include "superopt/codegen/libraries.h"

namespace strata {

/// From one group's counter to the next, in counters: each has a line of its own.
constexpr int64_t kCounterStride = 32;
/// Shared memory that handing over needs, after what both kernels use: a late signal of a neighbour to a barrier must
/// not change it.
constexpr int64_t kHandoverBytes = 16;
int64_t handover_place(const BlockCode& code, const BlockCode& behind);

/// A block graph, and the one whose kernel comes right after it and reads its results.
struct MergedPair {
  size_t first = 0;
  size_t next = 0;  ///< both are numbers of operations
  HandoverGroups groups;
  std::vector<BlockSchedule> schedules;  ///< of the second, in rows, the best guess first

  /// Nothing where another kernel or none comes after operator `first`, or rows do not take the second. `views`: of
  /// each operator whether it moves nothing (view_operations with what libraries take in strides of its own).
  static std::optional<MergedPair> find(const Graph& graph, size_t first, const Target& target,
                                        const LibraryPlan& libraries, const std::vector<bool>& views);

  /// Ways to follow the first kernel in its schedule beside Handover::Launch: Wait is left out where not all of its
  /// blocks run at the same time for sure.
  std::vector<Handover> offered(const Graph& graph, const BlockCode& code, const BlockSchedule& schedule,
                                const Target& target) const;
  /// Of these and Launch, that of the least estimated time.
  Handover cheapest(const Graph& graph, const BlockCode& code, const BlockSchedule& schedule,
                    const Target& target) const;
  /// Seconds that the second kernel adds to the first one's launch; Launch: of its own one.
  double seconds(const Graph& graph, const BlockCode& code, const BlockSchedule& schedule, Handover handover,
                 const Target& target) const;

  /// The second kernel's function for the threads of the first, `code` in `schedule`. Error (Unsupported) where the
  /// schedule's handover is not offered.
  Result<BlockCode> second_code(const Graph& graph, const std::string& name, const BlockCode& code,
                                const BlockSchedule& schedule, const Target& target) const;
  /// Statements after the call of the first function: `call` makes the call of the second for block n of its group.
  std::string text(const BlockCode& code, const BlockCode& behind, const BlockSchedule& schedule,
                   const std::string& counters, const std::function<std::string(const std::string& n)>& call) const;

 private:
  /// Blocks of the launch that count in a group.
  int64_t arrivals(const BlockSchedule& schedule) const { return groups.producers * schedule.cluster; }
  std::optional<BlockSchedule> second_schedule(const BlockCode& code) const;
};

}  // namespace strata
