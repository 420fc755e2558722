// Control: one thread of a worker that makes the list of its tasks, which its other roles follow in order. Tasks just
// in time come first, at the loader's place: what is listed is not overtaken. The next task ahead of time is fetched to
// shared memory before it is known whether it is the next one.
#pragma once

#include "megakernel/runtime/core/ring.h"

namespace strata::megakernel {

template <class Platform>
class Control {
 public:
  STRATA_DEVICE Control(Context<Platform>& c, const WorkerMemory<Platform>& memory) : c_(c), memory_(memory) {}

  STRATA_DEVICE void run() {
    if (start_together(c_) != Verdict::Ready) return;
    for (unsigned epoch = c_.program.first_epoch; run_step(epoch) == Verdict::Ready; ++epoch) {
    }
    report_left(c_);
  }

 private:
  enum class Next { Unknown, JustInTime, AheadOfTime, NextStep };

  STRATA_DEVICE Verdict run_step(unsigned epoch) {
    const Program<Platform>& program = c_.program;
    c_.epoch = epoch;
    c_.task = -1;
    // Loads run into the next step, but not into one that does not come. Where tasks are just in time they do not: one
    // of this step may yet come, and must not wait for a task that waits for the step to end.
    const bool ahead = !program.just_in_time && epoch <= program.last_epoch;
    if (wait_for_step(c_, ahead ? epoch - 1 : epoch) != Verdict::Ready) return c_.left;
    int next = program.queue_first[c_.index];
    const int end = program.queue_first[c_.index + 1];
    for (;;) {
      Descriptor& entry = memory_.list[at_.place];
      if (take_entry(entry) != Verdict::Ready) return c_.left;
      const bool queued = next < end;
      if (queued) entry.record = program.tasks[program.queue_tasks[next]];
      c_.task = queued ? entry.record.task : -1;
      Tagged just_in_time{};
      entry.epoch = epoch;
      switch (choose(entry.record, queued, epoch, just_in_time)) {
        case Next::Unknown:
          return c_.left;
        case Next::NextStep:
          return Verdict::Ready;
        case Next::AheadOfTime:
          ++next;
          break;
        case Next::JustInTime:
          // It may be one of the next step, which has begun without this worker's having seen it.
          entry.record = program.tasks[just_in_time.data[0]];
          entry.epoch = just_in_time.data[1];
          break;
      }
      c_.platform.arrive(memory_.listed[at_.place]);
      at_.advance(program.listed);
      ++listed_;
      taken_entry_ = false;
    }
  }

  /// The next entry of the list, when all roles are done with the task that it held.
  STRATA_DEVICE Verdict take_entry(const Descriptor& entry) {
    if (taken_entry_) return Verdict::Ready;
    if (wait_for_phase(c_, Activity::Unlisted, at_.place, memory_.unlisted[at_.place], at_.round - 1) !=
        Verdict::Ready) {
      return c_.left;
    }
    taken_entry_ = true;
    if (at_.round > 0 && entry.used != entry.filled) {
      c_.task = entry.record.task;
      c_.epoch = entry.epoch;
      raise(c_, {Activity::Slots, at_.place, entry.used, entry.filled});
    }
    return c_.left;
  }

  /// What comes into the list now. `record`: the head of the queue ahead of time, if there is one.
  STRATA_DEVICE Next choose(const TaskRecord& record, bool queued, unsigned epoch, Tagged& just_in_time) {
    Waited waited{Activity::NextTask, -1, 0, 0};
    Next next = Next::Unknown;
    if (!c_.program.just_in_time) return queued ? Next::AheadOfTime : Next::NextStep;
    spin(c_, waited, [&] {
      // Tasks just in time come as late as they can without keeping the loader from its work.
      if (!reached(c_.platform.peek(*memory_.loaded), listed_)) return false;
      if (take_just_in_time(just_in_time)) {
        next = Next::JustInTime;
      } else if (queued) {
        if ((record.flags & kAfterJustInTime) == 0 || active(c_, record.waits, record.wait_count, epoch, waited))
          next = Next::AheadOfTime;
      } else if (reached(c_.platform.load(*c_.program.step) >> 1, epoch + 1)) {
        next = Next::NextStep;
      }
      return next != Next::Unknown;
    });
    return next;
  }

  STRATA_DEVICE bool take_just_in_time(Tagged& word) {
    const Program<Platform>& program = c_.program;
    const unsigned place = taken_ & (program.queue_capacity - 1);
    word = c_.platform.load_tagged(
        program.queue[static_cast<unsigned long long>(c_.index) * program.queue_capacity + place]);
    if (word.tag != taken_ + 1) return false;
    ++taken_;
    c_.platform.store_release(program.taken[c_.index * Platform::kCounterStride], taken_);
    return true;
  }

  Context<Platform>& c_;
  const WorkerMemory<Platform>& memory_;
  Cursor at_;
  bool taken_entry_ = false;
  unsigned listed_ = 0;
  unsigned taken_ = 0;  ///< from the queue just in time
};

}  // namespace strata::megakernel
