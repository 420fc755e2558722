#include "cases.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "support/random.h"

namespace strata::megakernel::testing {
namespace {

constexpr int kWarps = kComputeWarps;
constexpr int kScratchBytes = kComputeThreads * 8;  // a partial sum of each thread

bool chance(Random& random, int one_in) { return random.below(static_cast<uint64_t>(one_in)) == 0; }
int between(Random& random, int low, int high) {
  return low + static_cast<int>(random.below(static_cast<uint64_t>(high - low + 1)));
}

/// Layers of tasks that signal the layer's events; each task waits for some event of the layer before and for others
/// before that. Empty tasks gather what nobody waits for, so that the last task ends the step.
void add_tasks(Random& random, Plan& plan, const CaseSize& size) {
  std::vector<int> unwaited;
  const auto add = [&](int function, std::vector<int> waits) {
    for (const int event : waits) std::erase(unwaited, event);
    Task task;
    task.function = task.op = function;
    for (auto& coordinate : task.coordinates) coordinate = between(random, 0, 1000);
    task.waits = std::move(waits);
    plan.tasks.push_back(task);
  };
  const auto signal = [&](size_t event) {
    if (event == plan.events.size()) {
      plan.events.push_back({});
      unwaited.push_back(static_cast<int>(event));
    }
    plan.tasks.back().signal = static_cast<int>(event);
    ++plan.events[event].triggers;
  };
  const auto add_function = [&] {
    const auto number = static_cast<int>(plan.functions.size());
    plan.functions.push_back({.name = fmt::format("f{}", number)});
    plan.operators.push_back(fmt::format("operator {}", number));
    return number;
  };
  size_t before = 0;  // the first event of the layer before
  for (int layer = size.whole ? size.most_layers : between(random, 1, size.most_layers); layer > 0; --layer) {
    const size_t closed = plan.events.size();
    const int tasks = size.whole ? plan.workers : between(random, 1, size.most_tasks);
    const int events = size.whole ? 1 : between(random, 1, std::min(tasks, 4));
    const int function = add_function();
    for (int i = 0; i < tasks; ++i) {
      std::vector<int> waits;
      if (closed > 0) waits.push_back(static_cast<int>(before + random.below(closed - before)));
      for (int w = closed == 0 || size.whole ? 0 : between(random, 0, 2); w > 0; --w) {
        const int event = static_cast<int>(random.below(closed));
        if (std::count(waits.begin(), waits.end(), event) == 0) waits.push_back(event);
      }
      if (!size.whole && layer > 1 && chance(random, 8)) waits.clear();
      add(function, waits);
      signal(closed + static_cast<size_t>(i < events ? i : between(random, 0, events - 1)));
    }
    before = closed;
  }
  while (unwaited.size() > kMaxWaits) {
    add(-1, {unwaited.begin(), unwaited.begin() + kMaxWaits});
    signal(plan.events.size());
  }
  add(add_function(), std::vector<int>(unwaited));
}

void assign(Random& random, Plan& plan, Modes modes, const CaseSize& size) {
  plan.schedulers = modes == Modes::AheadOfTime ? 0 : between(random, 1, size.most_schedulers);
  plan.queues.resize(static_cast<size_t>(plan.workers));
  size_t turn = 0;
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    if (modes == Modes::JustInTime || (modes == Modes::Mixed && chance(random, 3))) {
      plan.tasks[t].mode = LaunchMode::JustInTime;
    } else {
      const size_t worker = size.whole ? turn++ : random.below(static_cast<uint64_t>(plan.workers));
      plan.queues[worker % plan.queues.size()].push_back(static_cast<int>(t));
    }
  }
}

/// Hand-offs as far as make_image takes them.
void hand_over(Random& random, Case& test) {
  for (Event& event : test.plan.events) {
    const HandOff hand_offs[] = {HandOff::Counter, HandOff::Tagged, HandOff::Tagged, HandOff::Worker};
    event.hand_off = hand_offs[random.below(4)];
    if (!make_image(test.plan, test.options.shape)) event.hand_off = HandOff::Counter;
  }
}

/// Adds runs of stages. No warp may be more than half of the ring's stages after the last one that it took, so a run in
/// time is used by all warps.
void add_runs(Random& random, Case& test, int t, const CaseSize& size) {
  CaseTask& task = test.tasks[static_cast<size_t>(t)];
  std::vector<int> last(kWarps, 0);
  int stages = 0;
  const auto add = [&](int count, unsigned bytes, bool history) {
    constexpr int kSharing[] = {1, 1, 2, 4, 8};
    int sharing = kSharing[random.below(5)];
    for (;; sharing = kWarps) {
      std::vector<int> after = last;
      const int groups = kWarps / sharing;
      for (int w = 0; w < kWarps; ++w)
        for (int n = w % groups; n < count; n += groups) after[static_cast<size_t>(w)] = stages + n;
      const int behind = stages + count - *std::min_element(after.begin(), after.end());
      if (behind > test.options.shape.ring_stages / 2 - kWarps + 1 && sharing < kWarps) continue;
      last = after;
      break;
    }
    task.runs.push_back({static_cast<int>(task.sources.size()), count, bytes, sharing, history ? 1 : 0});
    stages += count;
  };
  for (int run = between(random, 0, 3); run > 0; --run) {
    const unsigned bytes = 16 * static_cast<unsigned>(between(random, 1, static_cast<int>(size.most_stage_bytes / 16)));
    const int count = between(random, 1, 12);
    add(count, bytes, false);
    for (int n = 0; n < count; ++n) {
      task.sources.push_back(random.below(test.constants.size() * 4 - bytes) / 16 * 16);
    }
  }
  for (int row = between(random, 0, 2); row > 0; --row) {
    const auto from = static_cast<int>(random.below(test.tasks.size()));
    const int function = test.plan.tasks[static_cast<size_t>(from)].function;
    if (function < 0 || test.writes_tagged(from)) continue;
    add(1, kRowWords * 4, true);
    task.sources.push_back(static_cast<unsigned long long>(from));  // its place comes later
    test.plan.functions[static_cast<size_t>(function)].stores_for_copies = true;
  }
  TaskFunction& function = test.plan.functions[static_cast<size_t>(test.plan.tasks[static_cast<size_t>(t)].function)];
  for (const TestRun& run : task.runs) function.stage_bytes = std::max<int64_t>(function.stage_bytes, run.bytes);
  function.stages = std::max<int64_t>(function.stages, stages);
  function.scratch_bytes = kScratchBytes;
}

void add_inputs(Case& test) {
  const Plan& plan = test.plan;
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    if (plan.tasks[t].function < 0) continue;
    for (const int event : plan.tasks[t].waits)
      for (size_t p = 0; p < plan.tasks.size(); ++p)
        if (plan.tasks[p].signal == event && plan.tasks[p].function >= 0)
          (plan.events[static_cast<size_t>(event)].hand_off == HandOff::Tagged ? test.tasks[t].tagged
                                                                               : test.tasks[t].counted)
              .push_back(static_cast<int>(p));
  }
}

