// The FIFOs of a worker's shared memory as its roles see them: the list of tasks, and the ring of stages that constants
// come through. Each role keeps its place and the phase of its barriers in registers, and goes on where its last task
// ended. Barriers are started once a kernel (start_memory).
//
// A stage has any multiple of 16 bytes and takes stage_room of them, from where the one before ended; where the ring
// ends before that it begins at 0. Stage k, counted since the kernel's start, uses barriers k % ring_stages in phase
// k / ring_stages. A barrier has the parity of its phase alone, so a warp that waits for stage k must know that stage
// k − ring_stages has landed. It does: at most half of ring_stages are in flight, and the last stage that the warp saw
// land is at most half of ring_stages before k (ComputeSide::stage).
#pragma once

#include "megakernel/runtime/core/events.h"

namespace strata::megakernel {

/// A place in the list: all roles go through the same places in the same order.
struct Cursor {
  int place = 0;
  unsigned round = 0;  ///< how often all places were gone through: the phase of their barriers
  unsigned count = 0;  ///< of places, since the kernel's start

  STRATA_DEVICE void advance(int places) {
    ++count;
    if (++place == places) {
      place = 0;
      ++round;
    }
  }
};

template <class Platform>
STRATA_DEVICE unsigned pair_of(const Program<Platform>& program, unsigned stage) {
  return stage & (program.ring_stages - 1);
}
template <class Platform>
STRATA_DEVICE unsigned phase_of(const Program<Platform>& program, unsigned stage) {
  return stage >> program.ring_shift;
}
/// Where a stage begins that takes `room` and comes after one that ended at `at`.
template <class Platform>
STRATA_DEVICE unsigned begin_of(const Program<Platform>& program, unsigned at, unsigned room) {
  return at + room <= program.ring_bytes ? at : 0;
}

/// What a block function's load sees: one thread.
template <class Platform>
class LoadSide {
 public:
  STRATA_DEVICE LoadSide(Context<Platform>& c, const WorkerMemory<Platform>& memory) : c_(c), memory_(memory) {}

  /// Fills the next stage: waits until the window has room, and the ring, and starts the copy. `bytes`: a multiple of
  /// 16, at most ring_bytes. The task's next `stages` − 1 stages have as many, each `stride` bytes after the one
  /// before: while the ring is full, the loader asks the second-level cache for them. After an abort or a stop nothing
  /// is copied.
  ///
  /// One thread fills the ring at the rate of the memory: 14 KB every 390 ns on an H200, where a step of this thread
  /// takes 5 ns and a branch 15. So one look without branches tells what has become free, and a wait repeats that look:
  /// waits with loops of their own made a push that need not wait 250 ns long.
  STRATA_DEVICE void push(const void* from, unsigned bytes, unsigned stages = 1, unsigned stride = 0) {
    const Program<Platform>& program = c_.program;
    const Run run{static_cast<const unsigned char*>(from), bytes, stages, stride};
    ++pushed_;
    const unsigned room = stage_room(bytes);
    const unsigned begin = begin_of(program, at_, room);
    const unsigned unused = begin == at_ ? 0 : program.ring_bytes - at_;
    unsigned taken = room;
    unsigned polls = 0;
    Waited waited{Activity::Window, 0, 0, 0};
    const auto has_room = [&] {
      look();
      // What is left free before the ring's end is taken too, unless all of the ring is free. No branches: | and &.
      taken = used_ == 0 ? room : room + unused;
      const bool full = (next_ - released_ >= program.ring_stages) | (used_ + taken > program.ring_bytes);
      if (!full & window_has(bytes)) return true;
      const unsigned stage = full ? released_ : landed_;
      const unsigned phase = phase_of(program, stage);
      waited = {full ? Activity::Room : Activity::Window, static_cast<int>(stage), phase, phase + 1};
      if (full && ++polls % kPollsOfAsk == 0) ask_ahead(run);
      return false;
    };
    if (spin(c_, waited, has_room) != Verdict::Ready) return;
    const unsigned pair = pair_of(program, next_);
    memory_.stages[pair] = {bytes, taken};
    flying_bytes_ += bytes;
    used_ += taken;
    ++next_;
    at_ = begin + room;
    asked_ = asked_ > bytes ? asked_ - bytes : 0;
    c_.platform.arrive_and_expect(memory_.full[pair], bytes);
    c_.platform.copy(memory_.ring + begin, from, bytes, memory_.full[pair]);
  }

  /// Before the first load of what earlier steps wrote (history): waits until the step before has ended. Constants need
  /// no such wait.
  STRATA_DEVICE void wait_for_history() {
    if (history_ == c_.epoch || poll_step(c_, c_.epoch) != Verdict::Ready) return;
    c_.platform.acquire_for_copies();
    history_ = c_.epoch;
  }

  /// Positions of a sequence's cache that earlier steps have filled.
  STRATA_DEVICE int position(int sequence) const { return position_of(c_.program, sequence, c_.epoch); }
  STRATA_DEVICE unsigned epoch() const { return c_.epoch; }
  STRATA_DEVICE bool left() const { return c_.left != Verdict::Ready; }

