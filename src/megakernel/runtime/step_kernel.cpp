#include "megakernel/runtime/step_kernel.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

namespace strata::megakernel {
namespace {

constexpr uint32_t kMostEpochs = 1u << 30;
constexpr size_t kLine = 128;  // bytes; what different threads poll lies on different lines

/// Arrays one after the other, each at the begin of a line.
class Arrays {
 public:
  template <class T>
  T* add(size_t count) {
    const size_t at = size_;
    size_ += (count * sizeof(T) + kLine - 1) / kLine * kLine;
    return reinterpret_cast<T*>(at);
  }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
};

template <class T>
void move_by(T*& pointer, uint64_t base) {
  pointer = reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(pointer) + base);
}

}  // namespace

KernelMemory::KernelMemory(const Plan& plan, const Image& image, const KernelOptions& options, bool profile) {
  Program<CudaWords>& p = offsets_;
  Arrays constants;
  const auto add = [&](auto*& pointer, const auto& values) {
    using T = std::remove_cvref_t<decltype(values[0])>;
    pointer = constants.add<T>(values.size());
    constants_.resize(constants.size());
    if (!values.empty())
      std::memcpy(constants_.data() + reinterpret_cast<uintptr_t>(pointer), values.data(), values.size() * sizeof(T));
  };
  add(p.tasks, image.tasks);
  add(p.operators, options.operators);
  add(p.triggers, image.triggers);
  add(p.queue_first, image.queue_first);
  add(p.queue_tasks, image.queue_tasks);
  add(p.queued, queued_tasks(image, options.operators));
  add(p.launches, image.launches);
  add(p.launch_first, image.launch_first);
  add(p.launch_tasks, image.launch_tasks);

  constexpr size_t kOfLine = kLine / sizeof(CudaCounter);
  const auto workers = static_cast<size_t>(image.workers);
  Arrays launch;
  p.step = launch.add<CudaCounter>(kOfLine);
  p.abort = launch.add<CudaCounter>(kOfLine);
  p.started = launch.add<CudaCounter>(kOfLine);
  report_words = (workers * kWorkerRoles + static_cast<size_t>(image.schedulers)) * kReportWords;
  p.reports = launch.add<CudaCounter>(report_words);
  p.appended = launch.add<CudaCounter>(workers * CudaWords::kCounterStride);
  p.taken = launch.add<CudaCounter>(workers * CudaWords::kCounterStride);
  p.queue = launch.add<CudaTaggedWord>(workers * static_cast<size_t>(options.shape.queue_capacity));
  p.launched = launch.add<unsigned>(image.launches.size());
  p.profiled = launch.add<unsigned>(workers * (kWorkerRoles - 1));
  p.lengths = launch.add<int>(options.lengths.size());
  launch_bytes = launch.size();
  event_bytes = plan.events.size() * CudaWords::kCounterStride * sizeof(CudaCounter);
  if (profile) profile_bytes = workers * (kWorkerRoles - 1) * options.profile_capacity * sizeof(ProfileRecord);

  const WorkerShape& shape = options.shape;
  p.workers = image.workers;
  p.schedulers = image.schedulers;
  p.just_in_time = image.just_in_time;
  p.placement = options.placement;
  p.ring_bytes = static_cast<unsigned>(shape.ring_bytes);
  p.ring_stages = static_cast<unsigned>(shape.ring_stages);
  p.ring_shift = static_cast<unsigned>(std::countr_zero(p.ring_stages));
  p.window_bytes = static_cast<unsigned>(shape.window_bytes);
  p.ahead_bytes = static_cast<unsigned>(shape.ahead_bytes);
  p.listed = shape.listed;
  p.without = options.without;
  p.queue_capacity = static_cast<unsigned>(shape.queue_capacity);
  p.tokens_per_step = options.tokens_per_step;
  p.limit = static_cast<unsigned long long>(std::chrono::nanoseconds(options.limit).count());
  p.start_limit = static_cast<unsigned long long>(std::chrono::nanoseconds(options.start_limit).count());
  p.profile_capacity = options.profile_capacity;
}

Program<CudaWords> KernelMemory::program(const Places& places) const {
  Program<CudaWords> p = offsets_;
  const auto move_all = [](uint64_t base, auto*&... pointers) { (move_by(pointers, base), ...); };
  move_all(places.constants, p.tasks, p.operators, p.triggers, p.queue_first, p.queue_tasks, p.queued, p.launches,
           p.launch_first, p.launch_tasks);
  move_all(places.launch, p.step, p.abort, p.started, p.reports, p.appended, p.taken, p.queue, p.launched, p.profiled,
           p.lengths);
  move_all(places.events, p.events);
  if (profile_bytes > 0) move_all(places.profile, p.profile);
  p.stop_requested = reinterpret_cast<CudaCounter*>(places.stop_requested);
  p.steps_done = reinterpret_cast<CudaCounter*>(places.steps_done);
  return p;
}

