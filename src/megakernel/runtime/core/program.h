// What the runtime of a mega-kernel executes, as it lies in device memory: a plan's tasks as records that are copied to
// shared memory as they are, queues, what schedulers watch, and the words that threads meet at. runtime/image.h makes
// it.
#pragma once

#include "megakernel/max_waits.h"
#include "megakernel/runtime/core/base.h"

namespace strata::megakernel {

constexpr int kMostArguments = 16;
constexpr unsigned kAfterJustInTime = 1;  ///< may be listed only when its events are active
constexpr unsigned kEndsStep = 2;         ///< all others of the step come before it
constexpr unsigned kStoresForCopies = 4;  ///< what it stores is read by bulk copies of later steps

/// 64 bytes. Waits and signal name events with a counter alone; −1: none.
struct alignas(16) TaskRecord {
  long long coordinates[3];
  int task;
  int function;  ///< −1: an empty task
  int op;        ///< of Program::operators; −1: an empty task
  int signal;
  int waits[kMaxWaits];  ///< the first wait_count
  short wait_count;
  short flags;
  int unused;
};
static_assert(sizeof(TaskRecord) == 64, "records are copied word by word");

/// What all tasks of an operator share: the tensors that its block function reads and writes.
struct alignas(16) OperatorRecord {
  void* arguments[kMostArguments];
};

/// A task as it lies in a queue, with its operator's arguments beside it, so that one bulk copy brings all of it.
struct alignas(16) QueuedTask {
  TaskRecord record;
  void* arguments[kMostArguments];  ///< of its operator; an empty task has none
};

/// A task in a worker's list, in shared memory. Block functions read record, arguments and epoch.
struct Descriptor : QueuedTask {
  unsigned epoch;
  unsigned filled[2];  ///< stages that load filled, and where the next one could begin in the ring
  unsigned used[2];    ///< the same of compute
  /// Of load and of compute, where they are recorded (profile.h).
  unsigned long long begin[2];
  unsigned long long end[2];
};

/// Tasks just in time that wait for the same events.
struct LaunchRecord {
  int waits[kMaxWaits];
  int wait_count;
  int first;  ///< of Program::launch_tasks
  int end;
};

/// Bits of Program::without: what a launch does without, to measure what it brings.
constexpr unsigned kDescriptorsAhead = 1;  ///< descriptors come while the loads of the task before are issued
constexpr unsigned kConstantsAhead = 2;    ///< constants are loaded before the task's events are active

/// To which worker a scheduler gives a task.
enum class Placement : unsigned { RoundRobin, LeastLoaded };

/// Begin and end of a task in one role, in nanoseconds.
struct ProfileRecord {
  int task;
  unsigned epoch;
  unsigned long long begin;
  unsigned long long end;
};

/// Words of a report on a role. What it waits for, by the role itself: Activity, task, epoch, object, have, want. What
/// it was seen in by control, when control left after an abort: 1 + the task whose block function it was in, epoch.
constexpr int kReportWords = 8;

/// One launch of a kernel. Epochs are below 2³⁰; the counters of events keep their values from one launch to the next.
template <class Platform>
struct Program {
  using Counter = typename Platform::Counter;
  using TaggedWord = typename Platform::TaggedWord;

  int workers;
  int schedulers;
  bool just_in_time;  ///< some task is
  const TaskRecord* tasks;
  const OperatorRecord* operators;
  const int* triggers;     ///< by event
  const int* queue_first;  ///< by worker, and one more: of queue_tasks
  const int* queue_tasks;
  const QueuedTask* queued;      ///< the same tasks, where none is just in time
  const LaunchRecord* launches;  ///< of each scheduler in the order of their tasks
  const int* launch_first;       ///< by scheduler, and one more: of launches
  const int* launch_tasks;
  Placement placement;
  const int* lengths;  ///< by sequence: positions of its cache that are filled before first_epoch

  // The worker's shared memory.
  unsigned ring_bytes;   ///< a multiple of kStageUnit
  unsigned ring_stages;  ///< pairs of barriers, 2 to the power of ring_shift; at least 4 for each warp of compute
  unsigned ring_shift;
  unsigned window_bytes;  ///< of bulk copies in flight; a larger copy is in flight alone
  unsigned ahead_bytes;   ///< that the second-level cache is asked for while the ring is full
  int listed;             ///< entries of the list
  unsigned without;       ///< 0, or kDescriptorsAhead and others