int tagged_words(const CaseTask& task) { return (task.words + 1) / 2; }

void place(Case& test) {
  size_t bytes = 0;
  const auto take = [&](size_t size) {
    const size_t at = bytes;
    bytes += (size + 15) / 16 * 16;
    return at;
  };
  // Outputs lie one after the other, as the tiles of a tensor do.
  for (CaseTask& task : test.tasks) task.output = take(static_cast<size_t>(task.words) * 4);
  for (CaseTask& task : test.tasks) task.tagged_words = take(static_cast<size_t>(tagged_words(task)) * sizeof(Tagged));
  for (CaseTask& task : test.tasks) {
    task.rows = take(2 * kRowWords * 4);
    task.seen = take(8);
    task.count = take(4);
  }
  test.state_bytes = bytes;
  for (CaseTask& task : test.tasks)
    for (const TestRun& run : task.runs) {
      unsigned long long& source = task.sources[static_cast<size_t>(run.first)];
      if (run.history != 0) source = test.tasks[source].rows;
    }
}

/// The operators' first own argument, and their last.
std::array<unsigned long long, 2> arguments_of(size_t op) { return {op + 1, test_mix(op)}; }

template <class T>
T& at(std::vector<unsigned char>& state, size_t offset) {
  return *reinterpret_cast<T*>(state.data() + offset);
}

}  // namespace

bool Case::writes_tagged(int task) const {
  const int signal = plan.tasks[static_cast<size_t>(task)].signal;
  return signal >= 0 && plan.events[static_cast<size_t>(signal)].hand_off == HandOff::Tagged;
}

