// The superoptimizer: from a program's text to the fastest kernels that are proved to compute it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "strata/function.h"

STRATA_NAMESPACE_BEGIN

struct OptimizeOptions {
  std::string target = "auto";  ///< "sm_90a", "sm_80", or "auto": the machine's GPU, sm_90a where there is none
  /// For everything but measuring; 0 compiles the program as it is.
  double search_seconds = 10;
  /// For measuring candidates, where the machine has a GPU of the target; 0: the cost model chooses.
  double measure_seconds = 10;
  /// What Kernel::config returned: nothing is searched, and that choice is proved and compiled again. Empty: a search.
  std::string config = {};
  std::string cache_folder = {};  ///< of results; empty: none
  /// Kernels are measured in a process of its own, which a faulty one may take down: the program `strata` with the
  /// argument "measure-worker". Empty: the one that was installed with the library.
  std::vector<std::string> measure_worker = {};
  std::stop_token stop = {};  ///< ends it with the best so far, within about two seconds
  /// Called from any thread with one line: what is being done and how far it is.
  std::function<void(const std::string&)> progress = {};
  std::string file = "<program>";  ///< what errors call the text
};

/// An optimised program. A value: copies share it.
class STRATA_EXPORT Kernel {
 public:
  struct State;
  explicit Kernel(std::shared_ptr<const State> state);
  ~Kernel();
  Kernel(const Kernel&);
  Kernel(Kernel&&) noexcept;
  Kernel& operator=(const Kernel&);
  Kernel& operator=(Kernel&&) noexcept;

  const std::string& target() const;              ///< the architecture of its code
  const std::string& headline() const;            ///< what was gained, in a sentence
  const std::string& proof() const;               ///< why it computes the program, in a sentence
  const std::string& config() const;              ///< the choice as text, for OptimizeOptions::config
  const std::vector<std::string>& notes() const;  ///< what was done otherwise than planned, one line each
  std::string mugraph() const;                    ///< the best µGraph, as text
  std::string source() const;                     ///< its CUDA C++
  /// All that `strata optimize -o` writes, and program.strata, by name.
  const std::map<std::string, std::string>& files() const;

  /// Writes the files, and strata.json beside them, to a folder, which is made. `strata run FOLDER` takes it, as does
  /// strata.load of the Python package. Throws Error (Environment).
  void save(const std::string& folder) const;

  /// The kernels on the first GPU, whose architecture must be target(); on the processor the reference executor: slow,
  /// in single precision with storage rounded to the tensors' types, to try a result where there is no GPU. Place::Auto
  /// is the processor where there is no GPU. Throws Error where there is no code for the GPU.
  Function function(Place place = Place::Auto) const;

 private:
  std::shared_ptr<const State> state_;
};

/// Throws Error where the program is wrong, with operator, tensor and place. What is missing to compile or to measure
/// is a note of the kernel, and no error.
STRATA_EXPORT Kernel optimize(std::string_view program, const OptimizeOptions& options = {});

/// What Kernel::save wrote. Throws Error where the folder holds none, or one of another format.
STRATA_EXPORT Kernel load(const std::string& folder);

STRATA_NAMESPACE_END