  // Words that threads meet at.
  Counter* events;    ///< by event, kCounterStride apart
  Counter* step;      ///< epoch that may run, times 2; plus 1: it was the last and has ended
  Counter* abort;     ///< 0, or 1 + the number of the report of who saw it first
  Counter* started;   ///< [0] workers and schedulers that have started; [1] 1: all, 2: too late
  Counter* reports;   ///< kReportWords by worker and role, then by scheduler
  TaggedWord* queue;  ///< by worker, queue_capacity (a power of two) each: task, epoch; tag: place in the queue, from 1
  unsigned queue_capacity;
  Counter* appended;   ///< by worker, kCounterStride apart; to its queue
  Counter* taken;      ///< the same; from its queue
  unsigned* launched;  ///< by launch: the last epoch in which it happened

  // Between tokens.
  const Counter* stop_requested;  ///< by the host, where not 0
  Counter* steps_done;            ///< the last epoch whose tokens the host may read
  int* tokens;                    ///< tokens_per_step for each of the epochs [first_epoch, last_epoch]
  int tokens_per_step;
  unsigned first_epoch;
  unsigned last_epoch;

  unsigned long long limit;        ///< ns that a wait may last within a step: more than a step takes
  unsigned long long start_limit;  ///< ns that workers wait for each other at the start
  ProfileRecord* profile;          ///< by worker and role (load, compute), profile_capacity each; or null
  unsigned* profiled;              ///< how many there were, kept or not
  unsigned profile_capacity;
};

/// The cache of a sequence has so many positions before the step of this epoch.
template <class Platform>
STRATA_DEVICE int position_of(const Program<Platform>& program, int sequence, unsigned epoch) {
  return program.lengths[sequence] + static_cast<int>(epoch - program.first_epoch);
}

/// Of the loader: what a stage has and takes.
struct StageRecord {
  unsigned bytes;
  unsigned taken;  ///< of the ring, with what it left free at the end where it begins at 0
};

/// What WorkerMemory::running says of a role in no block function, and at its end.
constexpr unsigned kBetweenTasks = 0;
constexpr unsigned kHasLeft = ~0u;

/// A worker's shared memory.
template <class Platform>
struct WorkerMemory {
  using Barrier = typename Platform::Barrier;
  using Counter = typename Platform::Counter;

  Barrier* full;      ///< ring_stages: bytes have landed; 1 arrival
  Barrier* empty;     ///< ring_stages: compute is done with it; kReleasingLanes arrivals of each of its warps
  Barrier* listed;    ///< by entry of the list: control has written it; 1 arrival
  Barrier* unlisted;  ///< by entry: load and compute are done with it; 2 arrivals
  Descriptor* list;
  Counter* loaded;      ///< tasks whose loads are all issued
  Counter* ended;       ///< 0; or 1 + the tasks that control has listed: there will be no more
  Counter* running;     ///< [0] load, [1] compute: 1 + the entry of the task whose block function it is in
  StageRecord* stages;  ///< ring_stages, of the loader alone
  unsigned char* ring;
  unsigned char* scratch;  ///< of compute alone, of one task after the other
};

/// One thread calls it, once a kernel, before any role begins. `consumers`: warps of compute.
template <class Platform>
STRATA_DEVICE void start_memory(Platform& platform, const Program<Platform>& program,
                                const WorkerMemory<Platform>& memory, unsigned consumers) {
  for (unsigned stage = 0; stage < program.ring_stages; ++stage) {
    platform.start(memory.full[stage], 1);
    platform.start(memory.empty[stage], consumers * Platform::kReleasingLanes);
  }
  for (int entry = 0; entry < program.listed; ++entry) {
    platform.start(memory.listed[entry], 1);
    platform.start(memory.unlisted[entry], 2);
  }
  platform.post(*memory.loaded, 0);
  platform.post(*memory.ended, 0);
  platform.post(memory.running[0], kBetweenTasks);
  platform.post(memory.running[1], kBetweenTasks);
}

}  // namespace strata::megakernel
