// The rates that `strata calibrate` measured on a GPU, as a file keeps them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "machine/target.h"

namespace strata {

/// A median with its spread, in seconds, bytes/s or operations/s, or a factor.
struct MeasuredRate {
  std::string name;  ///< of a rate, or what an observation is of that no model reads
  double value = 0, low = 0, high = 0;

  friend bool operator==(const MeasuredRate&, const MeasuredRate&) = default;
};

/// Of one value a repeat, at least one.
MeasuredRate measured_rate(std::string name, std::vector<double> values);

struct Calibration {
  std::string gpu;         ///< as the driver names it
  int driver_version = 0;  ///< 13000 for CUDA 13.0
  std::string target;      ///< "sm_90a"
  std::string date;        ///< "2026-01-31"
  std::vector<MeasuredRate> rates;

  friend bool operator==(const Calibration&, const Calibration&) = default;
};

/// JSON of this version of the format.
std::string print(const Calibration& calibration);
/// Error (InvalidInput): no calibration, damaged, of another version of the format, or with a number that no GPU has.
Result<Calibration> parse_calibration(std::string_view text);

/// The target with the measured rates in place of its own.
Target calibrated(const Target& target, const Calibration& calibration);

}  // namespace strata
