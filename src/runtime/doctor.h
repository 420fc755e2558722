// What of this machine Strata can use, for `strata doctor` and `python -m strata doctor`.
#pragma once

#include <string>
#include <vector>

namespace strata {

struct Finding {
  std::string name;     ///< "NVRTC"
  std::string version;  ///< or the device's name; empty where it is missing
  std::string path;     ///< of the library; empty where it is not one
  std::string missing;  ///< why, where it is, and on a second line what to do
  std::string enables;  ///< what it is for
};

/// The GPU and its driver, CUDA's libraries.
std::vector<Finding> examine_machine();
/// Where a library of this process was loaded from, by the beginning of its file's name: "libcuda.so". Empty where it
/// was not.
std::string path_of_library(const std::string& stem);

/// The findings as a table for people, each missing one with what to do.
std::string describe(const std::vector<Finding>& findings);

}  // namespace strata
