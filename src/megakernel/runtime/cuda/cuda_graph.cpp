#include "megakernel/runtime/cuda/cuda_graph.h"

#include <algorithm>
#include <optional>

#include "megakernel/runtime/cuda/kernel_memory.h"

namespace strata::megakernel {
namespace {

constexpr uint32_t kAhead = 4;  // graphs that are started and have not ended, so that the GPU never waits for the host

}  // namespace

struct CudaGraphKernel::Graph {
  explicit Graph(const CudaDriver& of) : driver(&of) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { forget(); }
  void forget() {
    if (exec != nullptr) driver->destroy_graph_exec(std::exchange(exec, nullptr));
  }

  const CudaDriver* driver;
  std::vector<CudaFunction> functions;  ///< by block function; null: no operator has it
  std::optional<GpuMemory> state;
  CudaGraphExec exec = nullptr;
  const int* tokens = nullptr;  ///< where its kernels leave tokens
  uint32_t steps = 0;           ///< of the launch
  uint32_t started = 0;         ///< of these
};

CudaGraphKernel::CudaGraphKernel(const GpuDevice& device, const Plan& plan, Image image, const CudaCode& code,
                                 const KernelOptions& options, std::vector<GraphLaunch> launches)
    : CudaKernel(device, plan, std::move(image), code, options),
      launches_(std::move(launches)),
      graph_(std::make_unique<Graph>(device.driver())) {}

Result<std::unique_ptr<CudaGraphKernel>> CudaGraphKernel::make(const GpuDevice& device, const Plan& plan,
                                                               const CudaCode& code, const KernelOptions& options) {
  STRATA_TRY(Image image, checked_image(plan, options));
  STRATA_TRY(std::vector<GraphLaunch> launches, graph_launches(plan, options.operators, options.shape));
  std::unique_ptr<CudaGraphKernel> kernel(
      new CudaGraphKernel(device, plan, std::move(image), code, options, std::move(launches)));
  STRATA_CHECK(kernel->make_room(kernel->launches_));
  STRATA_CHECK(kernel->load(code));
  STRATA_CHECK(kernel->find_kernels());
  STRATA_CHECK(kernel->allocate());
  STRATA_TRY(kernel->graph_->state, GpuMemory::allocate(device, sizeof(GraphState)));
  for (GraphLaunch& launch : kernel->launches_)
    launch.state = reinterpret_cast<const GraphState*>(kernel->graph_->state->pointer());
  return kernel;
}

CudaGraphKernel::~CudaGraphKernel() {
  end_launch();
  // To free memory the driver waits for what runs.
  if (running()) static_cast<void>(graph_.release());
}

Result<void> CudaGraphKernel::find_kernels() {
  const CudaDriver& driver = device_->driver();
  std::vector<int> shared(plan_.functions.size());
  for (const GraphLaunch& launch : launches_) {
    int& most = shared[static_cast<size_t>(launch.function)];
    most =
        std::max(most, static_cast<int>(graph_layout(launch, static_cast<unsigned>(options_.shape.ring_stages)).bytes));
  }
  graph_->functions.resize(shared.size());
  for (size_t n = 0; n < shared.size(); ++n) {
    if (shared[n] == 0) continue;
    const std::string name = fmt::format("strata_graph_{}", n);
    CudaFunction& function = graph_->functions[n];
    STRATA_CHECK(driver.check(driver.get_function(&function, memory_->module, name.c_str()), name));
    STRATA_CHECK(
        driver.check(driver.set_function_attribute(function, CudaDriver::kMostDynamicSharedBytes, shared[n]),
                     fmt::format("taking {} bytes of shared memory for '{}'", shared[n], plan_.functions[n].name)));
  }
  return {};
}

/// Programs are parameters, so what changes from launch to launch is not in them.
Result<void> CudaGraphKernel::record() {
  const CudaDriver& driver = device_->driver();
  graph_->forget();
  const CudaStream stream = memory_->stream;
  STRATA_CHECK(driver.check(driver.begin_capture(stream, CudaDriver::kCaptureThreadLocal), "recording a step"));
  const Result<void> launched = [&]() -> Result<void> {
    for (size_t n = 0; n < launches_.size(); ++n) {
      GraphLaunch& launch = launches_[n];
      Program<CudaWords> program = graph_program(program_, launch);
      program.first_epoch = 0;
      program.last_epoch = 0;
      CudaLaunchAttribute overlaps{.id = CudaLaunchAttribute::kOverlapsPrevious, .padding = 0, .value = {1}};
      const CudaLaunchConfig config{.grid = {static_cast<unsigned>(launch.blocks), 1, 1},
                                    .block = {kGraphThreads, 1, 1},
                                    .shared_bytes = graph_layout(launch, program.ring_stages).bytes,
                                    .stream = stream,
                                    .attributes = &overlaps,
                                    .attribute_count = n == 0 ? 0U : 1U};
      void* arguments[] = {&program, &launch};
      STRATA_CHECK(driver.check(
          driver.launch(&config, graph_->functions[static_cast<size_t>(launch.function)], arguments, nullptr),
          fmt::format("launching '{}'", plan_.functions[static_cast<size_t>(launch.function)].name)));
    }
    return {};
  }();
  CudaGraph graph = nullptr;
  int status = driver.end_capture(stream, &graph);
  if (launched && status == 0) status = driver.instantiate_graph(&graph_->exec, graph, 0);
  if (graph != nullptr) driver.destroy_graph(graph);
  STRATA_CHECK(launched);
  STRATA_CHECK(driver.check(status, "instantiating the graph of a step"));
  graph_->tokens = host_tokens();
  return {};
}

Result<void> CudaGraphKernel::start(uint32_t steps) {
  STRATA_CHECK(begin_launch(steps, 0));
  const CudaDriver& driver = device_->driver();
  const CudaPointer state = graph_->state->pointer();
  STRATA_CHECK(driver.check(driver.fill_words_later(state, next_epoch_, 1, memory_->stream), "writing epochs"));
  STRATA_CHECK(
      driver.check(driver.fill_words_later(state + sizeof(unsigned), next_epoch_ + steps - 1, 1, memory_->stream),
                   "writing epochs"));
  if (graph_->exec == nullptr || graph_->tokens != host_tokens()) STRATA_CHECK(record());
  graph_->steps = steps;
  graph_->started = 0;
  return start_more().map([](bool) {});
}

Result<bool> CudaGraphKernel::start_more() const {
  const CudaDriver& driver = device_->driver();
  Graph& graph = *graph_;
  // In this order: where nothing runs, all that was started has left what it did.
  const int status = driver.query_stream(memory_->stream);
  if (status != 0 && status != CudaDriver::kNotReady) return false;  // who waits learns of it
  const bool idle = status == 0;
  const uint32_t done = steps_done();
  // Of what was started some did nothing: a step was the last, or was aborted.
  if (idle && done < graph.started) return false;
  const uint32_t before = graph.started;
  for (; graph.started < graph.steps && graph.started < done + kAhead; ++graph.started)
    STRATA_CHECK(driver.check(driver.launch_graph(graph.exec, memory_->stream), "launching the graph of a step"));
  return !idle || graph.started > before;
}

bool CudaGraphKernel::running() const {
  if (memory_ == nullptr || graph_ == nullptr || !launched_) return CudaKernel::running();
  const Result<bool> goes_on = start_more();
  return goes_on ? *goes_on : CudaKernel::running();
}

}  // namespace strata::megakernel
