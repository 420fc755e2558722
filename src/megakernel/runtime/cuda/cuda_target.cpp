#include "megakernel/runtime/cuda/cuda_target.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <thread>

namespace strata::megakernel {
namespace {

constexpr uint32_t kMostEpochs = 1u << 30;
constexpr size_t kLine = 128;  // bytes; what different threads poll lies on different lines

/// Of pinned memory, a line each.
enum PinnedWord { kStopRequested, kStepsDone, kPinnedWords };
/// Of device memory, a line each. `started` has two words in one line.
enum Word { kStep, kAbort, kStarted, kWords };

/// Arrays one after the other, each at the begin of a line.
class Places {
 public:
  size_t add(size_t bytes) {
    const size_t at = size_;
    size_ += (bytes + kLine - 1) / kLine * kLine;
    return at;
  }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
};

/// Arrays of a launch's memory that live as long as the launch.
struct LaunchPlaces {
  LaunchPlaces(const Image& image, const CudaOptions& options) {
    const auto workers = static_cast<size_t>(image.workers);
    words = places.add(kWords * kLine);
    report_words = (workers * kWorkerRoles + static_cast<size_t>(image.schedulers)) * kReportWords;
    reports = places.add(report_words * sizeof(CudaCounter));
    appended = places.add(workers * CudaWords::kCounterStride * sizeof(CudaCounter));
    taken = places.add(workers * CudaWords::kCounterStride * sizeof(CudaCounter));
    queue = places.add(workers * static_cast<size_t>(options.shape.queue_capacity) * sizeof(CudaTaggedWord));
    launched = places.add(image.launches.size() * sizeof(unsigned));
    profiled = places.add(workers * (kWorkerRoles - 1) * sizeof(unsigned));
    lengths = places.add(options.lengths.size() * sizeof(int));
  }
  Places places;
  size_t words, reports, report_words, appended, taken, queue, launched, profiled, lengths;
};

uint32_t* pinned_word(const PinnedMemory& memory, PinnedWord word) {
  return reinterpret_cast<uint32_t*>(memory.data() + word * kLine);
}

template <class T>
T* at(CudaPointer base, size_t offset) {
  return reinterpret_cast<T*>(base + offset);
}

}  // namespace

struct CudaKernel::Memory {
  explicit Memory(const CudaDriver& of) : driver(&of) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (stream != nullptr) driver->destroy_stream(stream);
    if (copies != nullptr) driver->destroy_stream(copies);
    if (module != nullptr) driver->unload_module(module);
  }

  const CudaDriver* driver;
  CudaModule module = nullptr;
  CudaFunction function = nullptr;
  CudaStream stream = nullptr;   ///< of the kernel
  CudaStream copies = nullptr;   ///< beside it
  std::vector<GpuMemory> parts;  ///< see Part
  std::vector<PinnedMemory> pinned;

  enum Part { kImage, kEvents, kLaunch, kProfile };
  enum PinnedPart { kHostWords, kMirror, kTokens };
};

CudaKernel::CudaKernel(const GpuDevice& device, const Plan& plan, Image image, const CudaOptions& options)
    : device_(&device),
      plan_(plan),
      image_(std::move(image)),
      options_(options),
      blocks_(image_.workers + (image_.schedulers + kBlockSchedulers - 1) / kBlockSchedulers),
      layout_(shared_layout(
          static_cast<unsigned>(options.shape.ring_bytes), static_cast<unsigned>(options.shape.ring_stages),
          static_cast<unsigned>(options.shape.listed), static_cast<unsigned>(options.shape.scratch_bytes))),
      memory_(std::make_unique<Memory>(device.driver())) {
  if (options_.operators.empty()) options_.operators.resize(plan.operators.size());
}