uint32_t Case::epochs() const {
  uint32_t sum = 0;
  for (const uint32_t steps : launches) sum += steps;
  return finish > 0 ? finish : sum;
}

Case random_case(uint64_t seed, Modes modes, const CaseSize& size) {
  Random random(seed * 3 + static_cast<uint64_t>(modes));
  Case test;
  Plan& plan = test.plan;
  plan.name = fmt::format("random {}", seed);
  plan.workers = between(random, size.least_workers, size.most_workers);
  add_tasks(random, plan, size);
  assign(random, plan, modes, size);

  WorkerShape& shape = test.options.shape;
  const int least_ring = static_cast<int>((size.most_stage_bytes + kStageUnit - 1) / kStageUnit);
  shape.ring_bytes = static_cast<int64_t>(kStageUnit) * between(random, least_ring, chance(random, 3) ? 180 : 40);
  shape.window_bytes = between(random, 16, static_cast<int>(std::min<int64_t>(shape.ring_bytes, 65536)));
  shape.scratch_bytes = kScratchBytes + 16 * between(random, 0, 100);
  shape.listed = between(random, 1, 6);
  shape.queue_capacity = 1 << random.below(6);
  hand_over(random, test);

  test.constants.resize(1 << 18);
  for (uint32_t& word : test.constants) word = static_cast<uint32_t>(random());
  test.tasks.resize(plan.tasks.size());
  for (CaseTask& task : test.tasks) task.words = between(random, 1, size.most_words);
  for (size_t t = 0; t < plan.tasks.size(); ++t)
    if (plan.tasks[t].function >= 0) add_runs(random, test, static_cast<int>(t), size);
  add_inputs(test);
  place(test);

  test.most_delay = chance(random, 2) ? 0 : size.most_delay;
  test.options.placement = chance(random, 2) ? Placement::RoundRobin : Placement::LeastLoaded;
  test.options.tokens_per_step = 2;
  test.options.lengths = {between(random, 0, 5000)};
  test.options.limit = std::chrono::seconds(5);
  test.options.start_limit = std::chrono::seconds(1);
  for (int launch = between(random, 1, 3); launch > 0; --launch)
    test.launches.push_back(static_cast<uint32_t>(between(random, 1, 12)));
  if (chance(random, 4)) test.finish = test.epochs() - static_cast<uint32_t>(random.below(test.launches.back()));
  return test;
}

Outcome run_serially(const Case& test) {
  Outcome outcome;
  auto& state = outcome.state;
  state.resize(test.state_bytes);
  const auto* const constants = reinterpret_cast<const unsigned char*>(test.constants.data());
  for (uint32_t epoch = 1; epoch <= test.epochs(); ++epoch) {
    for (size_t t = 0; t < test.tasks.size(); ++t) {
      const CaseTask& task = test.tasks[t];
      if (test.plan.tasks[t].function < 0) continue;
      unsigned place = 0;
      unsigned long long hash = 0;
      const auto see = [&](const unsigned char* from, int count) {
        for (int i = 0; i < count; ++i) {
          unsigned word = 0;
          std::memcpy(&word, from + 4 * i, 4);
          hash += test_term(place++, word);
        }
      };
      for (const TestRun& run : task.runs)
        for (int n = 0; n < run.stages; ++n) {
          const unsigned long long source = task.sources[static_cast<size_t>(run.first + n)];
          const unsigned long long row = (epoch - 1) % 2 * kRowWords * 4;
          see(run.history != 0 ? state.data() + source + row : constants + source, static_cast<int>(run.bytes / 4));
        }
      for (const int from : task.counted) {
        const CaseTask& producer = test.tasks[static_cast<size_t>(from)];
        see(state.data() + producer.output, producer.words);
      }
      for (const int from : task.tagged) {
        const CaseTask& producer = test.tasks[static_cast<size_t>(from)];
        for (int w = 0; w < tagged_words(producer); ++w)
          see(state.data() + producer.tagged_words + static_cast<size_t>(w) * sizeof(Tagged), 2);
      }
      TaskRecord record{};
      record.task = static_cast<int>(t);
      std::copy(test.plan.tasks[t].coordinates.begin(), test.plan.tasks[t].coordinates.end(), record.coordinates);
      const auto [first, last] = arguments_of(static_cast<size_t>(test.plan.tasks[t].op));
      hash += test_begin(record, first, last, test.options.lengths[0] + static_cast<int>(epoch) - 1, epoch);

      if (test.writes_tagged(static_cast<int>(t))) {
        for (int w = 0; w < tagged_words(task); ++w)
          at<Tagged>(state, task.tagged_words + static_cast<size_t>(w) * sizeof(Tagged)) = {
              {test_output(hash, 2 * w), test_output(hash, 2 * w + 1)}, epoch, 0};
      } else {
        for (int w = 0; w < task.words; ++w)
          at<unsigned>(state, task.output + static_cast<size_t>(w) * 4) = test_output(hash, w);
        for (int w = 0; w < kRowWords; ++w)
          at<unsigned>(state, task.rows + (epoch % 2 * kRowWords + static_cast<size_t>(w)) * 4) = test_output(hash, w);
      }
      auto& seen = at<unsigned long long>(state, task.seen);
      seen = test_mix(seen + hash);
      ++at<unsigned>(state, task.count);
      if (t + 1 == test.tasks.size()) {
        outcome.tokens.push_back(static_cast<int>(hash & 0xffffff));
        outcome.tokens.push_back(static_cast<int>(epoch));
      }
    }
  }
  return outcome;
}

