// What the runtime of a mega-kernel executes, as it lies in device memory: a plan's tasks as records that are copied to
// shared memory as they are, queues, what schedulers watch, and the words that threads meet at. runtime/image.h makes
// it.
#pragma once

#include "megakernel/runtime/core/base.h"

namespace strata::megakernel {

constexpr int kMostWaits = 4;
constexpr unsigned kWaitsInOrder = 1;     ///< what the worker's tasks before this one left in its shared memory
constexpr unsigned kAfterJustInTime = 2;  ///< may be listed only when its events are active
constexpr unsigned kEndsStep = 4;         ///< all others of the step come before it

/// 64 bytes. Waits and signal name events with a counter alone; −1: none.
struct TaskRecord {
  long long coordinates[3];
  int task;
  int function;  ///< −1: an empty task
  int op;
  int waits[kMostWaits];  ///< the first wait_count
  short wait_count;
  short flags;
  int signal;
  int pages;  ///< that its activations take, from gather to the end of compute
};
static_assert(sizeof(TaskRecord) == 64, "records are copied word by word");

/// A task in a worker's list, in shared memory.
struct Descriptor {
  TaskRecord record;
  unsigned epoch;
  unsigned filled;  ///< slots that load filled
  unsigned used;    ///< slots that compute used
  unsigned unused;
};

/// Tasks just in time that wait for the same events.
struct LaunchRecord {
  int waits[kMostWaits];
  int wait_count;
  int first;  ///< of Program::launch_tasks
  int end;
};

/// To which worker a scheduler gives a task.
enum class Placement : unsigned { RoundRobin, LeastLoaded };

/// Begin and end of a task in one role, in nanoseconds.
struct ProfileRecord {
  int task;
  unsigned epoch;
  unsigned long long begin;
  unsigned long long end;
};

/// Words of a report on what one role waits for: Activity, task, epoch, object, have, want.
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
  const int* triggers;     ///< by event
  const int* queue_first;  ///< by worker, and one more: of queue_tasks
  const int* queue_tasks;
  const LaunchRecord* launches;  ///< of each scheduler in the order of their tasks
  const int* launch_first;       ///< by scheduler, and one more: of launches
  const int* launch_tasks;
  Placement placement;

  // The worker's shared memory.
  int slots;
  unsigned slot_bytes;
  unsigned window_bytes;  ///< of bulk copies in flight; a larger copy is in flight alone
  int pages;
  unsigned page_bytes;
  int listed;  ///< entries of the list

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

  unsigned long long limit;        ///< ns that a wait may last: more than a step takes, and than start_limit
  unsigned long long start_limit;  ///< ns that workers wait for each other at the start
  ProfileRecord* profile;          ///< by worker and role (load, gather, compute), profile_capacity each; or null
  unsigned* profiled;              ///< how many there were, kept or not
  unsigned profile_capacity;
};

/// A worker's shared memory.
template <class Platform>
struct WorkerMemory {
  using Barrier = typename Platform::Barrier;
  using Counter = typename Platform::Counter;

  Barrier* full;        ///< by slot: bytes have landed; 1 arrival
  Barrier* empty;       ///< by slot: compute is done with it; an arrival of each warp of compute
  Barrier* page_empty;  ///< by page; 1 arrival
  Barrier* listed;      ///< by entry of the list: control has written it; 1 arrival
  Barrier* gathered;    ///< by entry: its activations are in pages; 1 arrival
  Barrier* unlisted;    ///< by entry: load, gather and compute are done with it; 3 arrivals
  Descriptor* list;
  Counter* loaded;      ///< tasks whose loads are all issued
  Counter* completed;   ///< tasks that compute has ended
  unsigned* in_flight;  ///< by slot, of the loader alone: bytes of its last copy
  unsigned char* slots;
  unsigned char* pages;
  unsigned char* scratch;
};

/// One thread calls it, once a kernel, before any role begins. `consumers`: warps of compute.
template <class Platform>
STRATA_DEVICE void start_memory(Platform& platform, const Program<Platform>& program,
                                const WorkerMemory<Platform>& memory, unsigned consumers) {
  for (int slot = 0; slot < program.slots; ++slot) {
    platform.start(memory.full[slot], 1);
    platform.start(memory.empty[slot], consumers);
  }
  for (int page = 0; page < program.pages; ++page) platform.start(memory.page_empty[page], 1);
  for (int entry = 0; entry < program.listed; ++entry) {
    platform.start(memory.listed[entry], 1);
    platform.start(memory.gathered[entry], 1);
    platform.start(memory.unlisted[entry], 3);
  }
  platform.post(*memory.loaded, 0);
  platform.post(*memory.completed, 0);
}

}  // namespace strata::megakernel
