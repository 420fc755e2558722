// The roles of a worker: control makes a list of tasks; load and compute follow it, each at its own pace. Each function
// is called by the threads of its role and returns when the kernel ends. Functions is the target's table of block
// functions: load(descriptor, LoadSide&) and compute(descriptor, ComputeSide&), which call what
// descriptor.record.function names.
//
// Control alone decides when its worker's roles leave between two tasks, and says so by the number of tasks that it has
// listed. So all warps of compute come to the same end of the list, though they do not meet there; inside a task their
// waits end at the abort word, and they meet at its end.
#pragma once

#include "megakernel/runtime/core/control.h"

namespace strata::megakernel {

/// By one thread.
template <bool kProfile, class Platform>
STRATA_DEVICE void run_control(Platform& platform, const Program<Platform>& program,
                               const WorkerMemory<Platform>& memory, int worker) {
  Context<Platform> c{platform, program, Role::Control, worker};
  Control<kProfile, Platform>(c, memory).run();
}

/// Until control has listed the next task, and takes it into the context; false: it has left, and there is none. It has
/// no limit: control's own waits have one.
template <Scope kScope, class Platform>
STRATA_DEVICE bool next_task(Context<Platform>& c, const WorkerMemory<Platform>& memory, const Cursor& at) {
  while (!passed<kScope>(c.platform, memory.listed[at.place], at.round)) {
    // Written after the last task was listed.
    if (true_for_one<kScope>(c.platform, c.platform.peek(*memory.ended) == at.count + 1)) {
      c.task = -1;
      return false;
    }
    c.platform.pause();
  }
  c.task = memory.list[at.place].record.task;
  c.epoch = memory.list[at.place].epoch;
  return true;
}

/// At the end of load and compute, by the leader.
template <class Platform>
STRATA_DEVICE void end_worker_role(Context<Platform>& c, const WorkerMemory<Platform>& memory, const Cursor& at) {
  end_role(c, {c.task < 0 ? Activity::Listed : Activity::Running, at.place, 0, 0});
  c.platform.post(memory.running[static_cast<int>(c.role) - 1], kHasLeft);
}

/// By one thread: starts the bulk copies of one task after the other, ahead of everything, bounded by the ring and the
/// window. The next task's loads begin when this one's are all issued.
template <bool kProfile, class Platform, class Functions>
STRATA_DEVICE void run_load(Platform& platform, const Program<Platform>& program, const WorkerMemory<Platform>& memory,
                            int worker, Functions& functions) {
  Context<Platform> c{platform, program, Role::Load, worker};
  LoadSide<Platform> side(c, memory);
  Cursor at;
  for (; next_task<Scope::Thread>(c, memory, at); at.advance(program.listed)) {
    Descriptor& entry = memory.list[at.place];
    // Where it leaves this wait, it still says below what it has filled: nothing.
    if ((program.without & kConstantsAhead) != 0)
      wait_for_inputs(c, false, entry.record.waits, entry.record.wait_count, c.epoch);
    note_begin<kProfile>(c, entry);
    side.begin_task();
    if (entry.record.function >= 0) {
      platform.post(memory.running[0], static_cast<unsigned>(at.place) + 1);
      functions.load(static_cast<const Descriptor&>(entry), side);
      platform.post(memory.running[0], kBetweenTasks);
    }
    side.end_task(entry);
    if (c.left != Verdict::Ready) break;
    note_end<kProfile>(c, entry);
    platform.post(*memory.loaded, at.count + 1);
    platform.arrive(memory.unlisted[at.place], 1);
  }
  side.drain();
  end_worker_role(c, memory, at);
}

/// By a team: waits for events, computes, stores, signals. A task that waits for no counter meets nobody before its
/// function begins.
template <bool kProfile, class Platform, class Functions>
STRATA_DEVICE void run_compute(Platform& platform, const Program<Platform>& program,
                               const WorkerMemory<Platform>& memory, int worker, Functions& functions) {
  Context<Platform> c{platform, program, Role::Compute, worker};
  ComputeSide<Platform> side(c, memory);
  unsigned step = program.first_epoch - 1;  // the one that this worker has seen begin
  Cursor at;
  for (; next_task<Scope::Warp>(c, memory, at); at.advance(program.listed)) {
    Descriptor& entry = memory.list[at.place];
    const TaskRecord& record = entry.record;
    const bool first = step != c.epoch;
    step = c.epoch;
    if (first || record.wait_count > 0) {
      if (platform.leads()) wait_for_inputs(c, first, record.waits, record.wait_count, c.epoch);
      if (platform.any(c.left != Verdict::Ready)) break;
    }
    if (platform.leads()) note_begin<kProfile>(c, entry);
    side.begin_task();
    if (record.function >= 0) {
      if (platform.leads()) platform.post(memory.running[1], static_cast<unsigned>(at.place) + 1);
      functions.compute(static_cast<const Descriptor&>(entry), side);
    }
    const auto flags = static_cast<unsigned>(record.flags);
    if ((flags & kStoresForCopies) != 0) platform.release_for_copies();
    // All have stored. After an abort nothing is signalled: what was computed may mean nothing.
    if (platform.any(c.left != Verdict::Ready)) break;
    if (platform.leads()) {
      if (record.signal >= 0) platform.add_release(counter_of(program, record.signal), 1);
      note_end<kProfile>(c, entry);
      side.end_task(entry);
      platform.post(memory.running[1], kBetweenTasks);
      platform.arrive(memory.unlisted[at.place], 1);  // nobody reads the entry from here on
      if ((flags & kEndsStep) != 0) end_step(c, c.epoch, side.finished());
    }
  }
  if (platform.leads()) end_worker_role(c, memory, at);
}

}  // namespace strata::megakernel
