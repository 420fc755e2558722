// Runs the threads of a block, of the blocks of a cluster, or of all blocks of a launch that wait for each other, on
// the host, one at a time, each on a stack of its own. One runs until it must wait for others; who is next is up to
// STRATA_HOST_ORDER in the environment:
//   forward   the first thread that can run (the default)
//   backward  the last one
//   a number  any of them, drawn from this seed
// So a thread is as far ahead of the others as barriers let it, and where one is missing the result depends on the
// order. What no GPU would survive ends the program with a message.
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define STRATA_HOST_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STRATA_HOST_ASAN
#endif
#endif
#if defined(STRATA_HOST_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

namespace strata_host {

constexpr int kMostBlockThreads = 1024;
constexpr int kMostClusterBlocks = 8;
constexpr int kMostThreads = kMostClusterBlocks * kMostBlockThreads;  // that run together
constexpr int kBarriers = 16;                                         // of a block
constexpr int kLanes = 32;
constexpr std::size_t kStackBytes = 256 << 10;

[[noreturn]] inline void fail(const std::string& why) {
  std::fprintf(stderr, "on the host: %s\n", why.c_str());
  std::_Exit(3);
}

/// A set of threads of a block.
class ThreadSet {
 public:
  void insert(int t) { words_[t / 64] |= std::uint64_t{1} << t % 64; }
  void erase(int t) { words_[t / 64] &= ~(std::uint64_t{1} << t % 64); }
  bool contains(int t) const { return (words_[t / 64] >> t % 64 & 1) != 0; }
  void insert_all(const ThreadSet& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }
  /// The first from `begin` on; -1 if there is none.
  int first(int begin = 0) const {
    std::uint64_t mask = ~std::uint64_t{0} << begin % 64;
    for (std::size_t w = begin / 64; w < words_.size(); ++w, mask = ~std::uint64_t{0}) {
      if ((words_[w] & mask) != 0) return static_cast<int>(w * 64) + std::countr_zero(words_[w] & mask);
    }
    return -1;
  }
  int last() const {
    for (std::size_t w = words_.size(); w-- > 0;) {
      if (words_[w] != 0) return static_cast<int>(w * 64) + 63 - std::countl_zero(words_[w]);
    }
    return -1;
  }
  /// "0-31, 64".
  std::string text() const {
    std::string result;
    for (int t = first(); t >= 0; t = t + 1 < kMostThreads ? first(t + 1) : -1) {
      const int begin = t;
      while (t + 1 < kMostThreads && contains(t + 1)) ++t;
      result += (result.empty() ? "" : ", ") + std::to_string(begin);
      if (t > begin) result += "-" + std::to_string(t);
    }
    return result;
  }

 private:
  std::array<std::uint64_t, kMostThreads / 64> words_{};
};

/// Where threads wait until `expected` have come.
struct Meeting {
  const char* what = "";  ///< what they execute
  int expected = 0;
  int arrived = 0;
  ThreadSet waiting;
};

/// What the lanes of a warp show each other. Two buffers in turn: a lane that is ahead by one exchange must not
/// overwrite what others still read, and none is ahead by two.
struct Warp {
  static constexpr std::size_t kPartBytes = 64;
  Meeting meeting;
  unsigned exchanges = 0;
  alignas(16) std::byte parts[2][kLanes * kPartBytes];
};

/// An asynchronous copy on its way.
struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
};

/// A thread of a block; it outlives the block, to be the same thread of the next one.
struct Fiber {
  ucontext_t context;
  std::unique_ptr<std::byte[]> memory;
  const void* stack = nullptr;  ///< for AddressSanitizer, with its bytes
  std::size_t stack_bytes = 0;
  std::vector<Copy> started;              ///< not yet committed
  std::vector<std::vector<Copy>> groups;  ///< oldest first
  void (*meet)() = nullptr;               ///< of the team that runs emitted code
};

class Team {
 public:
  /// Number of the block of those that run together, and in its cluster, of the thread in its block, and of a block's
  /// threads.
  int block() const { return thread_ / threads_; }
  int rank() const { return block() % cluster_; }
  int cluster_blocks() const { return cluster_; }
  int thread() const { return thread_ % threads_; }
  int threads() const { return threads_; }
  Fiber& fiber() { return *fibers_[static_cast<std::size_t>(thread_)]; }
  Meeting& barrier(int id) { return barriers_[static_cast<std::size_t>(block() * kBarriers + id)]; }
  Warp& warp() {
    const int warps = (threads_ + kLanes - 1) / kLanes;
    return warps_[static_cast<std::size_t>(block() * warps + thread() / kLanes)];
  }
  int lanes() const { return std::min(kLanes, threads_ - thread() / kLanes * kLanes); }
  /// How often one thread went on in another's place.
  std::int64_t switches() const { return switches_; }

