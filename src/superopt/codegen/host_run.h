// For tests: compiles a generated program for the host, runs it, and brings its outputs back. It runs once for each
// order of a block's threads; where the outputs differ, a barrier is missing.
#pragma once

#include <string>
#include <vector>

#include "ops/tensor.h"
#include "superopt/codegen/generate.h"

namespace strata {

struct HostCompiler {
  std::string command = "c++";
  std::vector<std::string> options;  ///< optimization, sanitizers
  /// Values of STRATA_HOST_ORDER (device/strata_host_threads.h).
  std::vector<std::string> orders = {"forward", "backward", "1"};
};

/// Executes `program` on the given inputs (rounded to their types) in a folder of its own below the system's temporary
/// one. Error, with the compiler's or the program's output, where either fails (a sanitizer's report is one), and where
/// outputs depend on the order of threads.
Result<std::vector<Tensor<double>>> run_on_host(const GeneratedProgram& program,
                                                const std::vector<Tensor<double>>& inputs,
                                                const HostCompiler& compiler);

}  // namespace strata