StepKernel::StepKernel(const Plan& plan, Image image, const KernelOptions& options, bool profile)
    : plan_(plan),
      image_(std::move(image)),
      options_([&] {
        KernelOptions all = options;
        if (all.operators.empty()) all.operators.resize(plan.operators.size());
        return all;
      }()),
      profile_(profile),
      parts_(plan_, image_, options_, profile) {}

Result<Image> StepKernel::checked_image(const Plan& plan, const KernelOptions& options) {
  STRATA_CHECK(check_limits(options.limit, options.start_limit));
  if (options.shape.warps != kComputeWarps)
    return invalid("a worker of {} warps of compute; a block of the kernel has {}", options.shape.warps, kComputeWarps);
  if (!options.operators.empty() && options.operators.size() != plan.operators.size())
    return invalid("plan {} has {} operators; arguments of {} were given", plan.name, plan.operators.size(),
                   options.operators.size());
  return make_image(plan, options.shape);
}

Result<void> StepKernel::launch(uint32_t steps) {
  if (launched_) return with_remedy(invalid("a launch is running"), "wait for it");
  if (failed_) return with_remedy(invalid("the launch before failed, and its counters mean nothing"), "make a kernel");
  if (steps == 0 || steps >= kMostEpochs - next_epoch_)
    return invalid("a launch of {} steps after {}", steps, next_epoch_ - 1);
  auto started = start(steps);
  failed_ = !started;
  launched_ = started.has_value();
  return started;
}

void StepKernel::begin_steps(uint32_t steps, int* device_tokens) {
  *host_word(HostWord::StopRequested) = 0;
  *host_word(HostWord::StepsDone) = next_epoch_ - 1;
  program_.tokens = device_tokens;
  program_.first_epoch = next_epoch_;
  program_.last_epoch = next_epoch_ + steps - 1;
}

std::vector<std::pair<const void*, uint32_t>> StepKernel::first_words(uint32_t first_epoch) const {
  std::vector<std::pair<const void*, uint32_t>> words{{program_.step, next_epoch_ * 2}};
  for (size_t n = 0; n < options_.lengths.size(); ++n)
    words.emplace_back(program_.lengths + n, static_cast<uint32_t>(options_.lengths[n]) - (next_epoch_ - first_epoch));
  if (options_.lost_event >= 0 && next_epoch_ == 1)
    words.emplace_back(program_.events + options_.lost_event * CudaWords::kCounterStride, ~0u);
  return words;
}

void StepKernel::request_stop() {
  std::atomic_ref(*host_word(HostWord::StopRequested)).store(1, std::memory_order_release);
}

uint32_t StepKernel::steps_done() const {
  if (program_.first_epoch == 0) return 0;  // nothing was launched yet
  const auto done = std::atomic_ref(*host_word(HostWord::StepsDone));
  return done.load(std::memory_order_acquire) + 1 - program_.first_epoch;
}

std::span<const int> StepKernel::tokens(uint32_t step) const {
  const auto count = static_cast<size_t>(options_.tokens_per_step);
  return {host_tokens() + step * count, count};
}

Result<bool> StepKernel::aborted() const {
  uint32_t cause = 0;
  STRATA_CHECK(peek(program_.abort, {&cause, 1}));
  return cause != 0;
}

Result<AbortReport> StepKernel::report() const {
  uint32_t cause = 0;
  std::vector<uint32_t> words(parts_.report_words);
  STRATA_CHECK(peek(program_.abort, {&cause, 1}));
  STRATA_CHECK(peek(program_.reports, words));
  return read_report(cause, words, image_.workers);
}

Result<uint32_t> StepKernel::wait() {
  if (!launched_) return with_remedy(invalid("nothing was launched"), "launch first");
  launched_ = false;
  failed_ = true;  // unless it ends as it should
  const Result<bool> ended = await_end();
  const Result<bool> is_aborted = aborted();
  if (!is_aborted) return tl::unexpected((ended ? is_aborted : ended).error());
  if (*is_aborted) {
    STRATA_TRY(const AbortReport why, report());
    const auto error = environment("the mega-kernel {} was aborted: {}", plan_.name, describe(why, plan_));
    if (!ended) return with_remedy(error, ended.error().message);
    return *ended ? error : with_remedy(error, "a block function does not return: end the process, to free the GPU");
  }
  if (!ended) return tl::unexpected(ended.error());
  failed_ = false;
  const uint32_t done = steps_done();
  next_epoch_ += done;
  for (int& length : options_.lengths) length += static_cast<int>(done);
  return done;
}