Result<std::unique_ptr<CudaKernel>> CudaKernel::make(const GpuDevice& device, const Plan& plan, const CudaCode& code,
                                                     const CudaOptions& options) {
  STRATA_CHECK(check_limits(options.limit, options.start_limit));
  if (options.shape.warps != kComputeWarps)
    return invalid("a worker of {} warps of compute; on a GPU it has {}", options.shape.warps, kComputeWarps);
  STRATA_TRY(Image image, make_image(plan, options.shape));
  if (!options.operators.empty() && options.operators.size() != plan.operators.size())
    return invalid("plan {} has {} operators; arguments of {} were given", plan.name, plan.operators.size(),
                   options.operators.size());
  std::unique_ptr<CudaKernel> kernel(new CudaKernel(device, plan, std::move(image), options));
  STRATA_CHECK(kernel->load(code));
  STRATA_CHECK(kernel->check_fits());
  STRATA_CHECK(kernel->allocate());
  return kernel;
}

CudaKernel::~CudaKernel() {
  if (launched_) {
    request_stop();
    static_cast<void>(wait());
  }
  // To free memory the driver waits for what runs.
  if (running()) static_cast<void>(memory_.release());
}

Result<void> CudaKernel::load(const CudaCode& code) {
  const CudaDriver& driver = device_->driver();
  Memory& m = *memory_;
  profile_ = code.profile;
  STRATA_CHECK(
      driver.check(driver.load_module(&m.module, code.cubin.data()),
                   fmt::format("loading the mega-kernel's code, for {}, on {}", code.target, device_->name())));
  STRATA_CHECK(
      driver.check(driver.get_function(&m.function, m.module, "strata_megakernel"), "the mega-kernel's entry"));
  STRATA_CHECK(driver.check(driver.create_stream(&m.stream, CudaDriver::kNonBlocking), "making a stream"));
  STRATA_CHECK(driver.check(driver.create_stream(&m.copies, CudaDriver::kNonBlocking), "making a stream"));
  return {};
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
  Places places;
  std::vector<char> bytes;
  const auto add = [&](const auto& values) {
    const size_t place = places.add(values.size() * sizeof(values[0]));  // aligned to kLine
    bytes.resize(places.size());
    if (!values.empty()) std::memcpy(bytes.data() + place, values.data(), values.size() * sizeof(values[0]));
    return place;
  };
  const size_t tasks = add(image_.tasks);
  const size_t records = add(options_.operators);
  const size_t triggers = add(image_.triggers);
  const size_t queue_first = add(image_.queue_first);
  const size_t queue_tasks = add(image_.queue_tasks);
  const size_t queued = add(queued_tasks(image_, options_.operators));
  const size_t launches = add(image_.launches);
  const size_t launch_first = add(image_.launch_first);
  const size_t launch_tasks = add(image_.launch_tasks);

  const LaunchPlaces launch(image_, options_);
  const size_t profiles = profile_ ? static_cast<size_t>(image_.workers) * (kWorkerRoles - 1) *
                                         options_.profile_capacity * sizeof(ProfileRecord)
                                   : 0;
  const size_t events = plan_.events.size() * CudaWords::kCounterStride * sizeof(CudaCounter);
  Memory& m = *memory_;
  for (const size_t size : {bytes.size(), events, launch.places.size(), profiles}) {
    STRATA_TRY(GpuMemory part, GpuMemory::allocate(*device_, static_cast<int64_t>(size)));
    m.parts.push_back(std::move(part));
  }
  for (const size_t size : {kPinnedWords * kLine, launch.report_words * sizeof(uint32_t), size_t{0}}) {
    STRATA_TRY(PinnedMemory part, PinnedMemory::allocate(*device_, size));
    m.pinned.push_back(std::move(part));
  }
  STRATA_CHECK(m.parts[Memory::kImage].upload({bytes.data(), bytes.size()}));
  STRATA_CHECK(m.parts[Memory::kEvents].clear());

  const CudaPointer image = m.parts[Memory::kImage].pointer();
  const CudaPointer state = m.parts[Memory::kLaunch].pointer();
  const WorkerShape& shape = options_.shape;
  Program<CudaWords>& p = program_;
  p.workers = image_.workers;
  p.schedulers = image_.schedulers;
  p.just_in_time = image_.just_in_time;
  p.tasks = at<TaskRecord>(image, tasks);
  p.operators = at<OperatorRecord>(image, records);
  p.triggers = at<int>(image, triggers);
  p.queue_first = at<int>(image, queue_first);
  p.queue_tasks = at<int>(image, queue_tasks);
  p.queued = at<QueuedTask>(image, queued);
  p.launches = at<LaunchRecord>(image, launches);
  p.launch_first = at<int>(image, launch_first);
  p.launch_tasks = at<int>(image, launch_tasks);
  p.placement = options_.placement;
  p.lengths = at<int>(state, launch.lengths);
  p.ring_bytes = static_cast<unsigned>(shape.ring_bytes);
  p.ring_stages = static_cast<unsigned>(shape.ring_stages);
  p.ring_shift = static_cast<unsigned>(std::countr_zero(p.ring_stages));
  p.window_bytes = static_cast<unsigned>(shape.window_bytes);
  p.listed = shape.listed;
  p.events = at<CudaCounter>(m.parts[Memory::kEvents].pointer(), 0);
  p.step = at<CudaCounter>(state, launch.words + kStep * kLine);
  p.abort = at<CudaCounter>(state, launch.words + kAbort * kLine);
  p.started = at<CudaCounter>(state, launch.words + kStarted * kLine);
  p.reports = at<CudaCounter>(state, launch.reports);
  p.queue = at<CudaTaggedWord>(state, launch.queue);
  p.queue_capacity = static_cast<unsigned>(shape.queue_capacity);
  p.appended = at<CudaCounter>(state, launch.appended);
  p.taken = at<CudaCounter>(state, launch.taken);
  p.launched = at<unsigned>(state, launch.launched);
  p.stop_requested = reinterpret_cast<CudaCounter*>(pinned_word(m.pinned[Memory::kHostWords], kStopRequested));
  p.steps_done = reinterpret_cast<CudaCounter*>(pinned_word(m.pinned[Memory::kHostWords], kStepsDone));
  p.tokens_per_step = options_.tokens_per_step;
  p.limit = static_cast<unsigned long long>(std::chrono::nanoseconds(options_.limit).count());
  p.start_limit = static_cast<unsigned long long>(std::chrono::nanoseconds(options_.start_limit).count());
  p.profile = profile_ ? at<ProfileRecord>(m.parts[Memory::kProfile].pointer(), 0) : nullptr;
  p.profiled = at<unsigned>(state, launch.profiled);
  p.profile_capacity = options_.profile_capacity;
  return {};
}

