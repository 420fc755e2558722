// A scheduler: a thread that watches the events of its share of the tasks just in time, and gives each task to a worker
// when its events are active. Each worker has a queue of a fixed size in device memory that all schedulers append to: a
// ticket is a place in it, and a scheduler waits until the worker has taken what was there before.
#pragma once

#include "megakernel/runtime/core/events.h"

namespace strata::megakernel {

/// Launches that a scheduler looks at in turn. They are in the order of their tasks, so the first one never waits for a
/// later one, and any number is safe.
constexpr int kWatched = 64;

template <class Platform>
class Scheduler {
 public:
  STRATA_DEVICE explicit Scheduler(Context<Platform>& c) : c_(c), worker_(c.index % c.program.workers) {}

  STRATA_DEVICE void run() {
    if (start_together(c_) != Verdict::Ready) return;
    for (unsigned epoch = c_.program.first_epoch; run_step(epoch) == Verdict::Ready; ++epoch) {
    }
    end_role(c_, {Activity::Left, -1, 0, 0});
  }

 private:
  STRATA_DEVICE Verdict run_step(unsigned epoch) {
    const Program<Platform>& program = c_.program;
    c_.epoch = epoch;
    c_.task = -1;
    if (wait_for_step(c_, epoch) != Verdict::Ready) return c_.left;
    const int end = program.launch_first[c_.index + 1];
    for (int head = program.launch_first[c_.index]; head < end;) {
      const int ready = wait_for_launch(head, end, epoch);
      if (ready < 0) return c_.left;
      const LaunchRecord& launch = program.launches[ready];
      for (int i = launch.first; i < launch.end; ++i) {
        c_.task = program.launch_tasks[i];
        if (append(c_.task, epoch) != Verdict::Ready) return c_.left;
      }
      c_.task = -1;
      program.launched[ready] = epoch;
      while (head < end && program.launched[head] == epoch) ++head;
    }
    return Verdict::Ready;
  }

  /// One from `head` on whose events are active; −1: none, the kernel ends.
  STRATA_DEVICE int wait_for_launch(int head, int end, unsigned epoch) {
    const Program<Platform>& program = c_.program;
    Waited waited{Activity::Event, -1, 0, 0};
    int at = head;
    int ready = -1;
    spin(c_, waited, [&] {
      if (program.launched[at] != epoch) {
        Waited inactive{Activity::Event, -1, 0, 0};
        if (active(c_, program.launches[at].waits, program.launches[at].wait_count, epoch, inactive)) ready = at;
        if (at == head) waited = inactive;  // what the report names
      }
      if (++at == end || at == head + kWatched) at = head;
      return ready >= 0;
    });
    return ready;
  }

  STRATA_DEVICE Verdict append(int task, unsigned epoch) {
    const Program<Platform>& program = c_.program;
    const int worker = choose();
    auto& taken = program.taken[worker * Platform::kCounterStride];
    const unsigned ticket = c_.platform.add(program.appended[worker * Platform::kCounterStride], 1);
    Waited waited{Activity::Queue, worker, 0, ticket + 1 - program.queue_capacity};
    const Verdict verdict = spin(c_, waited, [&] {
      waited.have = c_.platform.load(taken);
      return reached(waited.have, waited.want);
    });
    if (verdict != Verdict::Ready) return verdict;
    c_.platform.acquire();
    c_.platform.store_tagged(program.queue[static_cast<unsigned long long>(worker) * program.queue_capacity +
                                           (ticket & (program.queue_capacity - 1))],
                             {{static_cast<unsigned>(task), epoch}, ticket + 1, 0});
    return Verdict::Ready;
  }

  /// The worker for the next task; of those with equally many tasks in their queues, the next one around.
  STRATA_DEVICE int choose() {
    const Program<Platform>& program = c_.program;
    int best = worker_;
    if (program.placement == Placement::LeastLoaded) {
      unsigned least = ~0u;
      for (int i = 0; i < program.workers; ++i) {
        const int worker = (worker_ + i) % program.workers;
        const unsigned waiting = c_.platform.load(program.appended[worker * Platform::kCounterStride]) -
                                 c_.platform.load(program.taken[worker * Platform::kCounterStride]);
        if (waiting < least) {
          least = waiting;
          best = worker;
        }
      }
    }
    worker_ = (best + 1) % program.workers;
    return best;
  }

  Context<Platform>& c_;
  int worker_;
};

/// By one thread for each scheduler.
template <class Platform>
STRATA_DEVICE void run_schedule(Platform& platform, const Program<Platform>& program, int scheduler) {
  Context<Platform> c{platform, program, Role::Schedule, scheduler};
  Scheduler<Platform>(c).run();
}

}  // namespace strata::megakernel
