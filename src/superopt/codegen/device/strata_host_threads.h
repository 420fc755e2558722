// Runs the threads of a block, of the blocks of a cluster, or of all blocks of a launch that wait for each other, on
// the host, one at a time, each on a stack of its own. One runs until it must wait for others; who is next is up to
// STRATA_HOST_ORDER in the environment:
//   forward   the first thread that can run (the default)
//   backward  the last one
//   a number  any of them, drawn from this seed
// So a thread is as far ahead of the others as barriers let it, and where one is missing the result depends on the
// order. A thread that spins on memory pauses between two looks: it goes on when all others have paused or wait, so
// time is counted in rounds of such looks. What no GPU would survive ends the program with a message.
//
// The functions that are no templates come last, in this text and in those behind it: compiling them takes longer than
// most generated programs. Where they are compiled apart (STRATA_HOST_APART; see cmake/StrataTargets.cmake), there are
// declarations alone.
#ifndef STRATA_HOST_THREADS
#define STRATA_HOST_THREADS
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
#ifndef STRATA_HOST_INLINE
#define STRATA_HOST_INLINE inline
#endif

namespace strata_host {

constexpr int kMostBlockThreads = 1024;
constexpr int kMostClusterBlocks = 8;
constexpr int kMostThreads = 1 << 16;  // that run together
constexpr int kBarriers = 16;          // of a block
constexpr int kLanes = 32;
constexpr std::size_t kStackBytes = 256 << 10;

[[noreturn]] void fail(const std::string& why);

/// A set of the threads that run together: a bit for each, and one for each word that has any.
class ThreadSet {
 public:
  /// Empty, for numbers below `threads`.
  void reset(int threads) {
    words_.assign(static_cast<std::size_t>(threads + 63) / 64, 0);
    any_.assign((words_.size() + 63) / 64, 0);
  }
  void insert(int t) {
    words_[static_cast<std::size_t>(t) / 64] |= std::uint64_t{1} << t % 64;
    any_[static_cast<std::size_t>(t) / 4096] |= std::uint64_t{1} << t / 64 % 64;
  }
  void erase(int t) {
    if ((words_[static_cast<std::size_t>(t) / 64] &= ~(std::uint64_t{1} << t % 64)) == 0)
      any_[static_cast<std::size_t>(t) / 4096] &= ~(std::uint64_t{1} << t / 64 % 64);
  }
  /// The first from `begin` on; -1 if there is none.
  int first(int begin = 0) const {
    auto w = static_cast<std::size_t>(begin) / 64;
    if (w >= words_.size()) return -1;
    const std::uint64_t rest = words_[w] & ~std::uint64_t{0} << begin % 64;
    if (rest != 0) return static_cast<int>(w * 64) + std::countr_zero(rest);
    ++w;
    std::uint64_t mask = ~std::uint64_t{0} << w % 64;
    for (std::size_t a = w / 64; a < any_.size(); ++a, mask = ~std::uint64_t{0}) {
      if ((any_[a] & mask) == 0) continue;
      w = a * 64 + static_cast<std::size_t>(std::countr_zero(any_[a] & mask));
      return static_cast<int>(w * 64) + std::countr_zero(words_[w]);
    }
    return -1;
  }
  int last() const {
    for (std::size_t a = any_.size(); a-- > 0;) {
      if (any_[a] == 0) continue;
      const std::size_t w = a * 64 + 63 - static_cast<std::size_t>(std::countl_zero(any_[a]));
      return static_cast<int>(w * 64) + 63 - std::countl_zero(words_[w]);
    }
    return -1;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> any_;
};

/// "0-31, 64".
std::string text_of(std::vector<int> threads);

/// Where threads wait until `expected` have come.
struct Meeting {
  const char* what = "";  ///< what they execute
  int expected = 0;
  int arrived = 0;
  std::vector<int> waiting;
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
  ucontext_t context;   ///< at its begin; with AddressSanitizer, at the place where it waits
  void* place[5] = {};  ///< of __builtin_setjmp: where it waits
  bool begun = false;
  std::unique_ptr<std::byte[]> memory;
  const void* stack = nullptr;  ///< for AddressSanitizer, with its bytes
  std::size_t stack_bytes = 0;
  std::vector<Copy> started;              ///< not yet committed
  std::vector<std::vector<Copy>> groups;  ///< oldest first
  void (*meet)() = nullptr;               ///< of the team that runs emitted code
};

class Team {
 public:
  Team();
  ~Team();