void StepKernel::end_launch() {
  if (!launched_) return;
  request_stop();
  static_cast<void>(wait());
}

Result<std::vector<TracedTask>> StepKernel::trace() const {
  std::vector<TracedTask> tasks;
  if (!profile_) return tasks;
  if (launched_) return with_remedy(invalid("a launch is running"), "wait for it");
  constexpr int kRoles = kWorkerRoles - 1;
  std::vector<uint32_t> counts(static_cast<size_t>(image_.workers) * kRoles);
  STRATA_CHECK(peek(program_.profiled, counts));
  for (size_t buffer = 0; buffer < counts.size(); ++buffer) {
    const uint32_t capacity = options_.profile_capacity, kept = std::min(counts[buffer], capacity);
    std::vector<uint32_t> words(kept * sizeof(ProfileRecord) / sizeof(uint32_t));
    if (words.empty()) continue;
    STRATA_CHECK(peek(program_.profile + buffer * capacity, words));
    for (uint32_t n = counts[buffer] - kept; n < counts[buffer]; ++n) {
      ProfileRecord record;
      std::memcpy(&record, words.data() + n % capacity * (sizeof record / sizeof(uint32_t)), sizeof record);
      tasks.push_back(
          {static_cast<int>(buffer) / kRoles, static_cast<Role>(static_cast<int>(buffer) % kRoles + 1), record});
    }
  }
  return tasks;
}

Result<void> StepKernel::make_room(std::span<GraphLaunch> launches) const {
  int64_t tasks = 0;
  for (GraphLaunch& launch : launches) {
    launch.first_record = static_cast<int>(tasks);
    tasks += launch.tasks;
  }
  const int64_t steps = profile_ ? int64_t{image_.workers} * options_.profile_capacity / tasks : 0;
  if (profile_ && steps == 0)
    return with_remedy(invalid("a step of {} tasks; there is room for the records of {}", tasks,
                               int64_t{image_.workers} * options_.profile_capacity),
                       "raise profile_capacity");
  for (GraphLaunch& launch : launches) {
    launch.step_records = static_cast<int>(tasks);
    launch.kept_steps = static_cast<int>(steps);
  }
  return {};
}

Result<std::vector<TracedTask>> StepKernel::graph_trace(std::span<const GraphLaunch> launches) const {
  std::vector<TracedTask> traced;
  if (!profile_) return traced;
  if (launched_) return with_remedy(invalid("a launch is running"), "wait for it");
  std::map<std::pair<int, std::array<int64_t, 3>>, int> numbers;  // of tasks, by operator and coordinates
  for (size_t t = 0; t < plan_.tasks.size(); ++t)
    numbers[{plan_.tasks[t].op, plan_.tasks[t].coordinates}] = static_cast<int>(t);
  const auto steps = static_cast<size_t>(launches.front().kept_steps);
  const auto tasks = static_cast<size_t>(launches.front().step_records);
  std::vector<ProfileRecord> records(tasks);
  for (size_t part = 0; part < steps * (kWorkerRoles - 1); ++part) {
    std::vector<uint32_t> words(tasks * sizeof(ProfileRecord) / sizeof(uint32_t));
    STRATA_CHECK(peek(program_.profile + part * tasks, words));
    std::memcpy(records.data(), words.data(), words.size() * sizeof(uint32_t));
    for (const GraphLaunch& launch : launches) {
      const int op = plan_.tasks[static_cast<size_t>(launch.first_task)].op;
      for (int n = 0; n < launch.tasks; ++n) {
        ProfileRecord record = records[static_cast<size_t>(launch.first_record + n)];
        if (record.epoch < program_.first_epoch || record.epoch > program_.last_epoch) continue;
        const int multiprocessor = std::exchange(
            record.task,
            numbers.at(
                {op, {n % launch.grid[0], n / launch.grid[0] % launch.grid[1], n / launch.grid[0] / launch.grid[1]}}));
        traced.push_back({n % launch.blocks, static_cast<Role>(part / steps + 1), record, multiprocessor});
      }
    }
  }
  return traced;
}

}  // namespace strata::megakernel
