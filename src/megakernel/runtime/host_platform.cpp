#include "megakernel/runtime/host_platform.h"

#include <algorithm>
#include <cassert>
#include <chrono>

namespace strata::megakernel {
namespace {

constexpr uint64_t kPhase = uint64_t{1} << 32;
constexpr uint64_t kArrival = uint64_t{1} << 24;
constexpr uint64_t kBytes = kArrival - 1;

void nap(Random& random) {
  const uint64_t kind = random.below(64);
  if (kind == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(50)));
  } else if (kind < 8) {
    for (uint64_t i = random.below(6); i > 0; --i) std::this_thread::yield();
  }
}

}  // namespace

void HostBarrier::start(uint32_t arrivals) {
  arrivals_ = arrivals;
  word_.store(arrivals * kArrival, std::memory_order_relaxed);
}

void HostBarrier::change(uint32_t arrivals, uint32_t expected, uint32_t landed) {
  uint64_t old = word_.load(std::memory_order_relaxed);
  for (;;) {
    uint64_t next = old - arrivals * kArrival + expected - landed;
    assert((old & (kPhase - 1)) / kArrival >= arrivals && (old & kBytes) + expected >= landed);
    if ((next & (kPhase - 1)) == 0) next += kPhase + arrivals_ * kArrival;
    if (word_.compare_exchange_weak(old, next, std::memory_order_acq_rel, std::memory_order_relaxed)) return;
  }
}
void HostBarrier::arrive(uint32_t count, uint32_t expected_bytes) { change(count, expected_bytes, 0); }
void HostBarrier::complete(uint32_t bytes) { change(0, 0, bytes); }

LateStores::LateStores(uint64_t seed) : random_(seed), thread_([this] { work(); }) {}

LateStores::~LateStores() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void LateStores::copy(void* to, const void* from, size_t bytes, HostBarrier& barrier) {
  add({to, from, bytes, &barrier, {}});
}
void LateStores::store(HostTaggedWord& to, const Tagged& word) { add({&to, nullptr, 0, nullptr, word}); }

void LateStores::add(const Job& job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
  }
  changed_.notify_one();
}

void LateStores::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ended_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    auto at = jobs_.begin() + static_cast<std::ptrdiff_t>(random_.below(jobs_.size()));
    at = std::find_if(jobs_.begin(), at, [&](const Job& job) { return job.to == at->to; });
    const Job job = *at;
    jobs_.erase(at);
    lock.unlock();
    nap(random_);
    if (job.barrier != nullptr) {
      std::memcpy(job.to, job.from, job.bytes);
      job.barrier->complete(static_cast<uint32_t>(job.bytes));
    } else {
      static_cast<HostTaggedWord*>(job.to)->value.store(job.word, std::memory_order_relaxed);
    }
    lock.lock();
  }
}

void HostGroup::wait(HostMachine& machine, uint32_t generation) {
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    return;
  }
  const auto end = std::chrono::steady_clock::now() + machine.meet_limit;
  for (unsigned polls = 1; generation_.load(std::memory_order_acquire) == generation; ++polls) {
    if (machine.team_error.load(std::memory_order_relaxed)) return;
    if (polls % 64 == 0 && std::chrono::steady_clock::now() > end)
      machine.team_error.store(true, std::memory_order_relaxed);
    std::this_thread::yield();
  }
}

namespace {
/// What a group meets for.
enum Meeting : uint32_t { kMeet, kFirstLane, kShare, kAny };
}  // namespace

void HostPlatform::meet_warp() {
  delay();
  if (lanes() > 1) team_->of_warp[static_cast<size_t>(warp())]->meet(machine_, lane(), kMeet, 0, [](int, uint32_t) {});
}

int HostPlatform::first_lane(bool condition) {
  if (lanes() == 1 || is_broken()) return condition ? 0 : -1;
  int first = -1;
  team_->of_warp[static_cast<size_t>(warp())]->meet(machine_, lane(), kFirstLane, condition ? 1 : 0,
                                                    [&](int lane, uint32_t value) {
                                                      if (first < 0 && value != 0) first = lane;
                                                    });
  return first;
}

unsigned HostPlatform::share(unsigned value, int lane) {
  if (lanes() == 1 || is_broken()) return value;
  unsigned shared = 0;
  team_->of_warp[static_cast<size_t>(warp())]->meet(machine_, this->lane(), kShare, value,
                                                    [&](int other, uint32_t said) {
                                                      if (other == lane) shared = said;
                                                    });
  return shared;
}

void HostPlatform::meet() {
  delay();
  if (size() > 1) team_->all.meet(machine_, rank_, kMeet, 0, [](int, uint32_t) {});
}

bool HostPlatform::any(bool condition) {
  delay();
  bool found = condition;
  if (size() > 1)
    team_->all.meet(machine_, rank_, kAny, condition ? 1 : 0,
                    [&](int, uint32_t value) { found = found || value != 0; });
  return found;
}

/// What acquire() acquires later: so a load without one orders nothing here either.
unsigned HostPlatform::load(const Counter& c) {
  const auto end = loaded_.begin() + static_cast<std::ptrdiff_t>(loads_);
  if (std::find(loaded_.begin(), end, &c) == end) {
    if (loads_ == loaded_.size()) loads_ = 0;
    loaded_[loads_++] = &c;
  }
  return c.value.load(std::memory_order_relaxed);
}

void HostPlatform::acquire() {
  for (size_t i = 0; i < loads_; ++i) static_cast<void>(loaded_[i]->value.load(std::memory_order_acquire));
  loads_ = 0;
}

void HostPlatform::add_release(Counter& c, unsigned amount) {
  delay();
  if (&c == machine_.lost && machine_.signals_to_lose.fetch_sub(1) == 1) return;
  c.value.fetch_add(amount, std::memory_order_release);
}

void HostPlatform::store_tagged(TaggedWord& w, const Tagged& value) {
  if (machine_.late != nullptr) {
    machine_.late->store(w, value);
  } else {
    w.value.store(value, std::memory_order_relaxed);
  }
}

bool HostPlatform::passed(Barrier& b, unsigned phase) {
  const uint32_t phases = b.phases();
  if (phases == phase) return false;
  if (phases != phase + 1) machine_.phase_error.store(true, std::memory_order_relaxed);
  return true;
}

void HostPlatform::copy(void* to, const void* from, unsigned bytes, Barrier& b) {
  if (machine_.late != nullptr) {
    machine_.late->copy(to, from, bytes, b);
  } else {
    std::memcpy(to, from, bytes);
    b.complete(bytes);
  }
}

unsigned long long HostPlatform::clock() {
  return static_cast<unsigned long long>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

void HostPlatform::delay() {
  if (machine_.delays) nap(random_);
}

}  // namespace strata::megakernel
