#include "megakernel/runtime/cuda/cuda_target.h"

#include <cstring>
#include <thread>

#include "megakernel/runtime/cuda/kernel_memory.h"

namespace strata::megakernel {
namespace {

constexpr size_t kLine = 128;  // bytes; what host and device poll lies on different lines
constexpr size_t kHostWords = 2;

}  // namespace

CudaKernel::CudaKernel(const GpuDevice& device, const Plan& plan, Image image, const CudaCode& code,
                       const KernelOptions& options)
    : StepKernel(plan, std::move(image), options, code.profile),
      device_(&device),
      blocks_(image_.workers + (image_.schedulers + kBlockSchedulers - 1) / kBlockSchedulers),
      layout_(shared_layout(
          static_cast<unsigned>(options.shape.ring_bytes), static_cast<unsigned>(options.shape.ring_stages),
          static_cast<unsigned>(options.shape.listed), static_cast<unsigned>(options.shape.scratch_bytes))),
      memory_(std::make_unique<Memory>(device.driver())) {}

Result<std::unique_ptr<CudaKernel>> CudaKernel::make(const GpuDevice& device, const Plan& plan, const CudaCode& code,
                                                     const KernelOptions& options) {
  STRATA_TRY(Image image, checked_image(plan, options));
  std::unique_ptr<CudaKernel> kernel(new CudaKernel(device, plan, std::move(image), code, options));
  STRATA_CHECK(kernel->load(code));
  STRATA_CHECK(kernel->find_kernel());
  STRATA_CHECK(kernel->check_fits());
  STRATA_CHECK(kernel->allocate());
  return kernel;
}

CudaKernel::~CudaKernel() {
  end_launch();
  // To free memory the driver waits for what runs.
  if (running()) static_cast<void>(memory_.release());
}

Result<void> CudaKernel::load(const CudaCode& code) {
  const CudaDriver& driver = device_->driver();
  Memory& m = *memory_;
  STRATA_CHECK(
      driver.check(driver.load_module(&m.module, code.cubin.data()),
                   fmt::format("loading the mega-kernel's code, for {}, on {}", code.target, device_->name())));
  STRATA_CHECK(driver.check(driver.create_stream(&m.stream, CudaDriver::kNonBlocking), "making a stream"));
  STRATA_CHECK(driver.check(driver.create_stream(&m.copies, CudaDriver::kNonBlocking), "making a stream"));
  return {};
}

Result<void> CudaKernel::find_kernel() {
  const CudaDriver& driver = device_->driver();
  return driver.check(driver.get_function(&memory_->function, memory_->module, "strata_megakernel"),
                      "the mega-kernel's entry");
}

Result<void> CudaKernel::check_fits() const {
  const CudaDriver& driver = device_->driver();
  const CudaFunction function = memory_->function;
  const WorkerShape& shape = options_.shape;
  STRATA_TRY(const int cooperative, device_->attribute(CudaDriver::kCooperativeLaunch, "cooperative launches"));
  if (cooperative == 0)
    return environment("{} has no cooperative launches, and a mega-kernel's blocks wait for each other",
                       device_->name());
  STRATA_TRY(const int most, device_->attribute(CudaDriver::kMostSharedBytes, "shared memory"));
  if (layout_.bytes > static_cast<unsigned>(most))
    return with_remedy(
        invalid("a worker needs {} bytes of shared memory ({} of the ring, {} of scratch); a block of {} "
                "has {}",
                layout_.bytes, shape.ring_bytes, shape.scratch_bytes, device_->name(), most),
        "make the ring smaller");
  STRATA_CHECK(driver.check(
      driver.set_function_attribute(function, CudaDriver::kMostDynamicSharedBytes, static_cast<int>(layout_.bytes)),
      "taking shared memory"));
  int of_one = 0;
  STRATA_CHECK(driver.check(driver.blocks_per_multiprocessor(&of_one, function, kBlockThreads, layout_.bytes),
                            "asking for occupancy"));
  STRATA_TRY(const int multiprocessors, device_->attribute(CudaDriver::kMultiprocessors, "multiprocessors"));
  if (blocks_ > of_one * multiprocessors)
    return with_remedy(
        invalid("plan {} has {} workers and {} schedulers, {} blocks; {} runs {} at the same time", plan_.name,
                image_.workers, image_.schedulers, blocks_, device_->name(), of_one * multiprocessors),
        fmt::format("compile the plan for at most {} workers", of_one * multiprocessors - (blocks_ - image_.workers)));
  return {};
}

Result<void> CudaKernel::allocate() {
  Memory& m = *memory_;
  for (const size_t size : {parts_.constants().size(), parts_.event_bytes, parts_.launch_bytes, parts_.profile_bytes}) {
    STRATA_TRY(GpuMemory part, GpuMemory::allocate(*device_, static_cast<int64_t>(size)));
    m.parts.push_back(std::move(part));
  }
  for (const size_t size : {kHostWords * kLine, parts_.report_words * sizeof(uint32_t), size_t{0}}) {
    STRATA_TRY(PinnedMemory part, PinnedMemory::allocate(*device_, size));
    m.pinned.push_back(std::move(part));
  }
  STRATA_CHECK(m.parts[Memory::kConstants].upload(parts_.constants()));
  STRATA_CHECK(m.parts[Memory::kEvents].clear());
  program_ = parts_.program({.constants = m.parts[Memory::kConstants].pointer(),
                             .events = m.parts[Memory::kEvents].pointer(),
                             .launch = m.parts[Memory::kLaunch].pointer(),
                             .profile = m.parts[Memory::kProfile].pointer(),
                             .stop_requested = pointer_of(host_word(HostWord::StopRequested)),
                             .steps_done = pointer_of(host_word(HostWord::StepsDone))});
  return {};
}

uint32_t* CudaKernel::host_word(HostWord word) const {
  return reinterpret_cast<uint32_t*>(memory_->pinned[Memory::kWords].data() + static_cast<size_t>(word) * kLine);
}
const int* CudaKernel::host_tokens() const {
  return reinterpret_cast<const int*>(memory_->pinned[Memory::kTokens].data());
}

Result<void> CudaKernel::begin_launch(uint32_t steps, uint32_t first_epoch) {
  const CudaDriver& driver = device_->driver();
  Memory& m = *memory_;
  const size_t tokens = static_cast<size_t>(steps) * static_cast<size_t>(options_.tokens_per_step) * sizeof(int);
  if (m.pinned[Memory::kTokens].bytes() < tokens) {
    STRATA_TRY(m.pinned[Memory::kTokens], PinnedMemory::allocate(*device_, tokens));
  }
  std::memset(m.pinned[Memory::kTokens].data(), 0, tokens);
  begin_steps(steps, reinterpret_cast<int*>(m.pinned[Memory::kTokens].data()));

  // Nothing but the counters of events lives longer than a launch.
  const auto fill = [&](CudaPointer from, unsigned value, size_t count) {
    return driver.check(driver.fill_words_later(from, value, count, m.stream), "clearing memory");
  };
  const GpuMemory& state = m.parts[Memory::kLaunch];
  STRATA_CHECK(fill(state.pointer(), 0, static_cast<size_t>(state.bytes()) / sizeof(unsigned)));
  for (const auto& [place, value] : first_words(first_epoch)) STRATA_CHECK(fill(pointer_of(place), value, 1));
  return {};
}

Result<void> CudaKernel::start(uint32_t steps) {
  STRATA_CHECK(begin_launch(steps, next_epoch_));
  const CudaDriver& driver = device_->driver();
  Memory& m = *memory_;
  CudaLaunchAttribute cooperative{.id = CudaLaunchAttribute::kCooperative, .padding = 0, .value = {1}};
  const CudaLaunchConfig config{.grid = {static_cast<unsigned>(blocks_ - options_.absent_blocks), 1, 1},
                                .block = {kBlockThreads, 1, 1},
                                .shared_bytes = layout_.bytes,
                                .stream = m.stream,
                                .attributes = &cooperative,
                                .attribute_count = 1};
  auto scratch = static_cast<unsigned>(options_.shape.scratch_bytes);
  void* arguments[] = {&program_, &scratch};
  return driver.check(driver.launch(&config, m.function, arguments, nullptr), "launching the mega-kernel");
}

bool CudaKernel::running() const {
  return memory_ != nullptr && memory_->stream != nullptr &&
         device_->driver().query_stream(memory_->stream) == CudaDriver::kNotReady;
}

Result<void> CudaKernel::peek(const void* from, std::span<uint32_t> to) const {
  const CudaDriver& driver = device_->driver();
  const PinnedMemory& mirror = memory_->pinned[Memory::kMirror];
  CudaPointer next = pointer_of(from);
  while (!to.empty()) {
    const std::span<uint32_t> part = to.first(std::min(to.size(), mirror.bytes() / sizeof(uint32_t)));
    STRATA_CHECK(driver.check(driver.copy_to_host_later(mirror.data(), next, part.size_bytes(), memory_->copies),
                              "reading the mega-kernel's words"));
    STRATA_CHECK(driver.check(driver.synchronize_stream(memory_->copies), "reading the mega-kernel's words"));
    std::memcpy(part.data(), mirror.data(), part.size_bytes());
    next += part.size_bytes();
    to = to.subspan(part.size());
  }
  return {};
}

Result<bool> CudaKernel::await_end() {
  const CudaDriver& driver = device_->driver();
  using Clock = std::chrono::steady_clock;
  constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
  constexpr auto kShort = std::chrono::milliseconds(10);  // a step's launch, whose caller waits: no sleep is exact
  const auto begin = Clock::now();
  auto next_look = begin + kBetweenLooks;
  auto aborted_at = Clock::time_point::max();
  for (;;) {
    const int status = driver.query_stream(memory_->stream);
    if (status != CudaDriver::kNotReady)
      STRATA_CHECK(driver.check(status, fmt::format("running the mega-kernel {}", plan_.name)));
    STRATA_TRY(const bool goes_on, start_more());
    if (status == 0 && !goes_on) return true;
    const auto now = Clock::now();
    if (now < next_look) {
      if (now - begin > kShort) std::this_thread::sleep_for(std::chrono::microseconds(20));
      continue;
    }
    next_look = now + kBetweenLooks;
    STRATA_TRY(const bool is_aborted, aborted());
    if (is_aborted && aborted_at == Clock::time_point::max()) aborted_at = Clock::now();
    // All waits have ended by then.
    if (is_aborted && Clock::now() - aborted_at > options_.limit + std::chrono::seconds(1)) return false;
  }
}

}  // namespace strata::megakernel
