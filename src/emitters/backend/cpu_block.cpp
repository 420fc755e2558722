#include "emitters/backend/cpu_block.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "emitters/backend/cpu_kernel.h"
#include "emitters/backend/fiber.h"

namespace strata::emitters {
namespace {

constexpr int kWarp = 32;

enum class State { Runs, WaitsBarrier, WaitsPartBarrier, WaitsShuffleDown, WaitsShuffleXor, WaitsShuffleIndex, Left };

bool waits_in_shuffle(State state) {
  return state == State::WaitsShuffleDown || state == State::WaitsShuffleXor || state == State::WaitsShuffleIndex;
}

const char* describe(State state) {
  switch (state) {
    case State::WaitsBarrier:
      return "waits in a barrier";
    case State::WaitsPartBarrier:
      return "waits in a barrier of a part of the block";
    case State::WaitsShuffleDown:
      return "waits in a shuffle down";
    case State::WaitsShuffleXor:
      return "waits in a shuffle xor";
    case State::WaitsShuffleIndex:
      return "waits in a shuffle by index";
    default:
      return "has left";
  }
}

class Block;

struct Thread {
  Thread(Block& owner, int number) : block(owner), index(number), fiber(&Thread::body, this) {}
  static void body(void* thread);

  Block& block;
  int index;
  State state = State::Left;
  uint32_t value = 0;    // given to a shuffle, and what comes of it; of a barrier, the part
  uint32_t operand = 0;  // its distance, mask or lane; the threads of a part
  Fiber fiber;
};

/// The threads of the block that runs in this thread of the process; they are kept for the next one.
class Block {
 public:
  Result<void> run(ThreadCode code, void* const* buffers, int32_t block, int threads, void* shared, ThreadOrder order) {
    code_ = code, buffers_ = buffers, block_ = block, shared_ = shared, count_ = threads;
    while (static_cast<int>(threads_.size()) < threads)
      threads_.push_back(std::make_unique<Thread>(*this, static_cast<int>(threads_.size())));
    for (int i = 0; i < threads; ++i) threads_[i]->state = State::Runs;
    const Result<void> result = run_to_end(order);
    if (!result) forget();
    return result;
  }

  void call(int thread) { code_(buffers_, block_, thread, shared_); }

  /// Called by the running thread: comes back when what it waits for has happened.
  uint32_t wait(State state, uint32_t value, uint32_t operand) {
    Thread& thread = *running_;
    thread.state = state, thread.value = value, thread.operand = operand;
    thread.fiber.suspend();
    return thread.value;
  }

 private:
  Result<void> run_to_end(ThreadOrder order) {
    const int warps = (count_ + kWarp - 1) / kWarp;
    while (true) {
      for (int i = 0; i < warps; ++i)
        STRATA_CHECK(run_warp(order == ThreadOrder::Ascending ? i : warps - 1 - i, order));
      // Every thread has left or waits in a barrier.
      STRATA_TRY(const bool in_parts, release_parts());
      if (in_parts) continue;
      const int waiting = find(0, count_, State::WaitsBarrier);
      if (waiting < 0) return {};
      if (const int left = find(0, count_, State::Left); left >= 0)
        return invalid("thread {} of block {} waits in a barrier that thread {} left", waiting, block_, left);
      for (int i = 0; i < count_; ++i) threads_[i]->state = State::Runs;
    }
  }

  /// Lets the parts go on of which all threads wait; whether there is any. Those that wait for others go on waiting.
  Result<bool> release_parts() {
    const int waiting = find(0, count_, State::WaitsPartBarrier);
    if (waiting < 0) return false;
    bool any = false;
    for (int i = waiting; i < count_; ++i) {
      const Thread& thread = *threads_[i];
      if (thread.state == State::WaitsPartBarrier) {
        for (int other = i + 1; other < count_; ++other) {
          const Thread& also = *threads_[other];
          if (also.state == State::WaitsPartBarrier && also.value == thread.value && also.operand != thread.operand)
            return invalid("threads {} and {} of block {} wait in barrier {} of a part of {} and of {} threads", i,
                           other, block_, thread.value, thread.operand, also.operand);
        }
      }
      const auto size = static_cast<int>(thread.operand), first = static_cast<int>(thread.value) * size;
      if (thread.state != State::WaitsPartBarrier || i != first || first + size > count_) continue;
      const auto waits_too = [&](const std::unique_ptr<Thread>& other) {
        return other->state == State::WaitsPartBarrier && other->value == thread.value &&
               other->operand == thread.operand;
      };
      if (!std::all_of(threads_.begin() + first, threads_.begin() + first + size, waits_too)) continue;
      for (int other = first; other < first + size; ++other) threads_[other]->state = State::Runs;
      any = true;
    }
    if (!any)
      return invalid("thread {} of block {} {} that others do not reach", waiting, block_,
                     describe(State::WaitsPartBarrier));
    return true;
  }