Result<void> CudaKernel::launch(uint32_t steps) {
  if (launched_) return with_remedy(invalid("a launch is running"), "wait for it");
  if (failed_) return with_remedy(invalid("the launch before failed, and its counters mean nothing"), "make a kernel");
  if (steps == 0 || steps >= kMostEpochs - next_epoch_)
    return invalid("a launch of {} steps after {}", steps, next_epoch_ - 1);
  auto started = start(steps);
  failed_ = !started;
  launched_ = started.has_value();
  return started;
}

Result<void> CudaKernel::start(uint32_t steps) {
  const CudaDriver& driver = device_->driver();
  Memory& m = *memory_;
  const size_t tokens = static_cast<size_t>(steps) * static_cast<size_t>(options_.tokens_per_step) * sizeof(int);
  if (m.pinned[Memory::kTokens].bytes() < tokens) {
    STRATA_TRY(m.pinned[Memory::kTokens], PinnedMemory::allocate(*device_, tokens));
  }
  std::memset(m.pinned[Memory::kTokens].data(), 0, tokens);
  const PinnedMemory& words = m.pinned[Memory::kHostWords];
  *pinned_word(words, kStopRequested) = 0;
  *pinned_word(words, kStepsDone) = next_epoch_ - 1;

  Program<CudaWords>& p = program_;
  p.tokens = reinterpret_cast<int*>(m.pinned[Memory::kTokens].data());
  p.first_epoch = next_epoch_;
  p.last_epoch = next_epoch_ + steps - 1;

  // Nothing but the counters of events lives longer than a launch.
  const auto fill = [&](const void* from, unsigned value, size_t count) {
    return driver.check(driver.fill_words_later(reinterpret_cast<CudaPointer>(from), value, count, m.stream),
                        "clearing memory");
  };
  const GpuMemory& state = m.parts[Memory::kLaunch];
  STRATA_CHECK(fill(at<void>(state.pointer(), 0), 0, static_cast<size_t>(state.bytes()) / sizeof(unsigned)));
  STRATA_CHECK(fill(p.step, next_epoch_ * 2, 1));
  if (!options_.lengths.empty())
    STRATA_CHECK(
        driver.check(driver.copy_to_device_later(reinterpret_cast<CudaPointer>(p.lengths), options_.lengths.data(),
                                                 options_.lengths.size() * sizeof(int), m.stream),
                     "copying lengths"));
  if (options_.lost_event >= 0 && next_epoch_ == 1)
    STRATA_CHECK(fill(p.events + options_.lost_event * CudaWords::kCounterStride, ~0u, 1));

  CudaLaunchAttribute cooperative{.id = CudaLaunchAttribute::kCooperative, .padding = 0, .value = {1}};
  const CudaLaunchConfig config{.grid = {static_cast<unsigned>(blocks_ - options_.absent_blocks), 1, 1},
                                .block = {kBlockThreads, 1, 1},
                                .shared_bytes = layout_.bytes,
                                .stream = m.stream,
                                .attributes = &cooperative,
                                .attribute_count = 1};
  auto scratch = static_cast<unsigned>(options_.shape.scratch_bytes);
  void* arguments[] = {&p, &scratch};
  return driver.check(driver.launch(&config, m.function, arguments, nullptr), "launching the mega-kernel");
}

