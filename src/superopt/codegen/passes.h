// The optimizer's passes between a proved µGraph and its code, each of which can be turned off (Mirage, OSDI'25,
// section 6 and Figure 12). Code is right with any of them off; docs/benchmarks.md shows what each saves.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "superopt/codegen/emission.h"

namespace strata {

struct Passes {
  bool thread_graphs = true;  ///< elementwise chains as one loop in registers
  bool finer_loops = true;    ///< tiles of other extents along the loop
  bool epilogues = true;      ///< elementwise kernels behind a sum, and norms before one, by its blocks
  bool registers = true;      ///< values in registers; off: every operator passes through shared memory, with barriers
  bool layouts = true;        ///< the best layout of register tiles; off: the first that is legal
  bool schedules = true;      ///< warps, groups, stages, clusters; off: one warp and two stages
  bool spreading = true;      ///< one share of the blocks on each multiprocessor
  bool overlap = true;        ///< programmatic dependent launch
  bool bulk = true;           ///< tiles by TMA, also to several blocks at once
  bool libraries = true;      ///< predefined operators by cuBLASLt and cuDNN where that is faster
  bool memory_plan = true;    ///< tensors that do not live together share shared memory
  bool merging = true;        ///< a kernel and the one that combines its results in one launch
  bool emission = true;       ///< predefined operators that no µGraph takes by the emitters, many in a kernel
  bool grouping = true;       ///< kernels that do not need each other in one launch
  bool one_kernel = false;    ///< all launches as one persistent kernel (one_kernel.h)
  /// Who writes those kernels; nobody where null.
  std::shared_ptr<const KernelEmitter> emitter = nullptr;

  friend bool operator==(const Passes&, const Passes&) = default;
};

struct NamedPass {
  std::string_view name;
  bool Passes::*on;
};

/// All passes by the names that `--disable-pass` takes.
constexpr std::array<NamedPass, 14> kPasses{{{"thread-graphs", &Passes::thread_graphs},
                                             {"finer-loops", &Passes::finer_loops},
                                             {"epilogues", &Passes::epilogues},
                                             {"registers", &Passes::registers},
                                             {"layouts", &Passes::layouts},
                                             {"schedules", &Passes::schedules},
                                             {"spreading", &Passes::spreading},
                                             {"overlap", &Passes::overlap},
                                             {"bulk", &Passes::bulk},
                                             {"libraries", &Passes::libraries},
                                             {"memory-plan", &Passes::memory_plan},
                                             {"merging", &Passes::merging},
                                             {"emission", &Passes::emission},
                                             {"grouping", &Passes::grouping}}};

}  // namespace strata
