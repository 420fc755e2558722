// Measuring a compiled program in a process of its own: a kernel that faults, hangs or takes its process down costs one
// measurement, and the next one starts afresh. The two processes exchange lines of JSON; see measure_worker.h.
#pragma once

#include <sys/types.h>

#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "support/error.h"

namespace strata {

enum class MeasureVerdict : uint8_t {
  Right,        ///< every output is within its type's tolerance, and times are known
  Wrong,        ///< an output is not, or holds NaN
  Failed,       ///< the driver refused it, a kernel faulted, or the process died
  Timeout,      ///< no answer in time
  NotMeasured,  ///< out of time, or stopped
};
std::string_view name_of(MeasureVerdict verdict);

struct Measurement {
  MeasureVerdict verdict = MeasureVerdict::NotMeasured;
  std::string reason;  ///< one line; empty where it is right
  double error = 0;    ///< largest relative error of an output (Frobenius norm); may be NaN
  double cold_us = 0;  ///< microseconds of one run, on inputs that are not in the L2 cache
  double hot_us = 0;   ///< microseconds of one run, on the same inputs again and again
};

/// Files of one measurement; tensors by the names of buffers, as .npy in float64.
struct MeasureRequest {
  std::string cubin;
  std::string manifest;
  std::map<std::string, std::string> inputs;    ///< every input
  std::map<std::string, std::string> expected;  ///< outputs that are compared; others must only be free of NaN
  std::map<std::string, std::string> save;      ///< outputs that are written
};

struct MeasureOptions {
  /// The program that calls run_measure_worker, with its arguments.
  std::vector<std::string> command = {"/proc/self/exe", "measure-worker"};
  double timeout = 10;         ///< seconds of a step of a measurement (run, check, time), once its files are read
  double start_timeout = 120;  ///< seconds to start the process, and to read files
};

/// What a worker runs on.
struct MeasureDevice {
  std::string name;
  int driver_version = 0;
  std::string cublas_lt;          ///< its version; empty where it is missing
  std::string without_cublas_lt;  ///< why it is missing
  std::string cudnn;              ///< as both above
  std::string without_cudnn;
};

/// The other process. It is killed with its owner.
class MeasureWorker {
 public:
  explicit MeasureWorker(MeasureOptions options) : options_(std::move(options)) {}
  ~MeasureWorker() { end(); }
  MeasureWorker(const MeasureWorker&) = delete;
  MeasureWorker& operator=(const MeasureWorker&) = delete;

  /// Starts the process unless it runs. Error (Environment) where it cannot, or finds no GPU; (Interrupted) when `stop`
  /// is requested.
  Result<MeasureDevice> start(const std::stop_token& stop = {});
  /// Starts the process if need be. What goes wrong with the program is in the measurement; Error where the process
  /// does not start, or (Interrupted) when `stop` is requested.
  Result<Measurement> measure(const MeasureRequest& request, const std::stop_token& stop = {});
  /// How often a process was started.
  int starts() const { return starts_; }

 private:
  enum class Wait : uint8_t { Line, Ended, Timeout, Stopped };
  Result<void> spawn();
  bool send(const std::string& line);
  Wait receive(double seconds, const std::stop_token& stop, std::string& line);
  /// Kills the process where it does not end by itself within `patience` seconds; how it ended, in words.
  std::string end(double patience = 0);

  MeasureOptions options_;
  MeasureDevice device_;
  pid_t child_ = -1;
  int socket_ = -1;
  std::string received_;  ///< what came after the last line
  int starts_ = 0;
};

}  // namespace strata
