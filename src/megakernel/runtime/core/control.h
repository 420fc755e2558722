// Control: one thread of a worker that makes the list of its tasks, which load and compute follow in order. Tasks just
// in time come first, at the loader's place: what is listed is not overtaken. The next task ahead of time is fetched to
// shared memory before it is known whether it is the next one. Control also decides when its worker's roles leave, and
// compares what load and compute did.
#pragma once

#include "megakernel/runtime/core/profile.h"
#include "megakernel/runtime/core/ring.h"

namespace strata::megakernel {

template <bool kProfile, class Platform>
class Control {
 public:
  STRATA_DEVICE Control(Context<Platform>& c, const WorkerMemory<Platform>& memory)
      : c_(c), memory_(memory), profile_(c) {}

  STRATA_DEVICE void run() {
    if (start_together(c_) == Verdict::Ready) {
      for (unsigned epoch = c_.program.first_epoch; run_step(epoch) == Verdict::Ready; ++epoch) {
      }
    }
    c_.platform.post(*memory_.ended, at_.count + 1);
    if (c_.left == Verdict::Stop) compare_rest();
    end_role(c_, {Activity::Left, -1, 0, 0});
    if (c_.left == Verdict::Abort) report_running();
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
    if ((c_.platform.load(*program.step) & 1u) != 0) return c_.left = Verdict::Stop;
    int next = program.queue_first[c_.index];
    const int end = program.queue_first[c_.index + 1];
    if (!program.just_in_time) return list_queue(next, end, epoch);
    for (;;) {
      Descriptor& entry = memory_.list[at_.place];
      if (take_entry(entry) != Verdict::Ready) return c_.left;
      const bool queued = next < end;
      if (queued) fetch(entry, program.queue_tasks[next]);
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
          fetch(entry, static_cast<int>(just_in_time.data[0]));
          entry.epoch = just_in_time.data[1];
          break;
      }
      c_.platform.arrive(memory_.listed[at_.place], 1);
      at_.advance(program.listed);
      taken_entry_ = false;
    }
  }

  /// Where all tasks are ahead of time, bulk copies fill the list: control would wait for device memory three times a
  /// task, longer than small tasks take.
  STRATA_DEVICE Verdict list_queue(int next, int end, unsigned epoch) {
    for (; next < end; ++next) {
      Descriptor& entry = memory_.list[at_.place];
      if (take_entry(entry) != Verdict::Ready) return c_.left;
      if ((c_.program.without & kDescriptorsAhead) != 0 && wait_for_loads() != Verdict::Ready) return c_.left;
      entry.epoch = epoch;
      c_.platform.arrive_and_expect(memory_.listed[at_.place], sizeof(QueuedTask));
      c_.platform.copy(static_cast<QueuedTask*>(&entry), c_.program.queued + next, sizeof(QueuedTask),
                       memory_.listed[at_.place]);
      at_.advance(c_.program.listed);
      taken_entry_ = false;
    }
    return Verdict::Ready;
  }

  /// Until the loads of all tasks that are listed have been issued.
  STRATA_DEVICE Verdict wait_for_loads() {
    Waited waited{Activity::NextTask, -1, 0, 0};
    return spin(c_, waited, [&] { return reached(c_.platform.peek(*memory_.loaded), at_.count); });
  }

  /// The next entry of the list, when all roles are done with the task that it held.
  STRATA_DEVICE Verdict take_entry(const Descriptor& entry) {
    if (taken_entry_) return Verdict::Ready;
    if (wait_for_phase(c_, Activity::Unlisted, at_.place, memory_.unlisted[at_.place], at_.round - 1) !=
        Verdict::Ready) {
      return c_.left;
    }
    taken_entry_ = true;
    if (at_.round > 0) finish(entry);
    return c_.left;
  }

  STRATA_DEVICE void fetch(Descriptor& entry, int task) {
    entry.record = c_.program.tasks[task];
    if (entry.record.op < 0) return;
    const OperatorRecord& op = c_.program.operators[entry.record.op];
    STRATA_UNROLL
    for (int i = 0; i < kMostArguments; ++i) entry.arguments[i] = op.arguments[i];
  }

  /// A task that load and compute are both done with.
  STRATA_DEVICE void finish(const Descriptor& entry) {
    profile_.record(entry);
    compare(entry);
  }

  /// Whether load and compute used the same stages.
  STRATA_DEVICE void compare(const Descriptor& entry) {
    for (int i = 0; i < 2 && c_.left != Verdict::Abort; ++i) {
      if (entry.used[i] == entry.filled[i]) continue;
      c_.task = entry.record.task;
      c_.epoch = entry.epoch;
      raise(c_, {Activity::Stages, i, entry.used[i], entry.filled[i]});
    }
  }

  /// After the last step: the tasks whose entries were not taken again. Load and compute leave, because no task is
  /// waited for any more.
  STRATA_DEVICE void compare_rest() {
    const unsigned long long began = c_.platform.clock();
    for (int role = 0; role < 2; ++role) {
      for (unsigned polls = 1; c_.platform.peek(memory_.running[role]) != kHasLeft; ++polls) {
        if (polls % Platform::kCheckInterval == 0 && c_.platform.clock() - began > c_.program.limit)
          return raise(c_, {Activity::Leaving, -1, 0, 0});
        c_.platform.pause();
      }
    }
    const unsigned last = c_.platform.load(*c_.program.step) >> 1;
    const unsigned entries = static_cast<unsigned>(c_.program.listed);
    // From the oldest on. The first of them was compared if it was taken again, and is not listed.
    unsigned kept = at_.count < entries ? at_.count : entries;
    unsigned place = kept < entries ? 0 : static_cast<unsigned>(at_.place);
    if (kept == entries && taken_entry_) {
      --kept;
      place = place + 1 == entries ? 0 : place + 1;
    }
    for (; kept > 0; --kept) {
      // Not of a step that did not come.
      if (reached(last, memory_.list[place].epoch)) finish(memory_.list[place]);
      place = place + 1 == entries ? 0 : place + 1;
    }
  }

  /// After an abort: what load and compute were in, for the report on those that never leave.
  STRATA_DEVICE void report_running() {
    for (int role = 0; role < 2; ++role) {
      const unsigned entry = c_.platform.peek(memory_.running[role]);
      if (entry == kBetweenTasks || entry == kHasLeft) continue;
      const Descriptor& descriptor = memory_.list[entry - 1];
      auto* const words = c_.program.reports + (c_.index * kWorkerRoles + 1 + role) * kReportWords;
      c_.platform.store(words[7], descriptor.epoch);
      c_.platform.store_release(words[6], static_cast<unsigned>(descriptor.record.task) + 1);
    }
  }

  /// What comes into the list now. `record`: the head of the queue ahead of time, if there is one.
  STRATA_DEVICE Next choose(const TaskRecord& record, bool queued, unsigned epoch, Tagged& just_in_time) {
    Waited waited{Activity::NextTask, -1, 0, 0};
    Next next = Next::Unknown;
    if (!c_.program.just_in_time) return queued ? Next::AheadOfTime : Next::NextStep;
    spin(c_, waited, [&] {
      // Tasks just in time come as late as they can without keeping the loader from its work.
      if (!reached(c_.platform.peek(*memory_.loaded), at_.count)) return false;
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
  unsigned taken_ = 0;  ///< from the queue just in time
  Profile<kProfile, Platform> profile_;
};

}  // namespace strata::megakernel
