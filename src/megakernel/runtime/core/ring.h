// The FIFOs of a worker's shared memory as its roles see them: the ring of slots that constants come through, the pages
// of activations, and the list of tasks. Each role keeps its place, a slot and the phase of its barriers, in registers,
// and goes on where its last task ended. Barriers are started once a kernel (start_memory).
#pragma once

#include "megakernel/runtime/core/events.h"

namespace strata::megakernel {

/// A place in a FIFO: all roles go through the same places in the same order.
struct Cursor {
  int place = 0;
  unsigned round = 0;  ///< how often all places were gone through: the phase of their barriers

  STRATA_DEVICE void advance(int places) {
    if (++place == places) {
      place = 0;
      ++round;
    }
  }
};

/// Page `i`, counted around.
template <class Platform>
STRATA_DEVICE unsigned char* page_at(const Program<Platform>& program, const WorkerMemory<Platform>& memory, int i) {
  return memory.pages + static_cast<unsigned long long>(i < program.pages ? i : i - program.pages) * program.page_bytes;
}

/// What a block function's load sees: one thread.
template <class Platform>
class LoadSide {
 public:
  STRATA_DEVICE LoadSide(Context<Platform>& c, const WorkerMemory<Platform>& memory) : c_(c), memory_(memory) {}

  /// Fills the next slot: waits until it is empty and the window has room, and starts the copy. `bytes`: a multiple of
  /// 16, at most slot_bytes. After an abort or a stop nothing is copied.
  STRATA_DEVICE void push(const void* from, unsigned bytes) {
    const Program<Platform>& program = c_.program;
    // A phase of empty[] that has ended says that the copy before has landed: its place in the window is given back
    // here too, before its bytes are overwritten.
    while (flying_ > 0 && (flying_ == program.slots || bytes_ + bytes > program.window_bytes)) {
      if (wait_for_phase(c_, Activity::Window, oldest_.place, memory_.full[oldest_.place], oldest_.round) !=
          Verdict::Ready) {
        return;
      }
      land();
    }
    const int slot = next_.place;
    if (wait_for_phase(c_, Activity::SlotEmpty, slot, memory_.empty[slot], next_.round - 1) != Verdict::Ready) return;
    memory_.in_flight[slot] = bytes;
    bytes_ += bytes;
    ++flying_;
    ++filled_;
    c_.platform.arrive_and_expect(memory_.full[slot], bytes);
    c_.platform.copy(memory_.slots + static_cast<unsigned long long>(slot) * program.slot_bytes, from, bytes,
                     memory_.full[slot]);
    next_.advance(program.slots);
  }

  /// Before the first load of what earlier steps wrote (history): waits until the step before has ended. Constants need
  /// no such wait.
  STRATA_DEVICE void wait_for_history() {
    if (history_ == c_.epoch) return;
    if (wait_for_step(c_, c_.epoch) != Verdict::Ready) return;
    c_.platform.acquire_for_copies(*c_.program.step);
    history_ = c_.epoch;
  }

  STRATA_DEVICE unsigned epoch() const { return c_.epoch; }
  STRATA_DEVICE bool left() const { return c_.left != Verdict::Ready; }

  /// Slots filled since the last call.
  STRATA_DEVICE unsigned filled() {
    const unsigned filled = filled_;
    filled_ = 0;
    return filled;
  }

  /// Until all copies have landed, whatever else happens: the shared memory that they write must outlast them.
  STRATA_DEVICE void drain() {
    while (flying_ > 0) {
      while (!c_.platform.passed(memory_.full[oldest_.place], oldest_.round)) c_.platform.pause();
      land();
    }
  }

 private:
  STRATA_DEVICE void land() {
    bytes_ -= memory_.in_flight[oldest_.place];
    --flying_;
    oldest_.advance(c_.program.slots);
  }

  Context<Platform>& c_;
  const WorkerMemory<Platform>& memory_;
  Cursor next_;    ///< the slot to fill
  Cursor oldest_;  ///< the first whose copy counts in the window
  unsigned bytes_ = 0;
  int flying_ = 0;
  unsigned filled_ = 0;
  unsigned history_ = 0;
};

/// What a block function's gather sees: a team.
template <class Platform>
class GatherSide {
 public:
  STRATA_DEVICE GatherSide(Context<Platform>& c, const WorkerMemory<Platform>& memory) : c_(c), memory_(memory) {}

