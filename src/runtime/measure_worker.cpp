#include "runtime/measure_worker.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "interpret/npy.h"
#include "runtime/gpu_program.h"
#include "runtime/storage.h"
#include "support/read_file.h"
#include "support/write_file.h"

namespace strata {
namespace {

using Json = nlohmann::json;
using Files = std::map<std::string, std::string>;

/// The files of one request.
struct Task {
  std::string cubin;
  LaunchManifest manifest;
  Files inputs, expected, save;
};

class Worker {
 public:
  Worker(const GpuDevice& device, std::function<void(const Json&)> reply) : device_(device), reply_(std::move(reply)) {}

  /// False where the device is of no more use.
  bool serve(const std::string& line) {
    const auto task = read_task(line);
    if (!task) {
      reply_({{"failed", task.error().message}});
      return true;
    }
    alive();
    auto measured = measure(*task);
    if (measured) {
      reply_(*measured);
      return true;
    }
    // After a fault every call fails, until the process ends. What was refused leaves the device as it was.
    const bool lost = !device_.synchronize();
    Json reply = {{"failed", measured.error().message}};
    if (lost) reply["lost"] = true;
    reply_(reply);
    return !lost;
  }

 private:
  /// What comes next is waited for as long as if it were the first.
  void alive() { reply_({{"ready", true}}); }

  Result<Task> read_task(const std::string& line) {
    try {
      const Json json = Json::parse(line);
      Task task;
      STRATA_TRY(task.cubin, read_file(json.at("cubin").get<std::string>()));
      STRATA_TRY(const std::string manifest, read_file(json.at("manifest").get<std::string>()));
      STRATA_TRY(task.manifest, parse_launch_manifest(manifest));
      task.inputs = json.at("inputs").get<Files>();
      task.expected = json.value("expected", Files{});
      task.save = json.value("save", Files{});
      for (const GpuBuffer& buffer : task.manifest.buffers) STRATA_CHECK(load(task, buffer));
      return task;
    } catch (const Json::exception& error) {
      return invalid("an unreadable request: {}", error.what());
    }
  }

  /// Tensors of earlier requests are kept: candidates of one program share them.
  Result<void> load(const Task& task, const GpuBuffer& buffer) {
    if (buffer.role != BufferRole::Input && buffer.role != BufferRole::Output) return {};
    const bool input = buffer.role == BufferRole::Input;
    const Files& files = input ? task.inputs : task.expected;
    const auto file = files.find(buffer.name);
    if (file == files.end()) {
      if (!input) return {};
      return invalid("the request has no file for input '{}'", buffer.name);
    }
    const std::string key = file->second + to_string(buffer.type);
    if (inputs_.count(key) + expected_.count(key) > 0) return {};
    STRATA_TRY(const TensorType type, buffer.type.tensor());
    STRATA_TRY(Tensor<double> tensor, read_npy(file->second));
    if (tensor.shape != buffer.type.shape) {
      return invalid("'{}' has shape {}; {} is {}", file->second, to_string(tensor.shape), buffer.name,
                     to_string(buffer.type));
    }
    if (input) {
      inputs_[key] = encode(tensor, type.dtype);
    } else {
      expected_[key] = std::move(tensor);
    }
    return {};
  }

