// The superoptimizer for those who call Strata from a program of their own: from a graph to all that is kept of its
// optimisation, as texts. The command line has the same steps with more options (tools/strata/optimize.cpp).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "ir/sized_program.h"
#include "superopt/codegen/emission.h"
#include "support/error.h"

namespace strata::compiler {

struct OptimizeRequest {
  std::string target = "auto";  ///< "sm_90a", "sm_80", or "auto": the machine's GPU, else sm_90a
  bool search = true;           ///< else the program is compiled as it is
  double seconds = 60;          ///< for everything but measuring
  /// For measuring candidates, where the machine has a GPU of the target; 0: the model chooses.
  double measure_seconds = 60;
  /// What describe_config wrote: nothing is searched, and its µGraph is proved and compiled again. Empty: a search.
  std::string config = {};
  std::string cache_folder = {};  ///< of results; empty: none
  DimSizes sizes = {};            ///< of the program's dims; others are as declared
  /// Makes kernels of the operators of which no µGraph is made; null: each has one of its own.
  std::shared_ptr<const KernelEmitter> emitter;
  std::vector<std::string> measure_worker;  ///< the program that calls run_measure_worker, with its arguments
  std::stop_token stop{};                   ///< ends it with the best so far
  /// One line: what is being done and how far it is. Called from any thread.
  std::function<void(const std::string&)> progress;
};

struct OptimizedProgram {
  std::string target;
  std::string headline;  ///< one sentence: the result against the program
  std::string proof;     ///< what the result rests on, in words
  std::string config;    ///< describe_config
  std::vector<std::string> notes;
  /// Of programs with dims: what the kernels are made for, which may be more than was asked for (superopt/sized_run.h),
  /// and in words where they come from.
  DimSizes sizes;
  std::string origin;
  double seconds = 0;  ///< estimated
  /// The files of `strata optimize -o`, cubins included, and program.strata, the program as given.
  std::map<std::string, std::string> files;
};

/// Where nothing is asked for but another size of a program, the choice that was measured is taken and not measured
/// again. Errors: of the program, with operator, tensor and place; of a configuration, why it is refused (InvalidInput,
/// Unsupported). What is missing to compile or to measure is a note, and no error.
Result<OptimizedProgram> optimize_program(const SizedProgram& program, const OptimizeRequest& request);

/// The first line of a configuration's text, without the number of its format.
constexpr const char* kConfigTitle = "strata configuration";
constexpr int kConfigFormat = 1;

}  // namespace strata::compiler