void CudaKernel::request_stop() {
  std::atomic_ref(*pinned_word(memory_->pinned[Memory::kHostWords], kStopRequested))
      .store(1, std::memory_order_release);
}

uint32_t CudaKernel::steps_done() const {
  if (program_.first_epoch == 0) return 0;  // nothing was launched yet
  const auto done = std::atomic_ref(*pinned_word(memory_->pinned[Memory::kHostWords], kStepsDone));
  return done.load(std::memory_order_acquire) + 1 - program_.first_epoch;
}

std::span<const int> CudaKernel::tokens(uint32_t step) const {
  const auto count = static_cast<size_t>(options_.tokens_per_step);
  return {reinterpret_cast<const int*>(memory_->pinned[Memory::kTokens].data()) + step * count, count};
}

bool CudaKernel::running() const {
  return memory_ != nullptr && memory_->stream != nullptr &&
         device_->driver().query_stream(memory_->stream) == CudaDriver::kNotReady;
}

Result<void> CudaKernel::peek(CudaPointer from, std::span<uint32_t> to) const {
  const CudaDriver& driver = device_->driver();
  const PinnedMemory& mirror = memory_->pinned[Memory::kMirror];
  STRATA_CHECK(driver.check(driver.copy_to_host_later(mirror.data(), from, to.size_bytes(), memory_->copies),
                            "reading the mega-kernel's words"));
  STRATA_CHECK(driver.check(driver.synchronize_stream(memory_->copies), "reading the mega-kernel's words"));
  std::memcpy(to.data(), mirror.data(), to.size_bytes());
  return {};
}

