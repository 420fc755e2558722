// What compiler, check and runtime ask of every plan first: that its numbers name what there is, and what it says in
// the other direction.
#pragma once

#include <vector>

#include "megakernel/plan.h"

namespace strata::megakernel {

/// Errors (InvalidInput) name the task or queue: no tasks, no workers, or not one queue for each; a function, operator
/// or event of a task, or a task of a queue, that does not exist; a task that waits for more than kMaxWaits events.
Result<void> check_numbers(const Plan& plan);

/// The plan's numbers are in range.
struct PlanRelations {
  std::vector<std::vector<int>> triggers;  ///< of each event: the tasks that signal it, in order
  std::vector<int> worker;                 ///< of each task: in whose queue it stands; −1: in none
  std::vector<int> place;                  ///< of each task, in its queue; −1: in none
  std::vector<int> previous;               ///< of each task: the one before it in its queue; −1: none

  explicit PlanRelations(const Plan& plan);
};

}  // namespace strata::megakernel
