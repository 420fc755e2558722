// The part of `strata optimize` that measures candidates on the machine's GPU.
#pragma once

#include <string>
#include <vector>

#include "runtime/device_probe.h"
#include "superopt/tune.h"

namespace strata::cli {

struct ProfileOptions {
  std::string mode = "auto";  ///< "auto", "on" or "off"
  double seconds = 60;
  std::string order = "promise";    ///< or "random": TuneOrder
  std::vector<std::string> worker;  ///< the program that measures, with its arguments: MeasureOptions::command
};

/// Why nothing is to be measured, or an empty text. `named`: the user named the target. Error where the mode is "on"
/// and the machine's GPU is missing or not the target's.
Result<std::string> why_not_profiled(const ProfileOptions& options, const DeviceProbe& probe, const Target& target,
                                     bool named);

/// Measures, and makes the fastest the result. What goes wrong is a warning: the model's choice stays.
/// Both together end with the deadline.
Profile profile(Superoptimized& result, const SuperoptimizeOptions& work, const ProfileOptions& options,
                const Deadline& deadline);

/// The table, or one line where nothing was measured.
void print_profile(const Profile& profile);

}  // namespace strata::cli
