// A plan as the kernel reads it: flat arrays of records (core/program.h), the same for every target. Making it checks
// that the plan can run to its end on a worker's FIFOs.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "machine/target.h"
#include "megakernel/plan.h"
#include "megakernel/runtime/core/program.h"

namespace strata::megakernel {

/// A worker: its shared memory, queue and team.
struct WorkerShape {
  int64_t ring_bytes = 8 * kStageUnit;  ///< a multiple of kStageUnit
  int ring_stages = 8;                  ///< pairs of barriers: a power of two, at least 4 for each warp
  int64_t window_bytes =
      4 * kStageUnit;       ///< of bulk copies in flight; less than the ring, so that events hide in the rest
  int64_t ahead_bytes = 0;  ///< asked of the second-level cache while the ring is full; a multiple of 16
  int64_t scratch_bytes = 256;
  int warps = 2;           ///< of compute
  int listed = 4;          ///< tasks that control is ahead of compute by, at most
  int queue_capacity = 8;  ///< of tasks just in time, a power of two
  int64_t multiprocessor_bytes = default_target().multiprocessor_shared_memory;  ///< that a graph's blocks share,
  int64_t reserved_bytes = default_target().reserved_shared_memory;              ///< and what each takes beside its own
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
/// signal; a task ahead of time that is not in exactly one queue; a cycle of events and queues; a task that may still
/// run when the step has ended (running_at_end); tasks just in time without a scheduler; a hand-off that the mode of
/// the tasks forbids; stages or scratch memory that do not fit the worker.
Result<Image> make_image(const Plan& plan, const WorkerShape& shape);

/// Errors (InvalidInput): a limit that is not positive, and one of waits that is not longer than the one of the start.
Result<void> check_limits(std::chrono::nanoseconds limit, std::chrono::nanoseconds start_limit);

/// The image's queues with the operators' arguments beside the tasks; nothing where tasks are just in time.
std::vector<QueuedTask> queued_tasks(const Image& image, std::span<const OperatorRecord> operators);

}  // namespace strata::megakernel
