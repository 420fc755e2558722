// Measures the rates of src/machine on the machine's GPU, by kernels of a few lines each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "machine/calibration.h"
#include "runtime/gpu_program.h"

namespace strata {

struct CalibrateOptions {
  int64_t memory_bytes = int64_t{1} << 30;  ///< read and written, less where memory is short
  int64_t product_size = 8192;              ///< rows, columns and terms of the product of 16-bit numbers
  int repeats = 7;                          ///< of each measurement, which is a median of replays itself
  /// Source to a cubin for the target; compile_cubin but in tests.
  std::function<Result<std::vector<char>>(const std::string& source, const Target& target)> compile;
  /// Called before each measurement with its name.
  std::function<void(const std::string& name)> progress;
};

struct CalibrationRun {
  Calibration calibration;
  std::vector<std::string> notes;  ///< what was not measured, and why
};

/// The kernels that are measured, as CUDA for any target.
std::string calibration_source();

/// Medians and spreads over the repeats. `date` is kept as it is. Error where a kernel does not compile or run; without
/// cuBLASLt the rate of products is not measured, nor are those of events where blocks cannot wait for each other or
/// repeats differ too much (calibrate_events.h), which are notes.
Result<CalibrationRun> calibrate(const GpuDevice& device, const Target& target, const std::string& date,
                                 const CalibrateOptions& options = {});

}  // namespace strata