  /// Number of the block of those that run together, and in its cluster, of the thread in its block, and of a block's
  /// threads.
  int block() const { return block_; }
  int rank() const { return block() % cluster_; }
  int cluster_blocks() const { return cluster_; }
  int thread() const { return thread_of_block_; }
  int threads() const { return threads_; }
  Fiber& fiber() { return *fibers_[static_cast<std::size_t>(thread_)]; }
  Meeting& barrier(int id) { return barriers_[static_cast<std::size_t>(block() * kBarriers + id)]; }
  Warp& warp() {
    const int warps = (threads_ + kLanes - 1) / kLanes;
    return *warps_[static_cast<std::size_t>(block() * warps + thread() / kLanes)];
  }
  int lanes() const { return std::min(kLanes, threads_ - thread() / kLanes * kLanes); }
  /// How often one thread went on in another's place.
  std::int64_t switches() const { return switches_; }

  /// Calls `body` for every thread of blocks in clusters of this many, which all run together.
  void run(int blocks, int cluster, int threads, std::function<void()> body);

  /// All threads of the cluster that have not returned meet.
  void meet_all(const char* what);

  /// Waits until another thread wakes those that wait at a place.
  void wait_at(const void* place);
  bool somebody_waits(const void* place) const;
  void wake(const void* place);

  /// Between two looks at memory that another thread writes.
  void pause();
  /// What others may look for has been written.
  void changed() { ++changes_; }
  /// Rounds of looks in which nothing had been written since the last one: the time that has passed for those who wait.
  std::uint64_t idle_rounds() const { return idle_rounds_; }
  bool is_idle() const { return idle_; }
  /// Whether what may come late comes now: at the first look where threads run forward, as late as it may where they
  /// run backward, else at one of a few looks, drawn.
  bool comes_now() {
    if (order_ == Order::Random) return draw() % 4 == 0 || idle_;
    return order_ == Order::Forward || idle_;
  }

  /// Waits until `expected` threads are here. The last one calls `together`, and all can run again.
  template <class Together>
  void meet(Meeting& meeting, const char* what, int expected, Together together) {
    meet(
        meeting, what, expected, [](void* it) { (*static_cast<Together*>(it))(); }, &together);
  }
  void meet(Meeting& meeting, const char* what, int expected, void (*together)(void*), void* it);

  /// Is counted there, and goes on.
  void arrive(Meeting& meeting, const char* what, int expected);

 private:
  void open(Meeting& meeting, const char* what, int expected);
  void close(Meeting& meeting);

  /// Another thread goes on, or this one where it can.
  void give_way();

  struct Cluster {
    Meeting meeting;
    int running = 0;
  };
  std::size_t cluster() const { return static_cast<std::size_t>(block() / cluster_); }

  void release_cluster();

  static std::string describe(const Meeting& meeting);

  /// All that have paused look again.
  void begin_round();

  std::uint64_t draw() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    return random_ ^= random_ << 17;
  }

  /// The next thread of those that can run.
  int next();
  void take(int t);

  [[noreturn]] void deadlock() const;

  static void swap(Fiber& from, Fiber& to);
#if !defined(STRATA_HOST_ASAN)
  [[noreturn]] static void go_on(Fiber& to);
#endif

  static void enter();

  static std::unique_ptr<Fiber> new_fiber();

