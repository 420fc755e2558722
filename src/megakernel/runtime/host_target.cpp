#include "megakernel/runtime/host_target.h"

#include <bit>

namespace strata::megakernel {
namespace {

/// Of HostKernel::words_.
enum Word { kStep, kAbort, kStarted, kDecision, kStopRequested, kStepsDone, kWords };

constexpr uint32_t kMostEpochs = 1u << 30;

template <class T>
std::vector<T> words(size_t count) {
  return std::vector<T>(count);
}

struct FunctionTable {
  const std::vector<HostFunction>& functions;

  void load(const Descriptor& task, HostLoad& side) const {
    if (const auto& f = functions[task.record.function].load) f(task, side);
  }
  void compute(const Descriptor& task, HostCompute& side) const {
    if (const auto& f = functions[task.record.function].compute) f(task, side);
  }
};

}  // namespace

/// A worker's shared memory, and its team.
struct HostKernel::Worker {
  Worker(const WorkerShape& shape, int lanes)
      : full(shape.ring_stages),
        empty(shape.ring_stages),
        listed(shape.listed),
        unlisted(shape.listed),
        list(shape.listed),
        stages(shape.ring_stages),
        ring(shape.ring_bytes),
        scratch(shape.scratch_bytes),
        team(shape.warps, lanes) {}

  WorkerMemory<HostPlatform> memory() {
    return {full.data(), empty.data(), listed.data(), unlisted.data(), list.data(),   &loaded,
            &ended,      running,      stages.data(), ring.data(),     scratch.data()};
  }

