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
  bool reported = false;          ///< this thread has written its role's report

  STRATA_DEVICE int report() const {
    return role == Role::Schedule ? program.workers * kWorkerRoles + index
                                  : index * kWorkerRoles + static_cast<int>(role);
  }
  /// Value of the abort word where this role is the cause.
  STRATA_DEVICE unsigned own_cause() const { return static_cast<unsigned>(report()) + 1; }
  /// Whether this thread speaks for those that wait with it: compute is a team of warps, other roles are one thread.
  STRATA_DEVICE bool speaks() const { return role != Role::Compute || platform.leads_warp(); }
};

/// What a wait is for: have and want are counts of some kind.
struct Waited {
  Activity activity;
  int object;
  unsigned have;
  unsigned want;
};

/// One thread of a role writes its report: the one that set the abort word or, where another role is the cause, the
/// first that leaves a wait.
template <class Platform>
STRATA_DEVICE void write_report(Context<Platform>& c, const Waited& waited) {
  auto* const words = c.program.reports + c.report() * kReportWords;
  c.platform.store(words[1], static_cast<unsigned>(c.task));
  c.platform.store(words[2], c.epoch);
  c.platform.store(words[3], static_cast<unsigned>(waited.object));
  c.platform.store(words[4], waited.have);
  c.platform.store(words[5], waited.want);
  c.platform.store_release(words[0], static_cast<unsigned>(waited.activity));
  c.reported = true;
}

/// This thread has seen the abort word, whose value is `cause`.
template <class Platform>
STRATA_DEVICE void leave(Context<Platform>& c, const Waited& waited, unsigned cause) {
  c.left = Verdict::Abort;
  if (c.reported || cause == c.own_cause() || !c.speaks()) return;
  // The state of a report that nobody has begun.
  auto& state = c.program.reports[c.report() * kReportWords];
  const auto none = static_cast<unsigned>(Activity::None), running = static_cast<unsigned>(Activity::Running);
  if (c.platform.compare_exchange(state, none, running) == none) write_report(c, waited);
}

/// Ends the kernel: this thread's report is its cause, unless another thread was first.
template <class Platform>
STRATA_DEVICE void raise(Context<Platform>& c, const Waited& waited) {
  const unsigned before = c.platform.compare_exchange(*c.program.abort, 0, c.own_cause());
  if (before != 0) return leave(c, waited, before);
  c.left = Verdict::Abort;
  write_report(c, waited);
}

/// The leader calls it at the end of its role. `last`: what it did, for the report after an abort.
template <class Platform>
STRATA_DEVICE void end_role(Context<Platform>& c, const Waited& last) {
  const unsigned cause = c.platform.load(*c.program.abort);
  if (cause != 0) return leave(c, last, cause);
  c.platform.store_release(c.program.reports[c.report() * kReportWords], static_cast<unsigned>(Activity::Left));
}

/// How long a wait has lasted. A step that ends is progress, and the time counts from there.
struct Watch {
  unsigned long long began = 0;  ///< 0: at the first look
  unsigned step = 0;
};

/// The slow part of a poll: abort, stop, clock.
template <class Platform>
STRATA_DEVICE void check(Context<Platform>& c, const Waited& waited, Watch& watch) {
  const unsigned cause = c.platform.load(*c.program.abort);
  if (cause != 0) return leave(c, waited, cause);
  const unsigned step = c.platform.load(*c.program.step);
  // All tasks of the last step have ended, so what is still waited for never comes.
  if ((step & 1u) != 0) {
    c.left = Verdict::Stop;
    return;
  }
  const unsigned long long now = c.platform.clock();
  if (watch.began == 0 || watch.step != step) {
    watch = {now, step};
  } else if (now - watch.began > c.program.limit) {
    raise(c, waited);
  }
}

/// What a look leaves in the context and in the wait.
struct Looked {
  Verdict left;
  bool reported;
  Watch watch;
};

/// check() for a context in parts.
template <class Platform>
STRATA_COLD Looked look(typename Platform::Handle handle, const Program<Platform>& program, Role role, int index,
                        int task, unsigned epoch, bool reported, const Waited waited, const Watch before) {
  auto&& platform = handle;
  Context<Platform> c{platform, program, role, index, task, epoch, Verdict::Ready, reported};
  Watch watch = before;
  check(c, waited, watch);
  return {c.left, c.reported, watch};
}

