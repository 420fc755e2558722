// Tasks that share nothing, on this many threads.
#pragma once

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>

#include "support/parallel.h"

namespace strata {

/// task(i) for each i < count, on at most `threads` threads, begun in their order; what the tasks did is seen after
/// the call.
template <class Task>
void in_parallel(int threads, size_t count, const Task& task) {
  TaskOrder order;
  std::atomic<size_t> next = 0;
  const auto take_all = [&] {
    for (size_t i = next++; i < count; i = next++) task(i);
  };
  const size_t takers = std::min(count, static_cast<size_t>(std::max(1, threads)));
  tbb::task_arena(threads).execute(
      [&] { tbb::parallel_for(size_t{0}, takers, [&](size_t) STRATA_UNORDERED { order.run(take_all); }); });
  order.join();
}

}  // namespace strata
