// How many elements a thread loads, from a model of bytes in flight.
#pragma once

#include "emitters/kinds/plan.h"
#include "indexing/interval.h"

namespace strata::emitters {

/// A thread takes `vector` elements that lie together, `unroll` times.
struct AccessWidth {
  int threads = 128;
  int64_t vector = 1;
  int64_t unroll = 1;

  /// Blocks of a loop over so many elements.
  int64_t blocks(int64_t elements) const { return indexing::ceil_div(elements, threads * vector * unroll); }
};

/// For a loop over `elements` elements, one after the other in memory. A vector is 16 bytes of the widest type that is
/// read or written element by element, or one element where these are made of terms (windows, convolutions): each goes
/// through its own. Unrolling goes on until a thread has 16 bytes under way, or 32 beside functions and where elements
/// lie at indices that are read, while there are blocks enough for all multiprocessors: by Little's law 4.4 TB/s · 1 µs
/// is 33 KB a multiprocessor, which its 2048 threads have with one vector each. Where conditions part the elements of a
/// thread, so that it computes them one after the other, and these take long (a hash, a convolution's terms, loads that
/// are waited for), it has as few as let all multiprocessors be busy. Where computing takes longer than moving, threads
/// have as few elements, and blocks as few threads, as let all multiprocessors compute about as much.
///
/// The width divides the number of elements, unless the emitter `takes_rest`: what a last vector would not fill. Then
/// this is so only where large arrays are read at other places than the roots are written, as a vector of these would
/// be single loads far from the neighbours' ones.
AccessWidth choose_access_width(const Fusion& fusion, int64_t elements, bool takes_rest = false);

/// The same for some arrays of the root, of as many elements each, which a kernel of that width computes by loops of
/// their own. Where they are made of terms or parted by conditions, they are shared by as many threads as they alone
/// need: a few sums beside a large array are one a thread. No wider than the whole, whose arrays registers are for.
AccessWidth choose_part_width(const Fusion& fusion, const AccessWidth& whole, int64_t elements_of_whole,
                              const std::vector<hlo::InstructionId>& roots);

/// Launch::min_blocks of a kernel that computes functions of what it moves, whose threads have several elements: three
/// quarters of a multiprocessor's threads, for which 40 registers each are left. As many registers as make all elements
/// of a thread go side by side leave room for 1024 (measured on an H200: 3 to 5 % slower). 0 where nothing but moving
/// is done, or more values may be alive at once: long functions, elements of more than 32 bits, many arrays.
int choose_min_blocks(const Fusion& fusion, int threads, int64_t shared_bytes);

}  // namespace strata::emitters