/// raise() for a context in parts.
template <class Platform>
STRATA_COLD Looked raise_apart(typename Platform::Handle handle, const Program<Platform>& program, Role role, int index,
                               int task, unsigned epoch, bool reported, const Waited waited) {
  auto&& platform = handle;
  Context<Platform> c{platform, program, role, index, task, epoch, Verdict::Ready, reported};
  raise(c, waited);
  return {c.left, c.reported, {}};
}

/// Who waits: one thread, or the lanes of a warp together. Of a warp all lanes come with the same Context::left and go
/// with the same, so they never part.
enum class Scope { Thread, Warp };

template <Scope kScope, class Platform>
STRATA_DEVICE bool true_for_one(Platform& platform, bool condition) {
  if constexpr (kScope == Scope::Warp) return platform.first_lane(condition) >= 0;
  return condition;
}

/// Until poll() is true; it may write `waited`, for the report. With Scope::Warp it is called by all lanes, and has one
/// answer for all.
template <Scope kScope = Scope::Thread, class Platform, class Poll>
STRATA_DEVICE Verdict spin(Context<Platform>& c, Waited& waited, Poll poll) {
  if (c.left != Verdict::Ready) return c.left;
  Watch watch;
  for (unsigned polls = 1; !poll(); ++polls) {
    if (polls % Platform::kCheckInterval == 0) {
      if (kScope == Scope::Thread || c.platform.leads_warp()) {
        const Looked looked =
            look<Platform>(c.platform.handle(), c.program, c.role, c.index, c.task, c.epoch, c.reported, waited, watch);
        c.left = looked.left;
        c.reported = looked.reported;
        watch = looked.watch;
      }
      if constexpr (kScope == Scope::Warp)
        c.left = static_cast<Verdict>(c.platform.share(static_cast<unsigned>(c.left), 0));
      if (c.left != Verdict::Ready) return c.left;
    }
    c.platform.pause();
  }
  return Verdict::Ready;
}

template <Scope kScope, class Platform>
STRATA_DEVICE bool passed(Platform& platform, typename Platform::Barrier& barrier, unsigned phase) {
  if constexpr (kScope == Scope::Warp) return platform.passed_together(barrier, phase);
  return platform.passed(barrier, phase);
}

/// wait_for_phase() for a context in parts, where the first look was too early.
template <Scope kScope, class Platform>
STRATA_COLD Looked wait_for_phase_apart(typename Platform::Handle handle, const Program<Platform>& program, Role role,
                                        int index, int task, unsigned epoch, bool reported, const Waited wait,
                                        typename Platform::Barrier* barrier) {
  auto&& platform = handle;
  Context<Platform> c{platform, program, role, index, task, epoch, Verdict::Ready, reported};
  Waited waited = wait;
  spin<kScope>(c, waited, [&] { return passed<kScope>(c.platform, *barrier, waited.have); });
  return {c.left, c.reported, {}};
}

/// Until the phase of a barrier is over. `object` says in reports which barrier it is. The spin is a call: each place
/// that waits would have its code, and what a task executes once must come to the instruction cache each time.
template <Scope kScope = Scope::Thread, class Platform>
STRATA_DEVICE Verdict wait_for_phase(Context<Platform>& c, Activity activity, int object,
                                     typename Platform::Barrier& barrier, unsigned phase) {
  if (c.left != Verdict::Ready || passed<kScope>(c.platform, barrier, phase)) return c.left;
  const Looked looked =
      wait_for_phase_apart<kScope, Platform>(c.platform.handle(), c.program, c.role, c.index, c.task, c.epoch,
                                             c.reported, {activity, object, phase, phase + 1}, &barrier);
  c.left = looked.left;
  c.reported = looked.reported;
  return c.left;
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
  platform.acquire();
  if (platform.load(decision) != 1) raise(c, {Activity::Start, -1, platform.load(counted), all});
  return c.left;
}

}  // namespace strata::megakernel