  std::vector<HostBarrier> full, empty, listed, unlisted;
  std::vector<Descriptor> list;
  HostCounter loaded, ended, running[2];
  std::vector<StageRecord> stages;
  std::vector<unsigned char> ring, scratch;
  HostTeam team;
};

Result<std::unique_ptr<HostKernel>> HostKernel::make(const Plan& plan, std::vector<HostFunction> functions,
                                                     const HostOptions& options) {
  STRATA_CHECK(check_limits(options.limit, options.start_limit));
  if (options.lanes < 1) return invalid("warps of {} threads", options.lanes);
  STRATA_TRY(Image image, make_image(plan, options.shape));
  if (functions.size() != plan.functions.size())
    return invalid("plan {} has {} block functions; {} were given", plan.name, plan.functions.size(), functions.size());
  if (!options.operators.empty() && options.operators.size() != plan.operators.size())
    return invalid("plan {} has {} operators; arguments of {} were given", plan.name, plan.operators.size(),
                   options.operators.size());
  return std::unique_ptr<HostKernel>(new HostKernel(plan, std::move(image), std::move(functions), options));
}

HostKernel::HostKernel(const Plan& plan, Image image, std::vector<HostFunction> functions, const HostOptions& options)
    : plan_(plan),
      image_(std::move(image)),
      functions_(std::move(functions)),
      options_(options),
      events_(plan.events.size() * HostPlatform::kCounterStride),
      lengths_(options.lengths) {
  if (options_.operators.empty()) options_.operators.resize(plan.operators.size());
}

HostKernel::~HostKernel() {
  if (!threads_.empty()) {
    request_stop();
    static_cast<void>(wait());
  }
}

Result<void> HostKernel::launch(uint32_t steps) {
  if (!threads_.empty()) return with_remedy(invalid("a launch is running"), "wait for it");
  if (failed_) return with_remedy(invalid("the launch before failed, and its counters mean nothing"), "make a kernel");
  if (steps == 0 || steps >= kMostEpochs - next_epoch_)
    return invalid("a launch of {} steps after {}", steps, next_epoch_ - 1);
  const WorkerShape& shape = options_.shape;
  const int roles = image_.workers * kWorkerRoles + image_.schedulers;
  const int profiles = image_.workers * (kWorkerRoles - 1);

  // Nothing but the counters of events lives longer than a launch.
  words_ = words<HostCounter>(kWords);
  words_[kStep].value = next_epoch_ * 2;
  words_[kStepsDone].value = next_epoch_ - 1;
  reports_ = words<HostCounter>(static_cast<size_t>(roles) * kReportWords);
  appended_ = words<HostCounter>(static_cast<size_t>(image_.workers) * HostPlatform::kCounterStride);
  taken_ = words<HostCounter>(static_cast<size_t>(image_.workers) * HostPlatform::kCounterStride);
  queue_ = words<HostTaggedWord>(static_cast<size_t>(image_.workers) * shape.queue_capacity);
  launched_.assign(image_.launches.size(), 0);
  tokens_.assign(static_cast<size_t>(steps) * options_.tokens_per_step, 0);
  profile_.assign(options_.profile ? static_cast<size_t>(profiles) * options_.profile_capacity : 0, {});
  profiled_.assign(profiles, 0);

  program_.workers = image_.workers;
  program_.schedulers = image_.schedulers;
  program_.just_in_time = image_.just_in_time;
  program_.tasks = image_.tasks.data();
  program_.operators = options_.operators.data();
  program_.lengths = lengths_.data();
  program_.triggers = image_.triggers.data();
  program_.queue_first = image_.queue_first.data();
  program_.queue_tasks = image_.queue_tasks.data();
  queued_ = queued_tasks(image_, options_.operators);
  program_.queued = queued_.data();
  program_.launches = image_.launches.data();
  program_.launch_first = image_.launch_first.data();
  program_.launch_tasks = image_.launch_tasks.data();
  program_.placement = options_.placement;
  program_.ring_bytes = static_cast<unsigned>(shape.ring_bytes);
  program_.ring_stages = static_cast<unsigned>(shape.ring_stages);
  program_.ring_shift = static_cast<unsigned>(std::countr_zero(program_.ring_stages));
  program_.window_bytes = static_cast<unsigned>(shape.window_bytes);
  program_.ahead_bytes = static_cast<unsigned>(shape.ahead_bytes);
  program_.listed = shape.listed;
  program_.without = options_.without;
  program_.events = events_.data();
  program_.step = &words_[kStep];
  program_.abort = &words_[kAbort];
  program_.started = &words_[kStarted];
  program_.reports = reports_.data();
  program_.queue = queue_.data();
  program_.queue_capacity = static_cast<unsigned>(shape.queue_capacity);
  program_.appended = appended_.data();
  program_.taken = taken_.data();
  program_.launched = launched_.data();
  program_.stop_requested = &words_[kStopRequested];
  program_.steps_done = &words_[kStepsDone];
  program_.tokens = tokens_.data();
  program_.tokens_per_step = options_.tokens_per_step;
  program_.first_epoch = next_epoch_;
  program_.last_epoch = next_epoch_ + steps - 1;
  program_.limit = static_cast<unsigned long long>(std::chrono::nanoseconds(options_.limit).count());
  program_.start_limit = static_cast<unsigned long long>(std::chrono::nanoseconds(options_.start_limit).count());
  program_.profile = options_.profile ? profile_.data() : nullptr;
  program_.profiled = profiled_.data();
  program_.profile_capacity = options_.profile_capacity;

  if (options_.late_stores) late_ = std::make_unique<LateStores>(options_.seed);
  machine_.late = late_.get();
  machine_.delays = options_.delays;
  machine_.lost = options_.lost_event >= 0 ? &events_[options_.lost_event * HostPlatform::kCounterStride] : nullptr;
  machine_.signals_to_lose = options_.lost_signal;
  machine_.meet_limit = options_.meet_limit;
  workers_.clear();
  for (int w = 0; w < image_.workers; ++w) {
    workers_.push_back(std::make_unique<Worker>(shape, options_.lanes));
    HostPlatform platform(machine_, 0);
    start_memory(platform, program_, workers_.back()->memory(), static_cast<unsigned>(shape.warps));
  }
  if (options_.profile) {
    start_threads<true>();
  } else {
    start_threads<false>();
  }
  return {};
}

template <bool kProfile>
void HostKernel::start_threads() {
  uint64_t seed = options_.seed;
  const auto start = [&](auto role, HostTeam* team = nullptr, int rank = 0) {
    running_.fetch_add(1, std::memory_order_relaxed);
    threads_.emplace_back([this, role, team, rank, seed = ++seed] {
      HostPlatform platform(machine_, seed, team, rank);
      FunctionTable table{functions_};
      role(platform, table);
      running_.fetch_sub(1, std::memory_order_release);
    });
  };
  for (int s = 0; s < image_.schedulers; ++s)
    start([this, s](HostPlatform& platform, FunctionTable&) { run_schedule(platform, program_, s); });
  for (int w = 0; w < image_.workers; ++w) {
    if (w == options_.absent_worker) continue;
    const WorkerMemory<HostPlatform> memory = workers_[w]->memory();
    start([=, this](HostPlatform& platform, FunctionTable&) { run_control<kProfile>(platform, program_, memory, w); });
    start([=, this](HostPlatform& platform, FunctionTable& table) {
      run_load<kProfile>(platform, program_, memory, w, table);
    });
    HostTeam& team = workers_[w]->team;
    for (int rank = 0; rank < team.warps * team.lanes; ++rank) {
      start([=, this](HostPlatform& platform,
                      FunctionTable& table) { run_compute<kProfile>(platform, program_, memory, w, table); },
            &team, rank);
    }
  }
}

void HostKernel::request_stop() {
  if (!words_.empty()) words_[kStopRequested].value.store(1, std::memory_order_relaxed);
}

uint32_t HostKernel::steps_done() const {
  if (words_.empty()) return 0;
  return words_[kStepsDone].value.load(std::memory_order_acquire) + 1 - program_.first_epoch;
}

std::span<const int> HostKernel::tokens(uint32_t step) const {
  return std::span(tokens_).subspan(static_cast<size_t>(step) * options_.tokens_per_step, options_.tokens_per_step);
}

bool HostKernel::aborted() const {
  return !words_.empty() && words_[kAbort].value.load(std::memory_order_acquire) != 0;
}

AbortReport HostKernel::report() const {
  std::vector<uint32_t> copy;
  for (const HostCounter& word : reports_) copy.push_back(word.value.load(std::memory_order_acquire));
  return read_report(words_[kAbort].value.load(std::memory_order_acquire), copy, image_.workers);
}

Result<uint32_t> HostKernel::wait() {
  if (threads_.empty()) return with_remedy(invalid("nothing was launched"), "launch first");
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  late_.reset();
  machine_.late = nullptr;
  if (machine_.team_error) {
    failed_ = true;
    return environment("threads of a team of {} did not meet", plan_.name);
  }
  if (aborted()) {
    failed_ = true;
    return environment("the mega-kernel {} was aborted: {}", plan_.name, describe(report(), plan_));
  }
  if (machine_.phase_error) {
    failed_ = true;
    return environment("a role of {} waited for a barrier more than one phase away", plan_.name);
  }
  const uint32_t done = steps_done();
  next_epoch_ += done;
  for (int& length : lengths_) length += static_cast<int>(done);
  return done;
}

Result<std::vector<TracedTask>> HostKernel::trace() const {
  std::vector<TracedTask> tasks;
  if (!options_.profile) return tasks;
  for (size_t buffer = 0; buffer < profiled_.size(); ++buffer) {
    const uint32_t capacity = options_.profile_capacity, count = profiled_[buffer];
    const int roles = kWorkerRoles - 1;
    for (uint32_t n = count - std::min(count, capacity); n < count; ++n)
      tasks.push_back({static_cast<int>(buffer) / roles, static_cast<Role>(static_cast<int>(buffer) % roles + 1),
                       profile_[buffer * capacity + n % capacity]});
  }
  return tasks;
}

}  // namespace strata::megakernel