Result<bool> CudaKernel::aborted() const {
  uint32_t cause = 0;
  STRATA_CHECK(peek(reinterpret_cast<CudaPointer>(program_.abort), {&cause, 1}));
  return cause != 0;
}

Result<AbortReport> CudaKernel::report() const {
  uint32_t cause = 0;
  std::vector<uint32_t> words(LaunchPlaces(image_, options_).report_words);
  STRATA_CHECK(peek(reinterpret_cast<CudaPointer>(program_.abort), {&cause, 1}));
  STRATA_CHECK(peek(reinterpret_cast<CudaPointer>(program_.reports), words));
  return read_report(cause, words, image_.workers);
}

Result<uint32_t> CudaKernel::wait() {
  if (!launched_) return with_remedy(invalid("nothing was launched"), "launch first");
  const CudaDriver& driver = device_->driver();
  using Clock = std::chrono::steady_clock;
  constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
  auto next_look = Clock::now() + kBetweenLooks;
  auto aborted_at = Clock::time_point::max();
  launched_ = false;
  failed_ = true;  // unless it ends as it should
  bool ended = false;
  while (!ended) {
    const int status = driver.query_stream(memory_->stream);
    ended = status == 0;
    if (status != CudaDriver::kNotReady)
      STRATA_CHECK(driver.check(status, fmt::format("running the mega-kernel {}", plan_.name)));
    if (ended || Clock::now() < next_look) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      continue;
    }
    next_look = Clock::now() + kBetweenLooks;
    STRATA_TRY(const bool is_aborted, aborted());
    if (is_aborted && aborted_at == Clock::time_point::max()) aborted_at = Clock::now();
    // All waits have ended by then.
    if (is_aborted && Clock::now() - aborted_at > options_.limit + std::chrono::seconds(1)) break;
  }
  STRATA_TRY(const bool is_aborted, aborted());
  if (is_aborted) {
    STRATA_TRY(const AbortReport why, report());
    auto error = environment("the mega-kernel {} was aborted: {}", plan_.name, describe(why, plan_));
    return ended ? error : with_remedy(error, "a block function does not return: end the process, to free the GPU");
  }
  failed_ = false;
  const uint32_t done = steps_done();
  next_epoch_ += done;
  for (int& length : options_.lengths) length += static_cast<int>(done);
  return done;
}

Result<std::vector<TracedTask>> CudaKernel::trace() const {
  std::vector<TracedTask> tasks;
  if (!profile_) return tasks;
  if (launched_) return with_remedy(invalid("a launch is running"), "wait for it");
  const CudaDriver& driver = device_->driver();
  constexpr int kRoles = kWorkerRoles - 1;
  std::vector<unsigned> counts(static_cast<size_t>(image_.workers) * kRoles);
  STRATA_CHECK(driver.check(driver.copy_to_host(counts.data(), reinterpret_cast<CudaPointer>(program_.profiled),
                                                counts.size() * sizeof(unsigned)),
                            "reading the profile"));
  std::vector<ProfileRecord> records(options_.profile_capacity);
  for (size_t buffer = 0; buffer < counts.size(); ++buffer) {
    if (counts[buffer] > options_.profile_capacity)
      return with_remedy(invalid("{} tasks were recorded for a worker; there is room for {}", counts[buffer],
                                 options_.profile_capacity),
                         "raise profile_capacity, or launch fewer steps");
    if (counts[buffer] == 0) continue;
    STRATA_CHECK(driver.check(
        driver.copy_to_host(records.data(),
                            reinterpret_cast<CudaPointer>(program_.profile + buffer * options_.profile_capacity),
                            counts[buffer] * sizeof(ProfileRecord)),
        "reading the profile"));
    for (unsigned i = 0; i < counts[buffer]; ++i)
      tasks.push_back(
          {static_cast<int>(buffer) / kRoles, static_cast<Role>(static_cast<int>(buffer) % kRoles + 1), records[i]});
  }
  return tasks;
}

}  // namespace strata::megakernel