  /// Takes the pages of the next task, before its gather; all threads of the team call it, and the leader waits until
  /// they are empty. A task takes all its pages here and gives them back in compute: it takes none after it has given
  /// one back, so that tasks cannot wait for each other's pages.
  STRATA_DEVICE void take_pages(int count) {
    first_ = next_.place;
    for (int i = 0; i < count; ++i) {
      if (c_.platform.leads())
        wait_for_phase(c_, Activity::Page, next_.place, memory_.page_empty[next_.place], next_.round - 1);
      next_.advance(c_.program.pages);
    }
  }
  /// The task's i-th page.
  STRATA_DEVICE unsigned char* page(int i) { return page_at(c_.program, memory_, first_ + i); }

  /// Reads tagged words of this step; see read_tagged.
  STRATA_DEVICE void read(const typename Platform::TaggedWord* words, unsigned char* data, int bytes) {
    read_tagged(c_, words, data, bytes, c_.epoch);
  }

  STRATA_DEVICE Platform& platform() { return c_.platform; }
  STRATA_DEVICE unsigned epoch() const { return c_.epoch; }
  STRATA_DEVICE bool left() const { return c_.left != Verdict::Ready; }

 private:
  Context<Platform>& c_;
  const WorkerMemory<Platform>& memory_;
  Cursor next_;
  int first_ = 0;
};

/// What a block function's compute sees: a team. After an abort its waits return at once and what it reads means
/// nothing: it goes on to its end, so that its threads go on meeting each other, or returns early in all of them.
template <class Platform>
class ComputeSide {
 public:
  STRATA_DEVICE ComputeSide(Context<Platform>& c, const WorkerMemory<Platform>& memory) : c_(c), memory_(memory) {}

  /// The slot that load filled next, as soon as its bytes have landed.
  STRATA_DEVICE const unsigned char* front() {
    const int slot = slot_.place;
    wait_for_phase(c_, Activity::SlotFull, slot, memory_.full[slot], slot_.round);
    return memory_.slots + static_cast<unsigned long long>(slot) * c_.program.slot_bytes;
  }
  /// The team is done with it.
  STRATA_DEVICE void pop() {
    if (left()) return;
    c_.platform.meet_warp();
    if (c_.platform.leads_warp()) c_.platform.arrive(memory_.empty[slot_.place]);
    slot_.advance(c_.program.slots);
    ++used_;
  }

  /// The task's i-th page.
  STRATA_DEVICE unsigned char* page(int i) { return page_at(c_.program, memory_, first_ + i); }
  /// The team is done with the first of the task's pages that it has not given back; what it does not give back is
  /// given back at the end of the task.
  STRATA_DEVICE void give_page() {
    c_.platform.meet();
    if (!left() && c_.platform.leads()) c_.platform.arrive(memory_.page_empty[page_.place]);
    page_.advance(c_.program.pages);
    ++given_;
  }
  /// Around a task's compute.
  STRATA_DEVICE void begin_pages() {
    first_ = page_.place;
    given_ = 0;
  }
  STRATA_DEVICE void give_pages(int count) {
    while (given_ < count) give_page();
  }

  STRATA_DEVICE unsigned char* scratch() { return memory_.scratch; }

  /// Writes tagged words of this step; see write_tagged.
  STRATA_DEVICE void write(typename Platform::TaggedWord* words, const unsigned char* data, int bytes) {
    if (!left()) write_tagged(c_.platform, words, data, bytes, c_.epoch);
  }

  /// Of the task that ends a step: a token for the host, and that no step comes after this one. By the team's leader.
  STRATA_DEVICE void put_token(int index, int token) {
    const auto step = static_cast<unsigned long long>(c_.epoch - c_.program.first_epoch);
    c_.platform.store_token(c_.program.tokens + step * static_cast<unsigned>(c_.program.tokens_per_step) + index,
                            token);
  }
  STRATA_DEVICE void finish() { finished_ = true; }
  STRATA_DEVICE bool finished() const { return finished_; }

  STRATA_DEVICE Platform& platform() { return c_.platform; }
  STRATA_DEVICE unsigned epoch() const { return c_.epoch; }
  STRATA_DEVICE bool left() const { return c_.left != Verdict::Ready; }
  /// Slots used since the last call.
  STRATA_DEVICE unsigned used() {
    const unsigned used = used_;
    used_ = 0;
    return used;
  }

 private:
  Context<Platform>& c_;
  const WorkerMemory<Platform>& memory_;
  Cursor slot_;
  Cursor page_;
  int first_ = 0;
  int given_ = 0;
  unsigned used_ = 0;
  bool finished_ = false;
};

}  // namespace strata::megakernel
