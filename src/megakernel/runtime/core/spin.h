// Waiting: every wait of the runtime is a spin that looks at abort word, stop and clock now and then. One that lasts
// longer than its limit says who waited for what, and ends the kernel.
#pragma once

#include "megakernel/runtime/core/program.h"

namespace strata::megakernel {

/// A thread in its role.
template <class Platform>
struct Context {
  Platform& platform;
  const Program<Platform>& program;
  Role role;
  int index;  ///< of the worker, or of the scheduler
  int task = -1;
  unsigned epoch = 0;
  Verdict left = Verdict::Ready;  ///< why it leaves its role; all waits return it at once from then on

  STRATA_DEVICE int report() const {
    return role == Role::Schedule ? program.workers * kWorkerRoles + index
                                  : index * kWorkerRoles + static_cast<int>(role);
  }
};

/// What a wait is for: have and want are counts of some kind.
struct Waited {
  Activity activity;
  int object;
  unsigned have;
  unsigned want;
};

template <class Platform>
STRATA_DEVICE void write_report(const Context<Platform>& c, const Waited& waited) {
  auto* const words = c.program.reports + c.report() * kReportWords;
  c.platform.store(words[1], static_cast<unsigned>(c.task));
  c.platform.store(words[2], c.epoch);
  c.platform.store(words[3], static_cast<unsigned>(waited.object));
  c.platform.store(words[4], waited.have);
  c.platform.store(words[5], waited.want);
  c.platform.store_release(words[0], static_cast<unsigned>(waited.activity));
}

/// Before a block function, which may never return.
template <class Platform>
STRATA_DEVICE void report_running(const Context<Platform>& c) {
  auto* const words = c.program.reports + c.report() * kReportWords;
  c.platform.store(words[1], static_cast<unsigned>(c.task));
  c.platform.store(words[2], c.epoch);
  c.platform.store_release(words[0], static_cast<unsigned>(Activity::Running));
}

/// At the end of a role that waits for nothing any more; after an abort, the report on the wait stays.
template <class Platform>
STRATA_DEVICE void report_left(const Context<Platform>& c) {
  if (c.left == Verdict::Abort) return;
  c.platform.store_release(c.program.reports[c.report() * kReportWords], static_cast<unsigned>(Activity::Left));
}

/// Ends the kernel: this role's report is its cause, unless another one was first.
template <class Platform>
STRATA_DEVICE void raise(Context<Platform>& c, const Waited& waited) {
  write_report(c, waited);
  c.platform.compare_exchange(*c.program.abort, 0, static_cast<unsigned>(c.report()) + 1);
  c.left = Verdict::Abort;
}

/// The slow part of a poll: abort, stop, clock. `began` is 0 at the first one.
template <class Platform>
STRATA_DEVICE void check(Context<Platform>& c, const Waited& waited, unsigned long long& began) {
  if (c.platform.load(*c.program.abort) != 0) {
    write_report(c, waited);
    c.left = Verdict::Abort;
    return;
  }
  // All tasks of the last step have ended, so what is still waited for never comes.
  if ((c.platform.load(*c.program.step) & 1u) != 0) {
    c.left = Verdict::Stop;
    return;
  }
  const unsigned long long now = c.platform.clock();
  if (began == 0) {
    began = now;
  } else if (now - began > c.program.limit) {
    raise(c, waited);
  }
}

/// Until poll() is true; it may write `waited`, for the report.
template <class Platform, class Poll>
STRATA_DEVICE Verdict spin(Context<Platform>& c, Waited& waited, Poll poll) {
  if (c.left != Verdict::Ready) return c.left;
  unsigned long long began = 0;
  for (unsigned polls = 1; !poll(); ++polls) {
    if (polls % Platform::kCheckInterval == 0) check(c, waited, began);
    if (c.left != Verdict::Ready) return c.left;
    c.platform.pause();
  }
  return Verdict::Ready;
}

/// Until the phase of a barrier is over. `object` says in reports which barrier it is.
template <class Platform>
STRATA_DEVICE Verdict wait_for_phase(Context<Platform>& c, Activity activity, int object,
                                     typename Platform::Barrier& barrier, unsigned phase) {
  Waited waited{activity, object, phase, phase + 1};
  return spin(c, waited, [&] { return c.platform.passed(barrier, phase); });
}

/// The start of a launch: all workers and schedulers count themselves, and go on when all are there. Where one is not
/// within start_limit, all that are there end, before anything but these words was written. One decision for all: a
/// worker that comes late finds it made.
template <class Platform>
STRATA_DEVICE Verdict start_together(Context<Platform>& c) {
  Platform& platform = c.platform;
  const auto all = static_cast<unsigned>(c.program.workers + c.program.schedulers);
  auto& counted = c.program.started[0];
  auto& decision = c.program.started[1];
  if (platform.add(counted, 1) + 1 == all) platform.compare_exchange(decision, 0, 1);
  const unsigned long long began = platform.clock();
  for (unsigned polls = 1; platform.load(decision) == 0; ++polls) {
    if (polls % Platform::kCheckInterval == 0 && platform.clock() - began > c.program.start_limit)
      platform.compare_exchange(decision, 0, 2);
    platform.pause();
  }
  platform.acquire(decision);
  if (platform.load(decision) != 1) raise(c, {Activity::Start, -1, platform.load(counted), all});
  return c.left;
}

}  // namespace strata::megakernel
