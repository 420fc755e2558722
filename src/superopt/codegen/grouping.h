// Launches that do not need each other as one: its blocks choose by their number whose work they do. What comes before
// and after such a group does not know of it. docs/codegen.md, "Independent kernels in one launch".
#pragma once

#include <string>
#include <vector>

#include "superopt/codegen/generate.h"

namespace strata {

/// Whether launches can be one, as far as their own form goes: they are generated, take registers from no other warps,
/// and wait for no block beyond their cluster. Those without clusters can have the others', which are all of one size.
bool can_share_launch(const std::vector<const KernelLaunch*>& launches);

/// Estimated seconds of launches as one. Those that do not need each other; for one, its own time.
double seconds_together(const std::vector<const KernelLaunch*>& launches, const Target& target);

/// Numbers of launches that run as one, in an order in which all can run: each launch is in one list, those of a list
/// do not need each other, directly or through others. Lists are made two by two, those first that save most by the
/// model; none is made that saves nothing.
std::vector<std::vector<size_t>> plan_groups(const std::vector<KernelLaunch>& launches, const Target& target);

/// Makes the program's launches those groups. Returns the functions of the new ones, to stand after all others.
/// `spreading`: a multiprocessor takes no more than its share of their blocks (spreading_bytes).
std::string group_launches(GeneratedProgram& program, const Target& target, bool spreading);

}  // namespace strata
