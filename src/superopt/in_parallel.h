// Tasks that share nothing, on so many threads.
#pragma once

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "support/parallel.h"

namespace strata {

/// task(i) for each i < count, on at most `threads` threads; what the tasks did is seen behind the call.
template <class Task>
void in_parallel(int threads, size_t count, const Task& task) {
  TaskOrder order;
  tbb::task_arena(threads).execute(
      [&] { tbb::parallel_for(size_t{0}, count, [&](size_t i) STRATA_UNORDERED { order.run([&] { task(i); }); }); });
  order.join();
}

}  // namespace strata