CaseRecords records_of(const Case& test, unsigned long long constants, unsigned long long state) {
  CaseRecords made;
  for (size_t t = 0; t < test.tasks.size(); ++t) {
    const CaseTask& task = test.tasks[t];
    TestRecord record{};
    record.runs = made.runs.size() * sizeof(TestRun);
    record.sources = made.sources.size() * sizeof(made.sources[0]);
    record.inputs = made.inputs.size() * sizeof(TestInput);
    for (const TestRun& run : task.runs) {
      for (int n = 0; n < run.stages; ++n)
        made.sources.push_back((run.history != 0 ? state : constants) +
                               task.sources[static_cast<size_t>(run.first + n)]);
      made.runs.push_back(run);
    }
    const size_t first = made.inputs.size();
    const auto add = [&](unsigned long long address, int count, int is_tagged, size_t bytes) {
      TestInput* const before = made.inputs.size() > first ? &made.inputs.back() : nullptr;
      if (before != nullptr && before->is_tagged == is_tagged &&
          before->address + static_cast<unsigned long long>(before->count) * bytes == address) {
        before->count += count;
      } else {
        made.inputs.push_back({address, count, is_tagged});
      }
    };
    for (const int from : task.counted) {
      const CaseTask& producer = test.tasks[static_cast<size_t>(from)];
      add(state + producer.output, producer.words, 0, 4);
    }
    for (const int from : task.tagged) {
      const CaseTask& producer = test.tasks[static_cast<size_t>(from)];
      add(state + producer.tagged_words, tagged_words(producer), 1, sizeof(Tagged));
    }
    record.output = state + task.output;
    record.tagged = test.writes_tagged(static_cast<int>(t)) ? state + task.tagged_words : 0;
    record.rows = state + task.rows;
    record.seen = state + task.seen;
    record.count = state + task.count;
    record.run_count = static_cast<int>(task.runs.size());
    record.input_count = static_cast<int>(made.inputs.size() - first);
    record.words = task.words;
    record.last = t + 1 == test.tasks.size() ? 1 : 0;
    record.finish = test.finish;
    record.most_delay = test.most_delay;
    record.fault_epoch = test.fault_epoch;
    record.fault = task.fault;
    record.fault_word = test.fault_word;
    made.records.push_back(record);
  }
  return made;
}

std::vector<OperatorRecord> operators_of(const Case& test, unsigned long long records) {
  std::vector<OperatorRecord> made;
  for (size_t op = 0; op < test.plan.operators.size(); ++op) {
    const auto [first, last] = arguments_of(op);
    OperatorRecord record{};
    record.arguments[0] = reinterpret_cast<void*>(records);
    record.arguments[1] = reinterpret_cast<void*>(first);
    record.arguments[kMostArguments - 1] = reinterpret_cast<void*>(last);
    made.push_back(record);
  }
  return made;
}

