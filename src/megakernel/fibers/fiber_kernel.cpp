#include "megakernel/fibers/fiber_kernel.h"

#include <algorithm>
#include <cstring>

namespace strata::megakernel {
namespace {

constexpr int64_t kHostWords = 2;

}  // namespace

Result<std::unique_ptr<FiberKernel>> FiberKernel::make(FiberDevice& device, const Plan& plan, const FiberCode& code,
                                                       const KernelOptions& options) {
  STRATA_TRY(Image image, checked_image(plan, options));
  std::unique_ptr<FiberKernel> kernel(new FiberKernel(device, plan, std::move(image), code, options));
  STRATA_CHECK(kernel->allocate());
  return kernel;
}

FiberKernel::~FiberKernel() { end_launch(); }

Result<void> FiberKernel::allocate() {
  for (const size_t bytes : {parts_.constants().size(), parts_.event_bytes, parts_.launch_bytes, parts_.profile_bytes,
                             kHostWords * sizeof(uint32_t), sizeof(Program<CudaWords>)}) {
    STRATA_TRY(FiberMemory memory, device_->allocate(static_cast<int64_t>(bytes)));
    parts_memory_.push_back(std::move(memory));
  }
  std::copy(parts_.constants().begin(), parts_.constants().end(), parts_memory_[kConstants].bytes().begin());
  const uint64_t words = parts_memory_[kWords].address();
  program_ = parts_.program({.constants = parts_memory_[kConstants].address(),
                             .events = parts_memory_[kEvents].address(),
                             .launch = parts_memory_[kLaunch].address(),
                             .profile = parts_memory_[kProfile].address(),
                             .stop_requested = words,
                             .steps_done = words + sizeof(uint32_t)});
  return {};
}

uint32_t* FiberKernel::host_word(HostWord word) const {
  return reinterpret_cast<uint32_t*>(parts_memory_[kWords].bytes().data()) + static_cast<int>(word);
}
const int* FiberKernel::host_tokens() const { return reinterpret_cast<const int*>(tokens_->bytes().data()); }

Result<void> FiberKernel::begin_launch(uint32_t steps, uint32_t first_epoch) {
  tokens_.reset();
  STRATA_TRY(tokens_, device_->allocate(static_cast<int64_t>(steps) * options_.tokens_per_step *
                                        static_cast<int64_t>(sizeof(int))));
  begin_steps(steps, reinterpret_cast<int*>(tokens_->address()));
  std::ranges::fill(parts_memory_[kLaunch].bytes(), static_cast<unsigned char>(0));
  for (const auto& [place, value] : first_words(first_epoch)) std::memcpy(here(place), &value, sizeof value);
  Program<CudaWords> program = program_;
  program.first_epoch = first_epoch;
  std::memcpy(parts_memory_[kProgram].bytes().data(), &program, sizeof program);
  process_.reset();
  return {};
}

Result<void> FiberKernel::start(uint32_t steps) {
  STRATA_CHECK(begin_launch(steps, next_epoch_));
  const int blocks =
      image_.workers + (image_.schedulers + kBlockSchedulers - 1) / kBlockSchedulers - options_.absent_blocks;
  const auto scratch = static_cast<unsigned>(options_.shape.scratch_bytes);
  const SharedLayout layout =
      shared_layout(program_.ring_bytes, program_.ring_stages, static_cast<unsigned>(program_.listed), scratch);
  STRATA_TRY(Process process, device_->start(*code_, "strata_megakernel", {blocks, 1, 1}, kBlockThreads, layout.bytes,
                                             std::array<uint64_t, 2>{parts_memory_[kProgram].address(), scratch}));
  process_.emplace(std::move(process));
  return {};
}

Result<std::unique_ptr<FiberGraphKernel>> FiberGraphKernel::make(FiberDevice& device, const Plan& plan,
                                                                 const FiberCode& code, const KernelOptions& options) {
  STRATA_TRY(Image image, checked_image(plan, options));
  STRATA_TRY(std::vector<GraphLaunch> launches, graph_launches(plan, options.operators, options.shape));
  std::unique_ptr<FiberGraphKernel> kernel(
      new FiberGraphKernel(device, plan, std::move(image), code, options, std::move(launches)));
  STRATA_CHECK(kernel->make_room(kernel->launches_));
  STRATA_CHECK(kernel->allocate());
  STRATA_TRY(kernel->state_, device.allocate(sizeof(GraphState)));
  for (GraphLaunch& launch : kernel->launches_)
    launch.state = reinterpret_cast<const GraphState*>(kernel->state_->address());
  const size_t bytes = kernel->launches_.size() * sizeof(GraphLaunch);
  STRATA_TRY(kernel->launch_memory_, device.allocate(static_cast<int64_t>(bytes)));
  std::memcpy(kernel->launch_memory_->bytes().data(), kernel->launches_.data(), bytes);
  return kernel;
}

Result<void> FiberGraphKernel::start(uint32_t steps) {
  STRATA_CHECK(begin_launch(steps, 0));
  const GraphState state{next_epoch_, next_epoch_ + steps - 1};
  std::memcpy(state_->bytes().data(), &state, sizeof state);
  STRATA_TRY(Process process, device_->start(*code_, "strata_graph", {1, 1, 1}, kGraphThreads, 0,
                                             std::array<uint64_t, 3>{parts_memory_[kProgram].address(),
                                                                     launch_memory_->address(), launches_.size()}));
  process_.emplace(std::move(process));
  return {};
}

bool FiberKernel::running() const { return process_ && process_->running(); }

Result<bool> FiberKernel::await_end() {
  STRATA_TRY(const Process::End end, process_->wait());
  if (!end.succeeded()) return environment("running the mega-kernel {} on the host: {}", plan_.name, end.text);
  return true;
}

Result<void> FiberKernel::peek(const void* from, std::span<uint32_t> to) const {
  std::memcpy(to.data(), here(from), to.size_bytes());
  return {};
}

}  // namespace strata::megakernel
