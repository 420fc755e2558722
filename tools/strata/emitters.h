// What commands take from HLO, the emitters and the mega-kernel, which stand on MLIR and LLVM. full/ has it. A build
// without these (STRATA_EMITTERS in CMakeLists.txt) has core/ in its place: the same functions, and each says what is
// missing. The commands `emit` and `decode` (commands.h) are in both, too.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/doctor.h"
#include "search_options.h"
#include "source.h"
#include "superopt/codegen/emission.h"
#include "support/error.h"

namespace strata::cli {

/// What a message says to do about a build without emitters.
inline constexpr std::string_view kBuildEmitters =
    "install the Python package `strata`, or build with `make` (cmake -DSTRATA_EMITTERS=ON)";

/// What makes kernels of the operators of which no µGraph is made; null: nothing in this build.
std::shared_ptr<const KernelEmitter> kernel_emitter();

/// What `strata doctor` says of them.
Finding emitters_finding();

/// Canonical text of an HLO module.
Result<std::string> canonical_module(const Source& source);

/// What `strata show` prints of a file of plans (megakernel/plan_file.h): words, or a layer of a plan as SVG.
struct PlanShow {
  bool draws = false;
  int64_t batch = 1;  ///< sequences of the plan that is drawn
  int64_t layer = 1;  ///< that is drawn; the last where there are fewer
};
Result<std::string> shown_plans(const std::string& text, const PlanShow& options);

/// What `strata run` does with HLO text, or with a folder that holds code.
struct ModuleRunOptions {
  std::map<std::string, std::string> inputs;  ///< parameter name to file; others are random
  uint64_t seed = 1;
  std::string output;  ///< folder for the results; none if empty
  bool with_inputs = false;
  bool interpret = false;      ///< by the interpreter, else by the emitters' kernels
  bool check = false;          ///< by both; the exit code says whether they agree
  std::string device = "cpu";  ///< of the kernels: cpu, gpu, or auto: the GPU where there is one
  bool profile = false;        ///< on the GPU, print the time of each step
  double tolerance = 1;        ///< of --check: what floats may differ by is multiplied by it
  bool libraries = true;       ///< whether products and convolutions may be steps of CUDA's libraries
  SearchFlags search{};        ///< whether and how parts are superoptimized
  std::string report{};        ///< file for the module's report; none if empty
};

/// Runs a module, prints a line for each result and writes it as NAME.npy: results are named after the root, those of a
/// tuple NAME.0, NAME.1 …. The value is the exit code. Error (Environment) where a GPU is asked for and there is none.
Result<int> run_module(const Source& source, const ModuleRunOptions& options);

/// Runs the program in a folder (runtime/program_folder.h) on the GPU, without what it was made of: the same for its
/// results.
Result<int> run_folder(const std::string& folder, const ModuleRunOptions& options);

}  // namespace strata::cli