Result<CaseMemory> CaseMemory::make(const GpuDevice& device, const Case& test) {
  STRATA_TRY(GpuMemory constants, GpuMemory::allocate(device, static_cast<int64_t>(test.constants.size()) * 4));
  STRATA_CHECK(constants.upload({reinterpret_cast<const char*>(test.constants.data()), test.constants.size() * 4}));
  STRATA_TRY(GpuMemory state, GpuMemory::allocate(device, static_cast<int64_t>(test.state_bytes)));
  STRATA_CHECK(state.clear());
  CaseRecords made = records_of(test, constants.pointer(), state.pointer());
  const size_t runs_at = made.records.size() * sizeof(TestRecord);
  const size_t sources_at = (runs_at + made.runs.size() * sizeof(TestRun) + 15) / 16 * 16;
  const size_t inputs_at = sources_at + made.sources.size() * sizeof(made.sources[0]);
  std::vector<char> bytes(inputs_at + made.inputs.size() * sizeof(TestInput));
  STRATA_TRY(GpuMemory records, GpuMemory::allocate(device, static_cast<int64_t>(bytes.size())));
  made.add_bases(records.pointer() + runs_at, records.pointer() + sources_at, records.pointer() + inputs_at);
  const auto copy = [&](size_t to, const auto& from) {
    if (!from.empty()) std::memcpy(bytes.data() + to, from.data(), from.size() * sizeof(from[0]));
  };
  copy(0, made.records);
  copy(runs_at, made.runs);
  copy(sources_at, made.sources);
  copy(inputs_at, made.inputs);
  STRATA_CHECK(records.upload({bytes.data(), bytes.size()}));
  KernelOptions options = test.options;
  options.operators = operators_of(test, records.pointer());
  return CaseMemory(std::move(constants), std::move(state), std::move(records), std::move(options));
}

void CaseRecords::add_bases(unsigned long long of_runs, unsigned long long of_sources, unsigned long long of_inputs) {
  for (TestRecord& record : records) {
    record.runs += of_runs;
    record.sources += of_sources;
    record.inputs += of_inputs;
  }
}

Result<std::vector<unsigned char>> CaseMemory::state() const {
  std::vector<unsigned char> bytes(static_cast<size_t>(state_.bytes()));
  STRATA_CHECK(state_.download(bytes.data()));
  return bytes;
}

Result<Outcome> run_on_gpu(const GpuDevice& device, const CudaCode& code, const Case& test, double* elapsed) {
  STRATA_TRY(const CaseMemory memory, CaseMemory::make(device, test));
  STRATA_TRY(const auto kernel, CudaKernel::make(device, test.plan, code, memory.options()));
  Outcome outcome;
  if (elapsed != nullptr) *elapsed = 0;
  for (const uint32_t steps : test.launches) {
    const auto began = std::chrono::steady_clock::now();
    STRATA_CHECK(kernel->launch(steps));
    STRATA_TRY(const uint32_t done, kernel->wait());
    if (elapsed != nullptr) *elapsed += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    for (uint32_t step = 0; step < done; ++step)
      outcome.tokens.insert(outcome.tokens.end(), kernel->tokens(step).begin(), kernel->tokens(step).end());
  }
  STRATA_TRY(outcome.state, memory.state());
  return outcome;
}

std::string difference(const Case& test, const Outcome& found, const Outcome& expected) {
  const auto differs = [&](size_t at, size_t bytes) {
    return std::memcmp(found.state.data() + at, expected.state.data() + at, bytes) != 0;
  };
  for (size_t t = 0; t < test.tasks.size(); ++t) {
    const CaseTask& task = test.tasks[t];
    if (differs(task.count, 4)) {
      unsigned runs[2] = {};
      std::memcpy(&runs[0], found.state.data() + task.count, 4);
      std::memcpy(&runs[1], expected.state.data() + task.count, 4);
      return fmt::format("task {} ran {} times, expected {}", t, runs[0], runs[1]);
    }
    if (differs(task.seen, 8)) return fmt::format("task {} saw other data in some epoch", t);
    if (differs(task.output, static_cast<size_t>(task.words) * 4))
      return fmt::format("the output of task {} differs", t);
    if (differs(task.tagged_words, static_cast<size_t>(tagged_words(task)) * sizeof(Tagged)))
      return fmt::format("the tagged words of task {} differ", t);
    if (differs(task.rows, 2 * kRowWords * 4)) return fmt::format("the rows of task {} differ", t);
  }
  if (found.tokens != expected.tokens)
    return fmt::format("{} tokens differ from {} expected", found.tokens.size(), expected.tokens.size());
  return "";
}

}  // namespace strata::megakernel::testing
