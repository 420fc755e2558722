// The command line, as a function: the executable is this alone, and the command `strata` of the Python package is this
// in Python's process.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/doctor.h"

namespace strata::cli {

/// What the process that runs commands is.
struct Process {
  /// The words that start it again, before those of a command.
  std::vector<std::string> command = {"/proc/self/exe"};
  /// What `strata doctor` lists beside the machine.
  std::function<std::vector<Finding>()> findings;
};

/// Runs the command in `argv`, whose first word is the program's name; the exit code. It takes the standard streams and
/// how memory is kept as its own, and signals as the process has them. Not for several threads at once.
int run_commands(int argc, char** argv, const Process& process = {});

}  // namespace strata::cli
