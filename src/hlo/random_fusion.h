// Random HLO modules for tests: what generated code is compared with the interpreter on.
#pragma once

#include <functional>

#include "hlo/hlo.h"

namespace strata::hlo {

struct RandomFusionOptions {
  int max_instructions = 16;   ///< besides parameters, constants and what supplies operands
  int64_t max_elements = 300;  ///< of one array
  /// Which operators and types may occur; all by default. Parameter, constant, tuple, get-tuple-element, broadcast,
  /// convert, what keeps NaN out (compare and select), pred and s32 always may.
  std::function<bool(Opcode)> allows = [](Opcode) { return true; };
  std::function<bool(ElementType)> allows_type = [](ElementType) { return true; };
  /// Calls, conditionals and loops.
  bool control = true;
};

/// Not operators without meaning here (Unsupported), nor linear algebra, normalisation and scan: they are no part of
/// a fusion, and grow the differences that rounding makes before them without bounds (a matrix that is nearly
/// singular).
bool random_fusions_have(Opcode opcode);

/// A verified module of one fusion (its entry) and what it calls; the same for the same seed and options on every
/// machine. Sizes are small, often 1 or prime, sometimes 0. Its value depends on no order of combination but by the
/// rounding of sums and products (scatters that overwrite have unique indices, sorts are stable), and on no sign of a
/// NaN. Where functions are not exact to the bit, comparisons and casts further on may still differ: `allows` can leave
/// those functions out.
ModulePtr random_fusion(uint64_t seed, const RandomFusionOptions& options = {});

}  // namespace strata::hlo
