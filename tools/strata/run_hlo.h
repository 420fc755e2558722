// `strata run` for HLO text.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hlo/input_output_alias.h"
#include "lax_options.h"
#include "runtime/gpu_program.h"
#include "support/error.h"

namespace strata::cli {

struct HloRunOptions {
  hlo::ModulePtr module;
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
  SearchFlags search;          ///< whether and how parts are superoptimized
  hlo::InputOutputAliases aliases{};
  std::string report{};  ///< file for the module's report; none if empty
};

/// Runs a module, prints a line for each result and writes it as NAME.npy: results are named
/// after the root, those of a tuple NAME.0, NAME.1 …. Error (Environment) where a GPU is asked for and there is none.
Result<int> run_hlo(const HloRunOptions& options);

/// A line for each array, and NAME.npy in the folder `output`, if it is not empty.
Result<void> report(const std::string& name, const hlo::Literal& literal, const std::string& output);

/// The times of all parts and of the whole, and how much memory it takes.
Result<void> print_profile(const GpuProgram& program, const GpuBuffers& buffers);

/// To standard error, as warnings.
void print_warnings(const std::vector<Error>& warnings);

}  // namespace strata::cli
