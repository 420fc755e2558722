// The mega-kernel's device code: the runtime's core, the platform of a GPU, the block functions of an image, and the
// kernel, as one text that NVRTC compiles.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "machine/target.h"
#include "runtime/compile.h"

namespace strata::megakernel {

struct CudaCode {
  std::string target;       ///< "sm_90a"
  bool profile = false;     ///< it records begin and end of tasks
  std::vector<char> cubin;  ///< with the kernel `strata_megakernel`, or those of a graph
  RegisterUse use;
};

/// `functions`: CUDA C++ that defines, in namespace strata::megakernel,
///
///   STRATA_DEVICE void load_task(const Descriptor& task, CudaLoad& side);        by one thread
///   STRATA_DEVICE void compute_task(const Descriptor& task, CudaCompute& side);  by kComputeThreads threads
///
/// or templates over what a side is, for any task.record.function; core/ring.h says what the sides can do, and
/// device/platform.h what side.platform() can. It may include headers of CUDA, as <…>; includes of "…" are left out.
///
/// `graph_functions`: 0, or how many block functions there are. Then, in the place of the mega-kernel, there is a
/// kernel strata_graph_N for each block function N (device/graph.h), and the functions have, as task_switch makes them,
/// strata_device::load_of_task and compute_of_task.
std::string cuda_source(std::string_view functions, bool profile, int graph_functions = 0);

// Parts of it that the program of another target has as well (megakernel/fibers).

/// What comes before a platform: the runtime's core, and the words that it shares with the host.
std::string core_source();
/// What comes after the block functions: a block's shared memory and the roles of its threads.
std::string block_source();
/// And, after that, of a kernel of a graph.
std::string graph_source();
/// Appends headers, whose order is that of their includes: includes of "…" are left out.
void append_headers(std::string& text, std::string_view headers);
/// Of what host and device pass to each other as bytes; and kProfile.
std::string agreement_source(std::string_view platform, bool profile);

/// Compiles cuda_source(functions, profile, graph_functions), or takes what an earlier call left in the cache, if there
/// is one. With STRATA_EACH_LANE_RELEASES in the environment all lanes of a warp say that they are done with a stage,
/// as racecheck needs it (device/platform.h). Errors (Unsupported): a target without bulk copies; text that does not
/// compile, with the compiler's log; more than `most_spilled` bytes of registers that do not fit a thread and are
/// spilled. (Environment): no NVRTC.
Result<CudaCode> compile_cuda_code(std::string_view functions, const Target& target, bool profile, int most_spilled = 0,
                                   ResultCache* cache = nullptr, int graph_functions = 0);

}  // namespace strata::megakernel