  /// Calls `body` for every thread of blocks in clusters of so many, which all run together.
  void run(int blocks, int cluster, int threads, std::function<void()> body) {
    if (threads < 1 || threads > kMostBlockThreads) fail("a block of " + std::to_string(threads) + " threads");
    if (cluster < 1 || cluster > kMostClusterBlocks) fail("a cluster of " + std::to_string(cluster) + " blocks");
    const int warps = blocks * ((threads + kLanes - 1) / kLanes);
    if (warps > kMostThreads / kLanes) fail(std::to_string(blocks) + " blocks are too many to run together");
    threads_ = threads;
    cluster_ = cluster;
    barriers_.resize(static_cast<std::size_t>(blocks * kBarriers));
    clusters_.assign(static_cast<std::size_t>(blocks / cluster), {});
    for (Cluster& each : clusters_) each.running = cluster * threads;
    all_ = running_ = blocks * threads;
    body_ = std::move(body);
    ready_ = finished_ = {};
    waiting_.clear();
    while (static_cast<int>(fibers_.size()) < all_) fibers_.push_back(new_fiber());
    for (int t = 0; t < all_; ++t) ready_.insert(t);
    thread_ = next();
    swap(main_, fiber());
  }

  /// All threads of the cluster that have not returned meet.
  void meet_all(const char* what) {
    Meeting& meeting = clusters_[cluster()].meeting;
    meeting.what = what;
    meeting.waiting.insert(thread_);
    ++meeting.arrived;
    release_cluster();
    give_way();
  }

  /// Waits until another thread wakes those that wait at a place.
  void wait_at(const void* place) {
    waiting_[place].insert(thread_);
    give_way();
  }
  bool somebody_waits(const void* place) const { return waiting_.count(place) != 0; }
  void wake(const void* place) {
    const auto found = waiting_.find(place);
    if (found == waiting_.end()) return;
    ready_.insert_all(found->second);
    waiting_.erase(found);
  }

  /// Waits until `expected` threads are here. The last one calls `together`, and all can run again.
  template <class Together>
  void meet(Meeting& meeting, const char* what, int expected, Together together) {
    open(meeting, what, expected);
    meeting.waiting.insert(thread_);
    if (++meeting.arrived == meeting.expected) {
      together();
      close(meeting);
    }
    give_way();
  }

  /// Is counted there, and goes on.
  void arrive(Meeting& meeting, const char* what, int expected) {
    open(meeting, what, expected);
    if (++meeting.arrived == meeting.expected) close(meeting);
  }

 private:
  void open(Meeting& meeting, const char* what, int expected) {
    if (meeting.arrived == 0) {
      meeting.what = what;
      meeting.expected = expected;
    } else if (std::strcmp(meeting.what, what) != 0 || meeting.expected != expected) {
      fail("thread " + std::to_string(thread_) + " executes " + what + " for " + std::to_string(expected) +
           " threads while" + describe(meeting));
    }
  }
  void close(Meeting& meeting) {
    ready_.insert_all(meeting.waiting);
    meeting.arrived = 0;
    meeting.waiting = {};
  }

  /// Another thread goes on, or this one where it can.
  void give_way() {
    Fiber& from = fiber();
    thread_ = next();
    if (&fiber() == &from) return;
    ++switches_;
    swap(from, fiber());
  }

  struct Cluster {
    Meeting meeting;
    int running = 0;
  };
  std::size_t cluster() const { return static_cast<std::size_t>(block() / cluster_); }

  void release_cluster() {
    auto& [meeting, running] = clusters_[cluster()];
    meeting.expected = running;
    if (meeting.arrived > 0 && meeting.arrived == running) close(meeting);
  }

  static std::string describe(const Meeting& meeting) {
    return " threads " + meeting.waiting.text() + " wait at " + meeting.what + ", " + std::to_string(meeting.arrived) +
           " of " + std::to_string(meeting.expected) + ".";
  }

  /// Takes the next thread from those that can run.
  int next() {
    int t = -1;
    switch (order_) {
      case Order::Forward:
        t = ready_.first();
        break;
      case Order::Backward:
        t = ready_.last();
        break;
      case Order::Random:
        random_ ^= random_ << 13;
        random_ ^= random_ >> 7;
        random_ ^= random_ << 17;
        t = ready_.first(static_cast<int>(random_ % static_cast<unsigned>(all_)));
        if (t < 0) t = ready_.first();
        break;
    }
    if (t < 0) deadlock();
    ready_.erase(t);
    return t;
  }