  /// A thread's whole life: one block after the other.
  void live();

  enum class Order { Forward, Backward, Random };
  static Order order_of(const std::string& name);
  static std::string setting();

  const Order order_;
  std::uint64_t random_;
  std::function<void()> body_;
  int threads_ = 0;  ///< of a block
  int cluster_ = 1;  ///< blocks of one
  int all_ = 0;      ///< of all blocks
  int running_ = 0;
  int thread_ = 0;
  int block_ = 0;
  int thread_of_block_ = 0;
  std::int64_t switches_ = 0;
  ThreadSet ready_;
  std::vector<int> finished_;
  std::vector<int> paused_;
  std::uint64_t changes_ = 0;
  std::uint64_t seen_changes_ = 0;  ///< at the begin of the last round
  std::uint64_t idle_rounds_ = 0;
  bool idle_ = false;  ///< nothing was written in the round before this one
  std::vector<Cluster> clusters_;
  std::map<const void*, std::vector<int>> waiting_;  ///< by place in shared memory
  std::vector<Meeting> barriers_;
  std::vector<std::unique_ptr<Warp>> warps_;
  Fiber main_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
};

/// Like threadIdx, there is one, and everything asks it.
extern Team team;

/// Shows `mine`, of so many bytes, to the other lanes of the warp, all 32 of which call it; theirs, by lane, until the
/// next call but one. The last lane first calls `together` on them, if there is one.
void* exchange_bytes(const char* what, const void* mine, std::size_t bytes, void (*together)(void*) = nullptr);
template <class Part>
Part* exchange(const char* what, const Part& mine) {
  static_assert(sizeof(Part) <= Warp::kPartBytes);
  return static_cast<Part*>(exchange_bytes(what, &mine, sizeof mine));
}
/// `Together` has no captures.
template <class Part, class Together>
Part* exchange(const char* what, const Part& mine, Together) {
  static_assert(sizeof(Part) <= Warp::kPartBytes);
  const auto together = [](void* lanes) { Together{}(static_cast<Part*>(lanes)); };
  return static_cast<Part*>(exchange_bytes(what, &mine, sizeof mine, together));
}

#if !defined(STRATA_HOST_APART)
STRATA_HOST_INLINE void fail(const std::string& why) {
  std::fprintf(stderr, "on the host: %s\n", why.c_str());
  std::_Exit(3);
}

STRATA_HOST_INLINE std::string text_of(std::vector<int> threads) {
  std::sort(threads.begin(), threads.end());
  std::string result;
  for (std::size_t n = 0; n < threads.size(); ++n) {
    const std::size_t begin = n;
    while (n + 1 < threads.size() && threads[n + 1] == threads[n] + 1) ++n;
    result += (result.empty() ? "" : ", ") + std::to_string(threads[begin]);
    if (n > begin) result += "-" + std::to_string(threads[n]);
  }
  return result;
}

STRATA_HOST_INLINE void Team::run(int blocks, int cluster, int threads, std::function<void()> body) {
  if (threads < 1 || threads > kMostBlockThreads) fail("a block of " + std::to_string(threads) + " threads");
  if (cluster < 1 || cluster > kMostClusterBlocks) fail("a cluster of " + std::to_string(cluster) + " blocks");
  const int warps = blocks * ((threads + kLanes - 1) / kLanes);
  if (warps > kMostThreads / kLanes) fail(std::to_string(blocks) + " blocks are too many to run together");
  while (static_cast<int>(warps_.size()) < warps) warps_.push_back(std::make_unique<Warp>());
  threads_ = threads;
  cluster_ = cluster;
  barriers_.resize(static_cast<std::size_t>(blocks * kBarriers));
  clusters_.assign(static_cast<std::size_t>(blocks / cluster), {});
  for (Cluster& each : clusters_) each.running = cluster * threads;
  all_ = running_ = blocks * threads;
  body_ = std::move(body);
  ready_.reset(all_);
  finished_.clear();
  waiting_.clear();
  paused_.clear();
  while (static_cast<int>(fibers_.size()) < all_) fibers_.push_back(new_fiber());
  for (int t = 0; t < all_; ++t) ready_.insert(t);
  main_.begun = true;
  take(next());
  swap(main_, fiber());
}

STRATA_HOST_INLINE void Team::meet_all(const char* what) {
  Meeting& meeting = clusters_[cluster()].meeting;
  meeting.what = what;
  meeting.waiting.push_back(thread_);
  ++meeting.arrived;
  release_cluster();
  give_way();
}

STRATA_HOST_INLINE void Team::wait_at(const void* place) {
  waiting_[place].push_back(thread_);
  give_way();
}

STRATA_HOST_INLINE bool Team::somebody_waits(const void* place) const { return waiting_.count(place) != 0; }

STRATA_HOST_INLINE void Team::wake(const void* place) {
  const auto found = waiting_.find(place);
  if (found == waiting_.end()) return;
  for (const int t : found->second) ready_.insert(t);
  waiting_.erase(found);
}

STRATA_HOST_INLINE void Team::pause() {
  paused_.push_back(thread_);
  give_way();
}

STRATA_HOST_INLINE void Team::arrive(Meeting& meeting, const char* what, int expected) {
  open(meeting, what, expected);
  if (++meeting.arrived == meeting.expected) close(meeting);
}

STRATA_HOST_INLINE void Team::open(Meeting& meeting, const char* what, int expected) {
  if (meeting.arrived == 0) {
    meeting.what = what;
    meeting.expected = expected;
  } else if (std::strcmp(meeting.what, what) != 0 || meeting.expected != expected) {
    fail("thread " + std::to_string(thread_) + " executes " + what + " for " + std::to_string(expected) +
         " threads while" + describe(meeting));
  }
}

STRATA_HOST_INLINE void Team::close(Meeting& meeting) {
  for (const int t : meeting.waiting) ready_.insert(t);
  meeting.arrived = 0;
  meeting.waiting.clear();
}

STRATA_HOST_INLINE void Team::give_way() {
  Fiber& from = fiber();
  take(next());
  if (&fiber() == &from) return;
  ++switches_;
  swap(from, fiber());
}

STRATA_HOST_INLINE void Team::release_cluster() {
  auto& [meeting, running] = clusters_[cluster()];
  meeting.expected = running;
  if (meeting.arrived > 0 && meeting.arrived == running) close(meeting);
}

STRATA_HOST_INLINE std::string Team::describe(const Meeting& meeting) {
  return " threads " + text_of(meeting.waiting) + " wait at " + meeting.what + ", " + std::to_string(meeting.arrived) +
         " of " + std::to_string(meeting.expected) + ".";
}

STRATA_HOST_INLINE void Team::begin_round() {
  idle_ = changes_ == seen_changes_;
  if (idle_) ++idle_rounds_;
  seen_changes_ = changes_;
  for (const int t : paused_) ready_.insert(t);
  paused_.clear();
}

STRATA_HOST_INLINE int Team::next() {
  int t = ready_.first();
  if (t < 0) {
    begin_round();
    t = ready_.first();
  }
  if (t < 0) deadlock();
  if (order_ == Order::Backward) return ready_.last();
  if (order_ == Order::Forward) return t;
  const int drawn = ready_.first(static_cast<int>(draw() % static_cast<unsigned>(all_)));
  return drawn < 0 ? t : drawn;
}

STRATA_HOST_INLINE void Team::take(int t) {
  ready_.erase(t);
  thread_ = t;
  block_ = t / threads_;
  thread_of_block_ = t % threads_;
}

STRATA_HOST_INLINE void Team::deadlock() const {
  std::string text = "no thread can go on:";
  for (const Meeting& meeting : barriers_) {
    if (meeting.arrived > 0) text += describe(meeting);
  }
  for (const Cluster& each : clusters_) {
    if (each.meeting.arrived > 0) text += describe(each.meeting);
  }
  for (const auto& [place, threads] : waiting_)
    text += " threads " + text_of(threads) + " wait for a barrier's phase or a count.";
  for (const auto& warp : warps_) {
    if (warp->meeting.arrived > 0) text += describe(warp->meeting);
  }
  const std::string finished = text_of(finished_);
  fail(text + (finished.empty() ? "" : " Threads " + finished + " have returned."));
}

STRATA_HOST_INLINE std::unique_ptr<Fiber> Team::new_fiber() {
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

STRATA_HOST_INLINE void Team::live() {
  for (;;) {
    body_();
    Fiber& done = fiber();
    done.started.clear();
    done.groups.clear();
    finished_.push_back(thread_);
    --running_;
    --clusters_[cluster()].running;
    release_cluster();
    if (running_ > 0) take(next());
    swap(done, running_ > 0 ? fiber() : main_);
  }
}

STRATA_HOST_INLINE Team::Order Team::order_of(const std::string& name) {
  if (name.empty() || name == "forward") return Order::Forward;
  if (name == "backward") return Order::Backward;
  if (name.find_first_not_of("0123456789") != std::string::npos) fail("STRATA_HOST_ORDER is " + name);
  return Order::Random;
}

STRATA_HOST_INLINE std::string Team::setting() {
  const char* value = std::getenv("STRATA_HOST_ORDER");
  return value == nullptr ? "" : value;
}

#if defined(STRATA_HOST_ASAN)
STRATA_HOST_INLINE void Team::swap(Fiber& from, Fiber& to) {
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, to.stack, to.stack_bytes);
  swapcontext(&from.context, &to.context);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}
#else
/// swapcontext saves the signal mask as well, by a system call; so it is for the first time alone.
[[gnu::noinline]] STRATA_HOST_INLINE void Team::swap(Fiber& from, Fiber& to) {
  if (__builtin_setjmp(from.place) == 0) go_on(to);
}
[[gnu::noinline]] STRATA_HOST_INLINE void Team::go_on(Fiber& to) {
  if (to.begun) __builtin_longjmp(to.place, 1);
  to.begun = true;
  setcontext(&to.context);
  fail("setcontext");
}
#endif

STRATA_HOST_INLINE void Team::meet(Meeting& meeting, const char* what, int expected, void (*together)(void*),
                                   void* it) {
  open(meeting, what, expected);
  meeting.waiting.push_back(thread_);
  if (++meeting.arrived == meeting.expected) {
    together(it);
    close(meeting);
  }
  give_way();
}

STRATA_HOST_INLINE Team::Team()
    : order_(order_of(setting())), random_((std::strtoull(setting().c_str(), nullptr, 10) + 1) * 0x9e3779b97f4a7c15u) {}
STRATA_HOST_INLINE Team::~Team() = default;

STRATA_HOST_INLINE void Team::enter() {
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

STRATA_HOST_INLINE Team team;

STRATA_HOST_INLINE void* exchange_bytes(const char* what, const void* mine, std::size_t bytes,
                                        void (*together)(void*)) {
  if (team.lanes() != kLanes) fail(std::string(what) + " in a warp of " + std::to_string(team.lanes()) + " lanes");
  Warp& warp = team.warp();
  std::byte* parts = warp.parts[warp.exchanges % 2];
  std::memcpy(parts + static_cast<std::size_t>(team.thread() % kLanes) * bytes, mine, bytes);
  team.meet(warp.meeting, what, kLanes, [&] {
    if (together != nullptr) together(parts);
    ++warp.exchanges;
  });
  return parts;
}
#endif  // STRATA_HOST_APART

}  // namespace strata_host
#endif  // STRATA_HOST_THREADS
