// One block of a kernel with barriers or shuffles on the CPU: its threads are fibers. Folder-internal.
#pragma once

#include <cstdint>

#include "support/error.h"

namespace strata::emitters {

enum class ThreadOrder;

/// Compiled code of one thread.
using ThreadCode = void (*)(void* const* buffers, int32_t block, int32_t thread, void* shared);

/// Runs the threads 0 to `threads` of a block until all have returned. Between barriers a warp runs after the other,
/// in `order`, and its lanes one after the other. Error (InvalidInput) where threads wait for what cannot come: a
/// barrier or a shuffle that others do not reach.
Result<void> run_fibers(ThreadCode code, void* const* buffers, int32_t block, int threads, void* shared,
                        ThreadOrder order);

/// What the names in compiled code stand for.
extern "C" {
void strata_cpu_barrier();
void strata_cpu_part_barrier(uint32_t part, uint32_t threads);
uint32_t strata_cpu_shuffle_down(uint32_t value, uint32_t distance);
uint32_t strata_cpu_shuffle_xor(uint32_t value, uint32_t mask);
uint32_t strata_cpu_shuffle_index(uint32_t value, uint32_t lane);
}

}  // namespace strata::emitters
