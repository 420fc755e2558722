#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "compiler/core/optimize_program.h"
#include "emitters.h"
#include "ir/text.h"
#include "ir/validate.h"
#include "python/bindings.h"

namespace strata::python {
namespace {

using compiler::OptimizedProgram;
using compiler::OptimizeRequest;

/// An optimisation on threads of its own, so that Python's main thread sees Ctrl-C and shows progress meanwhile.
class OptimizeJob {
 public:
  OptimizeJob(const std::string& text, const std::string& file, OptimizeRequest request)
      : program_(value_of(parse_program(text, file))), request_(std::move(request)) {
    value_of(validate_paths(*program_.graph));
    request_.stop = stop_.get_token();
    request_.progress = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      progress_ = line;
    };
    worker_ = std::jthread([this] {
      auto result = compiler::optimize_program(program_, request_);
      const std::lock_guard lock(mutex_);
      result_ = std::move(result);
      done_.notify_all();
    });
  }
  /// Waits: a search that is stopped ends soon.
  ~OptimizeJob() {
    nb::gil_scoped_release unlocked;
    stop_.request_stop();
    worker_ = {};
  }
  OptimizeJob(const OptimizeJob&) = delete;
  OptimizeJob& operator=(const OptimizeJob&) = delete;

  /// Whether it has ended, after so many seconds at most.
  bool wait(double seconds) {
    nb::gil_scoped_release unlocked;
    std::unique_lock lock(mutex_);
    return done_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return result_.has_value(); });
  }
  std::string progress() {
    const std::lock_guard lock(mutex_);
    return progress_;
  }
  void stop() { stop_.request_stop(); }
  const OptimizedProgram& result() {
    const std::lock_guard lock(mutex_);
    if (!result_) throw Raised(Error{ErrorCode::InvalidInput, "the optimisation has not ended", "wait for it", {}});
    if (!*result_) throw Raised(result_->error());
    return **result_;
  }

 private:
  SizedProgram program_;
  OptimizeRequest request_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable done_;
  std::string progress_;
  std::optional<Result<OptimizedProgram>> result_;
  std::jthread worker_;  // last: it uses the others
};

nb::dict files_of(const OptimizedProgram& program) {
  nb::dict files;
  for (const auto& [name, bytes] : program.files) files[name.c_str()] = nb::bytes(bytes.data(), bytes.size());
  return files;
}

}  // namespace

void bind_optimize(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<OptimizeJob>(module, "OptimizeJob", "A superoptimisation in the background.")
      .def(
          "__init__",
          [](OptimizeJob* job, const std::string& text, const std::string& file, const std::string& target, bool search,
             double seconds, double measure_seconds, const std::string& config, const std::string& cache_folder,
             const std::vector<std::string>& measure_worker, const DimSizes& sizes) {
            OptimizeRequest request;
            request.target = target;
            request.search = search;
            request.seconds = seconds;
            request.measure_seconds = measure_seconds;
            request.config = config;
            request.cache_folder = cache_folder;
            request.measure_worker = measure_worker;
            request.sizes = sizes;
            request.emitter = cli::kernel_emitter();
            new (job) OptimizeJob(text, file, std::move(request));
          },
          "text"_a, "file"_a, "target"_a, "search"_a, "seconds"_a, "measure_seconds"_a, "config"_a, "cache_folder"_a,
          "measure_worker"_a, "sizes"_a)
      .def("wait", &OptimizeJob::wait, "seconds"_a, "Whether it has ended, after so many seconds at most.")
      .def_prop_ro("progress", &OptimizeJob::progress, "One line: what is being done, and how far it is.")
      .def("stop", &OptimizeJob::stop, "Ends it with the best so far, within about two seconds.")
      .def_prop_ro("target", [](OptimizeJob& job) { return job.result().target; })
      .def_prop_ro("headline", [](OptimizeJob& job) { return job.result().headline; })
      .def_prop_ro("proof", [](OptimizeJob& job) { return job.result().proof; })
      .def_prop_ro("config", [](OptimizeJob& job) { return job.result().config; })
      .def_prop_ro("notes", [](OptimizeJob& job) { return job.result().notes; })
      .def_prop_ro("sizes", [](OptimizeJob& job) { return job.result().sizes; })
      .def_prop_ro("origin", [](OptimizeJob& job) { return job.result().origin; })
      .def_prop_ro("seconds", [](OptimizeJob& job) { return job.result().seconds; })
      .def_prop_ro("files", [](OptimizeJob& job) { return files_of(job.result()); });
}

}  // namespace strata::python
