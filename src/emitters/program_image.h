// A program of an HLO module as what the launcher runs (runtime/gpu_program.h): a manifest, its modules and constants.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "emitters/loop_kernel.h"
#include "emitters/program.h"
#include "runtime/gpu_program.h"

namespace strata::emitters {

/// What the driver loads for a fusion: a cubin, or PTX. Called by several threads at once.
using KernelLoader = std::function<Result<std::string>(const EmittedFusion&)>;
/// The same for a loop that is one kernel.
using LoopLoader = std::function<Result<std::string>(const LoopKernel&)>;

/// Links PTX by nvJitLink.
Result<std::string> cubin_of(const EmittedFusion& fusion, const std::string& arch);
Result<std::string> cubin_of(const LoopKernel& loop, const std::string& arch);

struct EmittedImage {
  ProgramImage image;
  std::vector<LoopKernel> loops;     ///< that are one kernel
  std::vector<std::string> buffers;  ///< by buffer of the program: its name in the manifest; empty where nothing has it
};

/// `loader` and `loops` make the modules (by default cubin_of), on all cores. Where there is a loader, but none of
/// loops, no loop is one kernel. Steps that the interpreter runs use `device`, which
/// must outlive the image; where it is null, they are listed and cannot run. Results share memory with what is between
/// steps, or have memory of their own (`results`). Errors: the loader's; Unsupported where the module demands of a
/// result that it lies in a parameter which is another result too.
Result<EmittedImage> image_of(const EmittedProgram& program, const EmitOptions& options,
                              const KernelLoader& loader = {}, const GpuDevice* device = nullptr,
                              ResultMemory results = ResultMemory::Shared, const LoopLoader& loops = {});

/// Makes results that may lie in parameters be written there by kernels that read these, or what takes their place,
/// where nothing else reads it any more (overwrites.h): such steps become updates in place, of which written_over
/// knows. A result with memory of its own is not, but where it must lie in the parameter: it would be copied from
/// there.
Result<void> write_over_operands(EmittedProgram& program, ResultMemory results);
/// Of each buffer, the one over whose array the step that makes it may write, because that step copies it and it is all
/// that is read of it from there on; -1: none.
std::vector<int> written_over(const EmittedProgram& program);
/// The leaf of a loop's state over whose value the body may write the next one of `leaf`; -1: none. `over` is the
/// body's written_over.
int leaf_written_over(const LoopStep& loop, const std::vector<int>& over, size_t leaf);

}  // namespace strata::emitters
