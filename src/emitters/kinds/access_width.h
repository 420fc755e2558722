// How many elements a thread loads, from a model of bytes in flight.
#pragma once

#include "emitters/kinds/plan.h"

namespace strata::emitters {

/// A thread takes `vector` elements that lie together, `unroll` times.
struct AccessWidth {
  int threads = 128;
  int64_t vector = 1;
  int64_t unroll = 1;
};

/// For a loop over `elements` elements, one after the other in memory. A vector is 16 bytes of the widest type that is
/// read or written element by element. Unrolling goes on until a thread has 16 bytes under way, or 32 beside functions
/// and where elements lie at indices that are read, while there are blocks enough for all multiprocessors: by Little's
/// law 4.4 TB/s · 1 µs is 33 KB a multiprocessor, which its 2048 threads have with one vector each.
AccessWidth choose_access_width(const Fusion& fusion, int64_t elements);

}  // namespace strata::emitters
