// The roles of a worker: control makes a list of tasks; load, gather and compute follow it, each at its own pace. Each
// function is called by the threads of its role and returns when the kernel ends. Functions is the target's table of
// block functions: load(record, LoadSide&), gather(record, GatherSide&) and compute(record, ComputeSide&), which call
// what record.function names.
#pragma once

#include "megakernel/runtime/core/control.h"
#include "megakernel/runtime/core/profile.h"

namespace strata::megakernel {

/// By one thread.
template <class Platform>
STRATA_DEVICE void run_control(Platform& platform, const Program<Platform>& program,
                               const WorkerMemory<Platform>& memory, int worker) {
  Context<Platform> c{platform, program, Role::Control, worker};
  Control<Platform>(c, memory).run();
}

/// By one thread: starts the bulk copies of one task after the other, ahead of everything, bounded by the ring and the
/// window. The next task's loads begin when this one's are all issued.
template <bool kProfile, class Platform, class Functions>
STRATA_DEVICE void run_load(Platform& platform, const Program<Platform>& program, const WorkerMemory<Platform>& memory,
                            int worker, Functions& functions) {
  Context<Platform> c{platform, program, Role::Load, worker};
  LoadSide<Platform> side(c, memory);
  Profile<kProfile, Platform> profile(c);
  unsigned loaded = 0;
  for (Cursor at;; at.advance(program.listed)) {
    if (wait_for_phase(c, Activity::Listed, at.place, memory.listed[at.place], at.round) != Verdict::Ready) break;
    Descriptor& entry = memory.list[at.place];
    c.task = entry.record.task;
    c.epoch = entry.epoch;
    report_running(c);
    profile.begin();
    if (entry.record.function >= 0) functions.load(entry.record, side);
    if (c.left != Verdict::Ready) break;
    profile.end();
    entry.filled = side.filled();
    platform.post(*memory.loaded, ++loaded);
    platform.arrive(memory.unlisted[at.place]);
  }
  side.drain();
  report_left(c);
}

/// By a team: waits until a task's activations can be read, and brings them to pages.
template <bool kProfile, class Platform, class Functions>
STRATA_DEVICE void run_gather(Platform& platform, const Program<Platform>& program,
                              const WorkerMemory<Platform>& memory, int worker, Functions& functions) {
  Context<Platform> c{platform, program, Role::Gather, worker};
  GatherSide<Platform> side(c, memory);
  Profile<kProfile, Platform> profile(c);
  unsigned running = program.first_epoch - 1;  // the step that this worker has seen begin
  unsigned position = 0;                       // of the task among the worker's
  for (Cursor at;; at.advance(program.listed), ++position) {
    const Descriptor& entry = memory.list[at.place];
    if (platform.leads()) wait_for_phase(c, Activity::Listed, at.place, memory.listed[at.place], at.round);
    if (platform.any(c.left != Verdict::Ready)) break;
    const TaskRecord& record = entry.record;
    c.task = record.task;
    c.epoch = entry.epoch;
    if (platform.leads()) {
      if (running != c.epoch) wait_for_step(c, c.epoch);
      running = c.epoch;
      wait_for_events(c, record.waits, record.wait_count, c.epoch);
      if ((record.flags & kWaitsInOrder) != 0) {
        Waited waited{Activity::InOrder, -1, 0, position};
        spin(c, waited, [&] {
          waited.have = platform.peek(*memory.completed);
          return reached(waited.have, position);
        });
      }
    }
    side.take_pages(record.pages);
    if (platform.any(c.left != Verdict::Ready)) break;
    if (platform.leads()) {
      report_running(c);
      profile.begin();
    }
    if (record.function >= 0) functions.gather(record, side);
    if (platform.any(c.left != Verdict::Ready)) break;
    if (platform.leads()) {
      profile.end();
      platform.arrive(memory.gathered[at.place]);
      platform.arrive(memory.unlisted[at.place]);
    }
  }
  if (platform.leads()) report_left(c);
}

/// By a team: computes, stores, signals.
template <bool kProfile, class Platform, class Functions>
STRATA_DEVICE void run_compute(Platform& platform, const Program<Platform>& program,
                               const WorkerMemory<Platform>& memory, int worker, Functions& functions) {
  Context<Platform> c{platform, program, Role::Compute, worker};
  ComputeSide<Platform> side(c, memory);
  Profile<kProfile, Platform> profile(c);
  unsigned completed = 0;
  for (Cursor at;; at.advance(program.listed)) {
    Descriptor& entry = memory.list[at.place];
    if (platform.leads()) wait_for_phase(c, Activity::Gathered, at.place, memory.gathered[at.place], at.round);
    if (platform.any(c.left != Verdict::Ready)) break;
    const TaskRecord& record = entry.record;
    c.task = record.task;
    c.epoch = entry.epoch;
    if (platform.leads()) {
      report_running(c);
      profile.begin();
    }
    side.begin_pages();
    if (record.function >= 0) functions.compute(record, side);
    side.give_pages(record.pages);
    // All have stored. After an abort nothing is signalled: what was computed may mean nothing.
    if (platform.any(c.left != Verdict::Ready)) break;
    const unsigned used = side.used();
    if (platform.leads()) {
      profile.end();
      if (record.signal >= 0) platform.add_release(counter_of(program, record.signal), 1);
      platform.post(*memory.completed, ++completed);
      entry.used = used;
      const bool ends_step = (record.flags & kEndsStep) != 0;
      platform.arrive(memory.unlisted[at.place]);  // nobody reads the entry from here on
      if (ends_step) end_step(c, c.epoch, side.finished());
    }
  }
  if (platform.leads()) report_left(c);
}

}  // namespace strata::megakernel
