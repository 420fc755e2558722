// Loops over many independent elements, on plain threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace strata {

/// body(begin, end) for pieces that cover [0, count), on all cores; on the caller's thread where there are few
/// elements.
template <class Body>
void for_pieces(size_t count, const Body& body) {
  constexpr size_t kLeast = size_t{1} << 18;
  // How many cores there are is read from a file, which takes longer than a few elements.
  const size_t most = count / kLeast;
  const size_t threads = most < 2 ? most : std::min<size_t>(std::thread::hardware_concurrency(), most);
  if (threads < 2) {
    body(size_t{0}, count);
    return;
  }
  std::vector<std::jthread> running;
  for (size_t t = 0; t < threads; ++t)
    running.emplace_back([&body, begin = count * t / threads, end = count * (t + 1) / threads] { body(begin, end); });
}

/// For a task that does nothing but call TaskOrder::run: it reads its captures before that can say anything.
#define STRATA_UNORDERED __attribute__((no_sanitize("thread")))

/// Says with atomics of its own what oneTBB guarantees: what comes before a parallel loop is seen in its tasks, and
/// what these do after it. Debian's oneTBB is not built with ThreadSanitizer, which sees neither otherwise. Nothing is
/// said between tasks, whose races are still found.
class TaskOrder {
 public:
  TaskOrder() { forked_.store(true, std::memory_order_release); }
  template <class Task>
  void run(const Task& task) {
    if (!forked_.load(std::memory_order_acquire)) return;  // always true
    task();
    done_.fetch_add(1, std::memory_order_release);
  }
  void join() const { done_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> forked_ = false;
  std::atomic<size_t> done_ = 0;
};

}  // namespace strata
