// Parts of a module on the machine's GPU: as the superoptimizer's steps, and as kernels and libraries' work.
#pragma once

#include "emitters/lax/search.h"
#include "emitters/program.h"
#include "runtime/gpu_program.h"

namespace strata::emitters {

/// The part as a program of one step.
EmittedProgram program_of(const hlo::Module& part, const LaxStep& step);

/// What LaxOptions::microseconds asks for: the time of a replayed CUDA graph, in caches that the run before has left,
/// on memory that holds NaN. Error where a step has no kernel, and those of GpuRunner.
Result<double> part_microseconds(const GpuDevice& device, const hlo::Module& part, const LaxStep* step,
                                 const EmitOptions& options, LibraryUse libraries);

}  // namespace strata::emitters
