// What the launches of a module's manifest touch (GpuLaunch::accesses): kernels of fusions and of the superoptimizer.
#pragma once

#include <functional>
#include <vector>

#include "emitters/emit.h"
#include "runtime/launch_manifest.h"

namespace strata::emitters {

/// A launch of another manifest, as a step of this one: with the buffers that stand for its own. What it touches is
/// said by the indices of these.
GpuLaunch placed_launch(GpuLaunch launch, const LaunchManifest& from,
                        const std::function<const GpuBuffer&(const std::string&)>& stands_for);

/// What the kernels of these fusions touch, found in their code, and the classes of arguments of all launches that say
/// what they touch. Expects offsets. Error where that cannot be (runtime/launch_accesses.h).
Result<void> add_accesses(LaunchManifest& manifest, const std::vector<const EmittedFusion*>& fusions);

}  // namespace strata::emitters