  /// Around a task's loads.
  STRATA_DEVICE void begin_task() {
    pushed_ = 0;
    asked_ = 0;
  }
  STRATA_DEVICE void end_task(Descriptor& entry) const {
    entry.filled[0] = pushed_;
    entry.filled[1] = at_;
  }
  /// Until all copies have landed, whatever else happens: the shared memory that they write must outlast them.
  STRATA_DEVICE void drain() {
    while (flying() > 0) {
      while (!c_.platform.passed(memory_.full[pair_of(c_.program, landed_)], phase_of(c_.program, landed_)))
        c_.platform.pause();
      land();
    }
  }

 private:
  /// Stages that are copied one after the other.
  struct Run {
    const unsigned char* from = nullptr;
    unsigned bytes = 0;  ///< of each
    unsigned stages = 0;
    unsigned stride = 0;  ///< bytes from one to the next

    STRATA_DEVICE unsigned in_all() const { return stages * bytes; }
  };

  STRATA_DEVICE unsigned flying() const { return next_ - landed_; }
  STRATA_DEVICE bool window_has(unsigned bytes) const {
    return (flying() == 0) |
           ((2 * flying() < c_.program.ring_stages) & (flying_bytes_ + bytes <= c_.program.window_bytes));
  }

  /// Whether the oldest copy has landed, and compute is done with the oldest stage: one of each at most, without a
  /// wait. Of a stage that is not filled yet neither phase can be over.
  STRATA_DEVICE void look() {
    const unsigned landed = pair_of(c_.program, landed_);
    const unsigned released = pair_of(c_.program, released_);
    bool lands = c_.platform.passed_yet(memory_.full[landed], phase_of(c_.program, landed_));
    const bool frees = c_.platform.passed_yet(memory_.empty[released], phase_of(c_.program, released_));
    const unsigned bytes = memory_.stages[landed].bytes;
    const unsigned taken = memory_.stages[released].taken;
    lands = lands || (frees && landed_ == released_);
    landed_ += lands ? 1 : 0;
    flying_bytes_ -= lands ? bytes : 0;
    released_ += frees ? 1 : 0;
    used_ -= frees ? taken : 0;
  }
  /// Compute is not done with the oldest stage. Device memory would rest meanwhile, as far as this worker is concerned:
  /// the rest of the task's run comes to the second-level cache, at about the worker's share of the memory, so that it
  /// delays what others wait for by little. Not the next task's: to find it takes longer than it saves
  /// (docs/benchmarks-decoding.md).
  STRATA_DEVICE void ask_ahead(const Run& run) {
    const unsigned end = run.in_all() < c_.program.ahead_bytes ? run.in_all() : c_.program.ahead_bytes;
    if (asked_ >= end) return;
    const unsigned in_stage = asked_ % run.bytes;
    unsigned bytes = run.bytes - in_stage < kAsk ? run.bytes - in_stage : kAsk;
    bytes = end - asked_ < bytes ? end - asked_ : bytes;
    c_.platform.prefetch(run.from + static_cast<unsigned long long>(asked_ / run.bytes) * run.stride + in_stage, bytes);
    asked_ += bytes;
  }
  STRATA_DEVICE void land() {
    flying_bytes_ -= memory_.stages[pair_of(c_.program, landed_)].bytes;
    ++landed_;
  }

  static constexpr unsigned kAsk = 4096;      ///< bytes that are asked for at once, at most, and never beyond a stage
  static constexpr unsigned kPollsOfAsk = 2;  ///< polls between two of these

  Context<Platform>& c_;
  const WorkerMemory<Platform>& memory_;
  unsigned asked_ = 0;         ///< bytes of the run's next stages that the second-level cache was asked for
  unsigned next_ = 0;          ///< the stage to fill
  unsigned landed_ = 0;        ///< the first whose copy counts in the window
  unsigned released_ = 0;      ///< the first that compute is not known to be done with
  unsigned at_ = 0;            ///< where the last one ended
  unsigned used_ = 0;          ///< bytes of the ring
  unsigned flying_bytes_ = 0;  ///< of the window
  unsigned pushed_ = 0;        ///< of the task, after a stop too
  unsigned history_ = 0;       ///< the epoch whose history may be read
};

/// What a block function's compute sees: a team; each thread has its own. A task's stages are runs, one after the
/// other, of stages of equally many bytes each. After an abort its waits return at once and what it reads means
/// nothing: it goes on to its end, so that its threads go on meeting each other, or returns early in all of them.
template <class Platform>
class ComputeSide {
 public:
  STRATA_DEVICE ComputeSide(Context<Platform>& c, const WorkerMemory<Platform>& memory) : c_(c), memory_(memory) {}

