// Loops of few elementwise operators, written out.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether unroll_loops would write out any loop of the module.
bool has_short_loops(const Module& module);

/// The module with its calls written out (inline_calls), and each loop as calls of its body, one an iteration, where
/// their number is known (counted_loop), the body has only elementwise operators and broadcasts (what it moves has 64
/// elements or fewer), and all iterations together have 512 operators at most. So the iterations fuse with each other
/// and with what is around the loop: JAX prints the rounds of Threefry as a loop of 5 iterations for some platforms.
/// Loops in such loops count as often as they run. Of a module's loops, those are written out that together have 2^14
/// operators, in the text's order. Error where the module is not verified.
Result<Module> unroll_loops(const Module& module);

}  // namespace strata::hlo