  /// Until each lane has left or waits in a barrier.
  Result<void> run_warp(int warp, ThreadOrder order) {
    const int first = warp * kWarp, end = std::min(count_, first + kWarp);
    while (true) {
      for (int i = first; i < end; ++i) {
        Thread& thread = *threads_[order == ThreadOrder::Ascending ? i : first + end - 1 - i];
        if (thread.state != State::Runs) continue;
        running_ = &thread;
        thread.fiber.resume();
      }
      int shuffling = first;
      while (shuffling < end && !waits_in_shuffle(threads_[shuffling]->state)) ++shuffling;
      if (shuffling == end) return {};
      STRATA_CHECK(check_shuffle(first, end, shuffling));
      shuffle(first);
    }
  }

  Result<void> check_shuffle(int first, int end, int shuffling) const {
    const State state = threads_[shuffling]->state;
    if (end - first < kWarp)
      return invalid("thread {} of block {} {}, which takes whole warps; the block has {} threads", shuffling, block_,
                     describe(state), count_);
    for (int i = first; i < end; ++i)
      if (threads_[i]->state != state)
        return invalid("thread {} of block {} {}, and thread {} of its warp {}", shuffling, block_, describe(state), i,
                       describe(threads_[i]->state));
    return {};
  }

  void shuffle(int first) {
    uint32_t given[kWarp];
    for (int lane = 0; lane < kWarp; ++lane) given[lane] = threads_[first + lane]->value;
    for (uint32_t lane = 0; lane < kWarp; ++lane) {
      Thread& thread = *threads_[first + static_cast<int>(lane)];
      // As shfl.sync does: it takes five bits of the distance, mask or lane.
      const uint32_t operand = thread.operand % kWarp;
      const uint32_t source = thread.state == State::WaitsShuffleDown  ? lane + operand
                              : thread.state == State::WaitsShuffleXor ? lane ^ operand
                                                                       : operand;
      thread.value = given[source < kWarp ? source : lane];
      thread.state = State::Runs;
    }
  }

  int find(int first, int end, State state) const {
    for (int i = first; i < end; ++i)
      if (threads_[i]->state == state) return i;
    return -1;
  }

  void forget() {
    for (int i = 0; i < count_; ++i)
      if (threads_[i]->state != State::Left) {
        threads_[i]->fiber.restart();
        threads_[i]->state = State::Left;
      }
  }

  ThreadCode code_ = nullptr;
  void* const* buffers_ = nullptr;
  int32_t block_ = 0;
  void* shared_ = nullptr;
  int count_ = 0;
  Thread* running_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;
};

void Thread::body(void* thread) {
  auto& self = *static_cast<Thread*>(thread);
  self.block.call(self.index);
  self.state = State::Left;
}

Block& this_block() {
  thread_local Block block;
  return block;
}

}  // namespace

Result<void> run_fibers(ThreadCode code, void* const* buffers, int32_t block, int threads, void* shared,
                        ThreadOrder order) {
  return this_block().run(code, buffers, block, threads, shared, order);
}

void strata_cpu_barrier() { this_block().wait(State::WaitsBarrier, 0, 0); }

void strata_cpu_part_barrier(uint32_t part, uint32_t threads) {
  this_block().wait(State::WaitsPartBarrier, part, threads);
}

uint32_t strata_cpu_shuffle_down(uint32_t value, uint32_t distance) {
  return this_block().wait(State::WaitsShuffleDown, value, distance);
}

uint32_t strata_cpu_shuffle_xor(uint32_t value, uint32_t mask) {
  return this_block().wait(State::WaitsShuffleXor, value, mask);
}

uint32_t strata_cpu_shuffle_index(uint32_t value, uint32_t lane) {
  return this_block().wait(State::WaitsShuffleIndex, value, lane);
}

}  // namespace strata::emitters