  /// Stage n, from 0, of a run whose stages all have `bytes`: waits until it has landed. All lanes of a warp call it.
  /// Warps may take different ones; each takes its own in rising order, the next at most half of ring_stages after its
  /// last one (or after the task's first stage). After an abort: a place in the ring.
  STRATA_DEVICE const unsigned char* stage(int n, unsigned bytes) {
    go_to(n, bytes);
    const unsigned number = first_ + static_cast<unsigned>(n);
    const unsigned pair = pair_of(c_.program, number);
    wait_for_phase<Scope::Warp>(c_, Activity::StageFull, static_cast<int>(number), memory_.full[pair],
                                phase_of(c_.program, number));
    return memory_.ring + begin_of(c_.program, at_, stage_room(bytes));
  }
  /// The warp is done with stage n of the run. All its lanes call it. `warps`: how many of the team's warps use each
  /// stage of this run, a power of two that divides their number.
  STRATA_DEVICE void release(int n, int warps) {
    c_.platform.meet_warp();
    if (left() || !c_.platform.releases()) return;
    c_.platform.arrive(memory_.empty[pair_of(c_.program, first_ + static_cast<unsigned>(n))],
                       static_cast<unsigned>(c_.platform.warps()) / static_cast<unsigned>(warps));
  }
  /// After a run of `count` stages, by all threads of the team; nobody waits. The next run's stages count from 0.
  STRATA_DEVICE void advance(int count, unsigned bytes) {
    go_to(count, bytes);
    first_ += static_cast<unsigned>(count);
    n_ = 0;
  }

  /// Of the worker, for the team alone. What a task leaves in it the next one finds.
  STRATA_DEVICE unsigned char* scratch() { return memory_.scratch; }

  using TaggedWord = typename Platform::TaggedWord;
  /// Tagged words of this step, by a warp together; see read_tagged.
  template <int kAtOnce = kTaggedAtOnce, class Place, class Take>
  STRATA_DEVICE void read_at(const Place& place, int count, const Take& take) {
    read_tagged<kAtOnce>(c_, place, count, c_.epoch, take);
  }
  /// The same for words that lie one after the other.
  template <class Take>
  STRATA_DEVICE void read(const TaggedWord* words, int count, const Take& take) {
    read_at([&](int i) -> const TaggedWord& { return words[i]; }, count, take);
  }
  /// A tagged word of this step, by one thread; nothing after an abort.
  STRATA_DEVICE void write(typename Platform::TaggedWord& word, unsigned first, unsigned second) {
    if (!left()) write_tagged(c_.platform, word, first, second, c_.epoch);
  }

  /// Ends the kernel: an element of a row is NaN or infinite, so what follows would mean nothing. By one thread, after
  /// the task's last wait: the others learn of it where they meet at the task's end.
  STRATA_DEVICE void refuse(int row, int element) {
    if (left()) return;
    const Looked raised =
        raise_apart<Platform>(c_.platform.handle(), c_.program, c_.role, c_.index, c_.task, c_.epoch, c_.reported,
                              {Activity::NotFinite, element, static_cast<unsigned>(row), 0});
    c_.left = raised.left;
    c_.reported = raised.reported;
  }

  /// Of the task that ends a step: a token for the host, by any thread; and that no step comes after this one, by the
  /// team's leader.
  STRATA_DEVICE void put_token(int index, int token) {
    const auto step = static_cast<unsigned long long>(c_.epoch - c_.program.first_epoch);
    c_.platform.store_token(c_.program.tokens + step * static_cast<unsigned>(c_.program.tokens_per_step) + index,
                            token);
  }
  STRATA_DEVICE void finish() { finished_ = true; }
  STRATA_DEVICE bool finished() const { return finished_; }

  /// Positions of a sequence's cache that earlier steps have filled.
  STRATA_DEVICE int position(int sequence) const { return position_of(c_.program, sequence, c_.epoch); }
  STRATA_DEVICE Platform& platform() { return c_.platform; }
  STRATA_DEVICE unsigned epoch() const { return c_.epoch; }
  STRATA_DEVICE bool left() const { return c_.left != Verdict::Ready; }

  /// Around a task's compute.
  STRATA_DEVICE void begin_task() { task_ = first_; }
  STRATA_DEVICE void end_task(Descriptor& entry) const {
    entry.used[0] = first_ - task_;
    entry.used[1] = at_;
  }

 private:
  /// Makes `at_` that of stage n. Without a wrap, which is rare, it is a product.
  STRATA_DEVICE void go_to(int n, unsigned bytes) {
    const unsigned room = stage_room(bytes);
    const unsigned straight = at_ + static_cast<unsigned>(n - n_) * room;
    if (straight <= c_.program.ring_bytes) {
      at_ = straight;
      n_ = n;
    }
    STRATA_ROLLED
    for (; n_ < n; ++n_) at_ = begin_of(c_.program, at_, room) + room;
  }

  Context<Platform>& c_;
  const WorkerMemory<Platform>& memory_;
  unsigned first_ = 0;  ///< stage of the run, since the kernel's start
  int n_ = 0;           ///< of the run
  unsigned at_ = 0;     ///< where the stage before it ended
  unsigned task_ = 0;   ///< stage of the task
  bool finished_ = false;
};

}  // namespace strata::megakernel
