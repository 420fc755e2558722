// What a part costs where it stands: a kernel or library that takes it takes nothing of what is around it.
#pragma once

#include "emitters/lax/parts.h"
#include "emitters/library/calls.h"
#include "machine/target.h"

namespace strata::emitters {

/// By the models, µs: kernels of what is left of a module when libraries have what they compute sooner, and those.
/// Calls that the module has already count nothing.
struct LaxTimes {
  double all = 0;
  double products = 0;  ///< of that, the libraries'
};
LaxTimes microseconds_of(const hlo::Module& module, const Target& target, LibraryUse libraries);

/// A part with what kernels may compute in one pass with it: as far as elementwise operators and moves reach from its
/// inputs and its result, reductions of the result included.
struct Surroundings {
  hlo::Module module;  ///< names go by the order of instructions, so that equal surroundings have equal texts
  LaxPart part;        ///< the same part, of `module`'s entry
};
Surroundings surroundings_of(const hlo::Module& module, const LaxPart& part);

/// By the models, µs: what the surroundings take beside a call of the part, less what they take beside the kernels and
/// libraries that compute the part. Values that a kernel would compute on its way are written and read again, weights
/// transposed, inputs filled up.
double microseconds_around(const Surroundings& surroundings, const Target& target, LibraryUse libraries);

}  // namespace strata::emitters
