// The steps of a manifest, loaded and run: what GpuProgram is made of.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/gpu_device.h"
#include "runtime/launch_manifest.h"
#include "runtime/loop_buffers.h"
#include "runtime/loop_graphs.h"

namespace strata {

/// Modules that the driver has loaded, by name; unloads them.
class LoadedModules {
 public:
  explicit LoadedModules(const CudaDriver& driver) : driver_(driver) {}
  ~LoadedModules();
  LoadedModules(const LoadedModules&) = delete;
  LoadedModules& operator=(const LoadedModules&) = delete;

  Result<void> load(const std::string& name, const std::string& image);
  /// With as much shared memory as the launch needs.
  Result<CudaFunction> find(const GpuLaunch& launch) const;

 private:
  const CudaDriver& driver_;
  std::map<std::string, CudaModule> modules_;
};

struct LoadedLoop;

/// A step, with what it needs found: buffers are numbers in the manifest.
struct LoadedStep {
  GpuStep* step = nullptr;
  std::vector<size_t> arguments;  ///< of a launch or the host; of a copy: from, to; of a fill: to
  int64_t bytes = 0;              ///< of a copy or a fill
  CudaFunction function = nullptr;
  std::shared_ptr<PreparedWork> work;
  std::unique_ptr<LoadedLoop> loop;

  LoadedStep() = default;
  LoadedStep(LoadedStep&&) noexcept;
  LoadedStep& operator=(LoadedStep&&) noexcept;
  ~LoadedStep();
};

struct LoadedLoop {
  static constexpr size_t kNone = ~size_t{0};
  struct Value {
    size_t initial = kNone, result = kNone, next = kNone, counted = kNone, spare = kNone;
    std::vector<size_t> current;
    bool writes = false;  ///< a step of the body writes `next`
    bool moves = false;   ///< `next` is the current array of a value
    bool changes = true;  ///< from iteration to iteration
    int64_t over = -1;    ///< GpuLoop::Value::over
    int64_t bytes = 0;
  };
  std::vector<Value> values;
  std::vector<size_t> scratch;
  size_t answer = kNone;
  LoopBuffers places;  ///< where the number of iterations is known
  std::vector<LoadedStep> body, condition;
  bool host_takes_part = false;  ///< a step is the host's, or waits on it
  bool once = false;             ///< GpuLoop::once
  /// Whether a graph has the body twice, to and fro between two places of the state: where no loop in it asks, too, or
  /// graphs of nested loops would have 2^n bodies.
  bool alternates = false;
};

/// Where the values of a loop lie whose iterations are not counted: by turns, from one iteration to the next. Those
/// that are written in place, or do not change, lie in one place.
struct LoopState {
  std::vector<CudaPointer> first, second;  ///< the last ones are to lie in the first
};

class StepLoader {
 public:
  StepLoader(const GpuDevice& device, const LaunchManifest& manifest, const LoadedModules& modules,
             const std::map<std::string, std::shared_ptr<PreparedWork>>& prepared);

  /// Error (InvalidInput) where names and sizes do not fit together.
  Result<std::vector<LoadedStep>> load(std::vector<GpuStep>& steps);

 private:
  Result<size_t> number(const std::string& buffer) const;
  Result<size_t> number_or_none(const std::string& buffer) const;
  Result<void> load_launch(GpuLaunch& launch, LoadedStep& made);
  Result<void> load_loop(GpuLoop& loop, LoadedLoop& made);
  Result<void> load_values(const GpuLoop& loop, LoadedLoop& made) const;
  Result<void> plan_counted(const GpuLoop& loop, LoadedLoop& made) const;
  int64_t bytes_of(size_t buffer) const { return manifest_.buffers[buffer].type.bytes(); }
  bool is_carried(size_t buffer) const { return manifest_.buffers[buffer].role == BufferRole::Carried; }

  const GpuDevice& device_;
  const LaunchManifest& manifest_;
  const LoadedModules& modules_;
  const std::map<std::string, std::shared_ptr<PreparedWork>>& prepared_;
  std::map<std::string, size_t> numbers_;
};

/// Puts steps on the stream. One run is one object: it holds where carried buffers lie.
class StepRunner {
 public:
  /// `pointers` and `roots` by buffer of the manifest; `overlap`: whether launches that may overlap the one before do;
  /// `loops`: what has the device decide whether loops go on, null where the host asks.
  StepRunner(const GpuDevice& device, CudaStream stream, std::vector<CudaPointer> pointers,
             const std::vector<size_t>& roots, CudaPointer workspace, bool overlap, bool behind_kernel,
             LoopGraphs* loops = nullptr);

  Result<void> run(const std::vector<LoadedStep>& steps);
  Result<void> run(const LoadedStep& step);
  /// The next launch overlaps nothing.
  void stand_alone() { behind_kernel_ = false; }

 private:
  Result<void> launch(const GpuLaunch& launch, const LoadedStep& step);
  Result<void> fill(const GpuFill& fill, CudaPointer to, int64_t bytes);
  Result<void> copy(CudaPointer to, CudaPointer from, int64_t bytes);
  Result<void> run_counted(const LoadedLoop& loop, int64_t count);
  Result<void> run_asking(const LoadedLoop& loop);
  /// Where the values lie; the first ones are copied there, of a loop of one iteration at most to where the last ones
  /// are to lie.
  Result<LoopState> begin_asking(const LoadedLoop& loop);
  /// What the body reads, and where it writes.
  void bind_iteration(const LoadedLoop& loop, const std::vector<CudaPointer>& from, const std::vector<CudaPointer>& to);
  Result<bool> goes_on(const LoadedLoop& loop);
  /// The body, of values that lie at `from`; the next ones lie at `to` then, where the condition reads them.
  Result<void> run_body(const LoadedLoop& loop, const std::vector<CudaPointer>& from,
                        const std::vector<CudaPointer>& to);
  /// Copies what an odd number of iterations has left to where it is to lie.
  Result<void> settle(const LoadedLoop& loop, const LoopState& state);
  /// Steps as LoopGraphs asks for them.
  LoopGraphs::Steps recorded(std::function<Result<void>()> steps);
  /// Adds the loop to the graph that is recorded on the stream.
  Result<void> add_asking(const LoadedLoop& loop, const LoopState& state);
  /// Of value `of` of the loop.
  CudaPointer place(const LoadedLoop& loop, const LoopPlace& place, size_t of) const;
  /// A carried buffer, and all that lies in it.
  void bind(size_t buffer, CudaPointer pointer);

  const GpuDevice& device_;
  std::vector<CudaPointer> pointers_;
  std::map<size_t, std::vector<size_t>> lying_in_;  ///< by root
  CudaPointer workspace_;
  bool overlap_;
  bool behind_kernel_;  ///< what is on the stream last is a kernel that lets others start
  LoopGraphs* loops_;
  CudaStream stream_;
  int counted_ = 0;  ///< loops around the step whose values lie elsewhere in each iteration
};

/// The values of a loop whose iterations are counted; its arrays are numbers in the manifest. Error (InvalidInput)
/// where it names a buffer that is not there.
Result<LoopFlow> flow_of(const LaunchManifest& manifest, const GpuLoop& loop);

/// The first step that runs or waits on the host, or, unless the device asks, a loop whose condition is read there:
/// none in a CUDA graph.
std::optional<std::string> step_on_host(const std::vector<GpuStep>& steps, bool device_asks);
/// So many loops whose conditions depend on data lie in each other.
int asking_depth(const std::vector<GpuStep>& steps);

}  // namespace strata