  [[noreturn]] void deadlock() const {
    std::string text = "no thread can go on:";
    for (const Meeting& meeting : barriers_) {
      if (meeting.arrived > 0) text += describe(meeting);
    }
    for (const Cluster& each : clusters_) {
      if (each.meeting.arrived > 0) text += describe(each.meeting);
    }
    for (const auto& [place, threads] : waiting_)
      text += " threads " + threads.text() + " wait for a barrier's phase or a count.";
    for (const Warp& warp : warps_) {
      if (warp.meeting.arrived > 0) text += describe(warp.meeting);
    }
    const std::string finished = finished_.text();
    fail(text + (finished.empty() ? "" : " Threads " + finished + " have returned."));
  }

  static void swap(Fiber& from, Fiber& to) {
#if defined(STRATA_HOST_ASAN)
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, to.stack, to.stack_bytes);
#endif
    swapcontext(&from.context, &to.context);
#if defined(STRATA_HOST_ASAN)
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  }

  static void enter();

  static std::unique_ptr<Fiber> new_fiber() {
    auto fiber = std::make_unique<Fiber>();
    fiber->memory.reset(new std::byte[kStackBytes]);
    fiber->stack = fiber->memory.get();
    fiber->stack_bytes = kStackBytes;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->memory.get();
    fiber->context.uc_stack.ss_size = kStackBytes;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, &Team::enter, 0);
    // AddressSanitizer would forget at each switch what it knows of a stack whose size it finds here.
    fiber->context.uc_stack.ss_size = 0;
    return fiber;
  }

  /// A thread's whole life: one block after the other.
  void live() {
    for (;;) {
      body_();
      Fiber& done = fiber();
      done.started.clear();
      done.groups.clear();
      finished_.insert(thread_);
      --running_;
      --clusters_[cluster()].running;
      release_cluster();
      if (running_ > 0) thread_ = next();
      swap(done, running_ > 0 ? fiber() : main_);
    }
  }

  enum class Order { Forward, Backward, Random };
  static Order order_of(const std::string& name) {
    if (name.empty() || name == "forward") return Order::Forward;
    if (name == "backward") return Order::Backward;
    if (name.find_first_not_of("0123456789") != std::string::npos) fail("STRATA_HOST_ORDER is " + name);
    return Order::Random;
  }
  static std::string setting() {
    const char* value = std::getenv("STRATA_HOST_ORDER");
    return value == nullptr ? "" : value;
  }

  const Order order_ = order_of(setting());
  std::uint64_t random_ = (std::strtoull(setting().c_str(), nullptr, 10) + 1) * 0x9e3779b97f4a7c15u;
  std::function<void()> body_;
  int threads_ = 0;  ///< of a block
  int cluster_ = 1;  ///< blocks of one
  int all_ = 0;      ///< of all blocks
  int running_ = 0;
  int thread_ = 0;
  std::int64_t switches_ = 0;
  ThreadSet ready_;
  ThreadSet finished_;
  std::vector<Cluster> clusters_;
  std::map<const void*, ThreadSet> waiting_;  ///< by place in shared memory
  std::vector<Meeting> barriers_;
  std::array<Warp, kMostThreads / kLanes> warps_;
  Fiber main_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
};

/// Like threadIdx, there is one, and everything asks it.
inline Team team;

inline void Team::enter() {
#if defined(STRATA_HOST_ASAN)
  // The very first switch comes from the main program, whose stack is known here alone.
  const void* stack = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &stack, &bytes);
  if (team.main_.stack == nullptr) {
    team.main_.stack = stack;
    team.main_.stack_bytes = bytes;
  }
#endif
  team.live();
}

/// Shows `mine` to the other lanes of the warp, all 32 of which call it; theirs, by lane, until the next call but one.
/// The last lane first calls `together` on them.
template <class Part, class Together>
Part* exchange(const char* what, const Part& mine, Together together) {
  static_assert(sizeof(Part) <= Warp::kPartBytes);
  if (team.lanes() != kLanes) fail(std::string(what) + " in a warp of " + std::to_string(team.lanes()) + " lanes");
  Warp& warp = team.warp();
  Part* parts = reinterpret_cast<Part*>(warp.parts[warp.exchanges % 2]);
  std::memcpy(parts + team.thread() % kLanes, &mine, sizeof mine);
  team.meet(warp.meeting, what, kLanes, [&] {
    together(parts);
    ++warp.exchanges;
  });
  return parts;
}
template <class Part>
Part* exchange(const char* what, const Part& mine) {
  return exchange(what, mine, [](Part*) {});
}

}  // namespace strata_host
