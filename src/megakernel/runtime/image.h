// A plan as the kernel reads it: flat arrays of records (core/program.h), the same for every target. Making it checks
// that the plan can run to its end on a worker's FIFOs.
#pragma once

#include <vector>

#include "megakernel/plan.h"
#include "megakernel/runtime/core/program.h"

namespace strata::megakernel {

/// A worker's shared memory and queue.
struct Shape {
  int slots = 4;
  int64_t slot_bytes = 256;
  int64_t window_bytes = 1024;  ///< of bulk copies in flight; less than the ring holds, so that events hide in the rest
  int pages = 2;
  int64_t page_bytes = 256;
  int64_t scratch_bytes = 256;
  int listed = 4;          ///< tasks that control is ahead of compute by, at most
  int queue_capacity = 8;  ///< of tasks just in time, a power of two
};

struct Image {
  int workers = 0;
  int schedulers = 0;
  bool just_in_time = false;
  std::vector<TaskRecord> tasks;
  std::vector<int> triggers;
  std::vector<int> queue_first;
  std::vector<int> queue_tasks;
  std::vector<LaunchRecord> launches;
  std::vector<int> launch_first;
  std::vector<int> launch_tasks;
};

/// Launches are dealt to schedulers in turn. The last task of the plan ends the step. A task ahead of time that waits
/// for what may itself wait for a task just in time, by events or by the order of a queue, is listed only when its
/// events are active, whether the plan says so or not.
///
/// Errors (InvalidInput) name the task or event: numbers out of range; triggers that are not the number of tasks that
/// signal; a task ahead of time that is not in exactly one queue; a cycle of events and queues; a task that the last
/// one does not wait for, directly or not; one whose stores the next step would not see; tasks just in time without a
/// scheduler; a hand-off that the mode of the tasks forbids; more pages than there are.
Result<Image> make_image(const Plan& plan, const Shape& shape);

}  // namespace strata::megakernel
