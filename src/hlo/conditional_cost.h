// Which branches of a conditional are computed whether or not they are taken.
#pragma once

#include <vector>

#include "hlo/hlo.h"
#include "hlo/input_output_alias.h"

namespace strata::hlo {

/// Of each branch of a conditional of `computation` whether it is cheap. It is where computing it takes less time than
/// deciding on the device whether it is to run: a few elementwise operators, movements and reductions of few elements.
///
/// All are cheap, too, however large, where they are elementwise and all of them together move hardly more than each
/// alone, with what must be written in its place: branches of the same arrays, or one that changes arrays beside one
/// that returns them, where these are computed elementwise just before (the kernel that writes them chooses) or must be
/// copied (parameters that the caller keeps, `given` being those that it gives away).
/// None is where the result holds tuples within tuples.
std::vector<bool> cheap_branches(const Module& module, const Computation& computation, const Instruction& conditional,
                                 const InputOutputAliases& given);

/// The leaf of the parameter that each leaf of a branch's result is, where all of them are leaves of it.
std::optional<std::vector<int64_t>> passed_through(const Computation& branch);

}  // namespace strata::hlo