  Result<Json> measure(const Task& task) {
    STRATA_TRY(const auto program, GpuProgram::load(device_, task.cubin, task.manifest));
    STRATA_TRY(GpuBuffers first, program->allocate());
    for (const GpuBuffer& buffer : task.manifest.buffers) {
      if (buffer.role != BufferRole::Input) continue;
      STRATA_CHECK(first.at(buffer.name).upload(inputs_.at(task.inputs.at(buffer.name) + to_string(buffer.type))));
    }
    STRATA_CHECK(program->launch(first));
    Json reply;
    STRATA_TRY(const bool right, check(task, first, reply["outputs"]));
    for (const auto& [name, path] : task.save) STRATA_CHECK(save(task, first, name, path));
    if (!right) return reply;

    alive();
    std::vector<GpuBuffers> sets;
    STRATA_TRY(const int64_t count, program->cold_sets());
    for (int64_t i = 1; i < count; ++i) {
      STRATA_TRY(GpuBuffers set, program->allocate());
      for (const GpuBuffer& buffer : task.manifest.buffers) {
        if (buffer.role == BufferRole::Input) STRATA_CHECK(set.at(buffer.name).copy_from(first.at(buffer.name)));
      }
      sets.push_back(std::move(set));
    }
    sets.push_back(std::move(first));
    alive();
    STRATA_TRY(reply["cold_us"], program->microseconds(sets));
    alive();
    STRATA_TRY(reply["hot_us"], program->microseconds(std::span(sets).last(1)));
    // Runs that follow each other closely must not disturb each other.
    Json again;
    STRATA_TRY(const bool still_right, check(task, sets.back(), again));
    if (!still_right) {
      reply = {{"outputs", again}, {"note", "right when run alone, wrong in the timed runs"}};
    }
    return reply;
  }

  /// Whether all outputs are right; `report` gets their errors.
  Result<bool> check(const Task& task, const GpuBuffers& buffers, Json& report) const {
    report = Json::object();
    bool right = true;
    for (const GpuBuffer& buffer : task.manifest.buffers) {
      if (buffer.role != BufferRole::Output) continue;
      STRATA_TRY(const std::string bytes, buffers.at(buffer.name).download());
      STRATA_TRY(const TensorType type, buffer.type.tensor());
      const Tensor<double> found = decode(bytes, type);
      const auto file = task.expected.find(buffer.name);
      // Nothing to compare with: only NaN is wrong.
      const double error = relative_error(
          found, file == task.expected.end() ? found : expected_.at(file->second + to_string(buffer.type)));
      report[buffer.name] = {{"error", error}, {"tolerance", tolerance(type.dtype)}};
      right = right && error <= tolerance(type.dtype);
    }
    return right;
  }

  static Result<void> save(const Task& task, const GpuBuffers& buffers, const std::string& name,
                           const std::string& path) {
    for (const GpuBuffer& buffer : task.manifest.buffers) {
      if (buffer.name != name) continue;
      STRATA_TRY(const std::string bytes, buffers.at(name).download());
      STRATA_TRY(const TensorType type, buffer.type.tensor());
      return write_file(path, npy_bytes(decode(bytes, type)), Sync::None);
    }
    return invalid("the program has no buffer '{}'", name);
  }

  const GpuDevice& device_;
  std::function<void(const Json&)> reply_;
  std::map<std::string, std::string> inputs_;       ///< stored bytes, by file and type
  std::map<std::string, Tensor<double>> expected_;  ///< by file and type
};

}  // namespace

int run_measure_worker(int in, int out) {
  // A kernel that hangs must not outlive whoever waits for it. (It is the thread that started this process whose end
  // counts.)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto reply = [out](const Json& json) {
    const std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (write_all(out, line) != 0) std::_Exit(1);  // nobody listens
  };
  const auto device = GpuDevice::open();
  if (!device) {
    reply({{"failed", device.error().message}});
    return 1;
  }
  const auto cublas_lt = cublas_lt_version();
  const auto cudnn = cudnn_version();
  reply({{"device", (*device)->name()},
         {"driver", (*device)->driver_version()},
         {cublas_lt ? "cublas_lt" : "without_cublas_lt", cublas_lt ? *cublas_lt : cublas_lt.error().message},
         {cudnn ? "cudnn" : "without_cudnn", cudnn ? *cudnn : cudnn.error().message}});
  Worker worker(**device, reply);
  std::string pending;
  std::array<char, 4096> block{};
  for (ssize_t count = 0; (count = read(in, block.data(), block.size())) > 0;) {
    pending.append(block.data(), static_cast<size_t>(count));
    for (size_t end = 0; (end = pending.find('\n')) != std::string::npos;) {
      // What is left of a broken context can hang when it is torn down.
      if (!worker.serve(pending.substr(0, end))) std::_Exit(0);
      pending.erase(0, end + 1);
    }
  }
  return 0;
}

}  // namespace strata
