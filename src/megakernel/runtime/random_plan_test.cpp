// Random plans on the host target: every task runs once in an epoch, sees what its predecessors wrote in that epoch,
// and what comes of it is that of a serial run, bit for bit.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "megakernel/runtime/test_random_plan.h"

namespace strata::megakernel::testing {
namespace {

bool chance(Random& random, int one_in) { return random.below(one_in) == 0; }
int between(Random& random, int low, int high) { return low + static_cast<int>(random.below(high - low + 1)); }

/// Groups of neighbours, whose tasks signal the group's events; later groups wait for some of them. Empty tasks gather
/// what nobody waits for, so that the last task ends the step.
void add_tasks(Random& random, Plan& plan) {
  std::vector<int> unwaited;
  const auto add = [&](int function, std::vector<int> waits) {
    for (const int event : waits) std::erase(unwaited, event);
    Task task;
    task.function = task.op = function;
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
    plan.functions.push_back({fmt::format("f{}", number)});
    plan.operators.push_back(fmt::format("operator {}", number));
    return number;
  };
  for (int group = between(random, 1, 6); group > 0; --group) {
    const size_t closed = plan.events.size();
    const int size = between(random, 1, 5);
    const int events = between(random, 1, size);
    for (int i = 0; i < size; ++i) {
      std::vector<int> waits;
      for (int w = closed == 0 ? 0 : between(random, 0, 3); w > 0; --w) {
        const int event = static_cast<int>(random.below(closed));
        if (std::count(waits.begin(), waits.end(), event) == 0) waits.push_back(event);
      }
      add(add_function(), waits);
      signal(closed + (i < events ? i : random.below(events)));
    }
  }
  while (unwaited.size() > kMaxWaits) {
    add(-1, {unwaited.begin(), unwaited.begin() + kMaxWaits});
    signal(plan.events.size());
  }
  add(add_function(), std::vector<int>(unwaited));
}

void assign(Random& random, Plan& plan, Modes modes) {
  plan.workers = between(random, 1, 6);
  plan.schedulers = modes == Modes::AheadOfTime ? between(random, 0, 1) : between(random, 1, 2);
  plan.queues.resize(plan.workers);
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    if (modes == Modes::JustInTime || (modes == Modes::Mixed && chance(random, 3))) {
      plan.tasks[t].mode = LaunchMode::JustInTime;
    } else {
      plan.queues[random.below(plan.workers)].push_back(static_cast<int>(t));
    }
  }
}

/// Tries a change, and takes it back where make_image says that the plan could not run. So a check that is too weak
/// shows in the runs.
template <class Change, class Undo>
void attempt(const TestCase& test, Change change, Undo undo) {
  change();
  if (!make_image(test.plan, test.options.shape)) undo();
}

/// Whether all that a task stores are tagged words.
bool writes_tagged(const Plan& plan, int t) {
  const int signal = plan.tasks[t].signal;
  return signal >= 0 && plan.events[signal].hand_off == HandOff::Tagged;
}

TestTask random_task(Random& random, const TestCase& test, int t) {
  const Plan& plan = test.plan;
  TestTask task;
  task.words = between(random, 1, kMostWords);
  const int most = static_cast<int>(std::min<int64_t>(test.options.shape.ring_bytes, 3 * kStageUnit)) / 16;
  for (int runs = between(random, 0, 2); runs > 0; --runs) {
    TestRun& run = task.runs.emplace_back();
    run.shared = chance(random, 2);
    const int words = 4 * between(random, 1, chance(random, 2) ? most : 8);
    for (int i = between(random, 1, 6); i > 0; --i) {
      run.stages.emplace_back(words);
      for (uint32_t& word : run.stages.back()) word = static_cast<uint32_t>(random());
    }
  }
  for (int i = between(random, 0, 2); i > 0; --i) {
    const int from = static_cast<int>(random.below(plan.tasks.size()));
    if (plan.tasks[from].function >= 0 && !writes_tagged(plan, from)) task.history.push_back(from);
  }
  for (const int event : plan.tasks[t].waits)
    for (size_t p = 0; p < plan.tasks.size(); ++p)
      if (plan.tasks[p].signal == event && plan.tasks[p].function >= 0)
        (plan.events[event].hand_off == HandOff::Tagged ? task.tagged : task.counted).push_back(static_cast<int>(p));
  return task;
}

/// Rows of history that a task loads where the sequence has `position` positions.
size_t rows_of(const TestTask& task, int position) { return static_cast<size_t>(position) % (task.history.size() + 1); }

}  // namespace

TestCase random_case(uint64_t seed, Modes modes) {
  Random random(seed * 3 + static_cast<uint64_t>(modes));
  TestCase test;
  Plan& plan = test.plan;
  plan.name = fmt::format("random {}", seed);
  add_tasks(random, plan);
  assign(random, plan, modes);

  WorkerShape& shape = test.options.shape;
  shape.warps = 1 << random.below(2);
  test.options.lanes = between(random, 1, shape.warps == 1 ? 3 : 2);
  shape.ring_stages = shape.warps << between(random, 2, 3);
  shape.ring_bytes = static_cast<int64_t>(kStageUnit) * between(random, 1, 7);
  shape.window_bytes = between(random, 1, 4 * static_cast<int>(kStageUnit));
  shape.ahead_bytes = 1024 * between(random, 0, 4);
  shape.scratch_bytes = 8 * shape.warps * test.options.lanes;
  shape.listed = between(random, 1, 5);
  if (random.below(4) == 0) test.options.without = static_cast<unsigned>(random.below(4));
  shape.queue_capacity = 1 << random.below(4);

  for (int i = between(random, 0, 4); i > 0; --i) {
    auto& queue = plan.queues[random.below(plan.workers)];
    if (queue.size() < 2) continue;
    auto& a = queue[random.below(queue.size())];
    auto& b = queue[random.below(queue.size())];
    attempt(
        test, [&] { std::swap(a, b); }, [&] { std::swap(a, b); });
  }
  for (Event& event : plan.events) {
    const HandOff hand_offs[] = {HandOff::Counter, HandOff::Tagged, HandOff::Worker};
    attempt(
        test, [&] { event.hand_off = hand_offs[random.below(3)]; }, [&] { event.hand_off = HandOff::Counter; });
  }

  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    test.tasks.push_back(random_task(random, test, static_cast<int>(t)));
    if (plan.tasks[t].function >= 0) continue;
    const int words = test.tasks[t].words;
    test.tasks[t] = {};
    test.tasks[t].words = words;
  }
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    if (plan.tasks[t].function < 0) continue;
    TaskFunction& function = plan.functions[plan.tasks[t].function];
    function.scratch_bytes = shape.scratch_bytes;
    function.stages = static_cast<int64_t>(test.tasks[t].history.size());
    function.stage_bytes = function.stages > 0 ? 4 * kMostWords : 0;
    for (const TestRun& run : test.tasks[t].runs) {
      function.stages += static_cast<int64_t>(run.stages.size());
      function.stage_bytes = std::max(function.stage_bytes, static_cast<int64_t>(4 * run.stages[0].size()));
    }
    for (const int from : test.tasks[t].history) plan.functions[plan.tasks[from].function].stores_for_copies = true;
  }

  test.options.placement = chance(random, 2) ? Placement::RoundRobin : Placement::LeastLoaded;
  test.options.delays = !chance(random, 4);
  test.options.late_stores = !chance(random, 4);
  test.options.seed = random();
  // A hang is an error of this test and not of the machine's speed.
  test.options.limit = std::chrono::seconds(60);
  test.options.start_limit = std::chrono::seconds(50);
  test.length = static_cast<int>(random.below(5));
  test.options.lengths = {test.length};
  for (int launch = between(random, 1, 2); launch > 0; --launch) test.launches.push_back(between(random, 1, 4));
  if (chance(random, 4)) test.finish = test.epochs() - static_cast<uint32_t>(random.below(test.launches.back()));
  return test;
}

TestMemory::TestMemory(const TestCase& test) {
  const uint32_t epochs = test.epochs();
  for (const TestTask& task : test.tasks) {
    output.emplace_back(task.words);
    tagged.push_back(std::make_unique<HostTaggedWord[]>((task.words + 1) / 2));
    row.emplace_back(epochs + 1);
    seen.emplace_back(epochs + 1);
    runs.push_back(std::make_unique<std::atomic<int>[]>(epochs + 1));
  }
}

namespace {

/// What a task makes of what it has seen.
uint32_t output_word(uint64_t hash, int i) { return static_cast<uint32_t>(mix(hash + i)); }

/// Compute of one task, by one thread of a team.
class TestCompute {
 public:
  TestCompute(const TestCase& test, TestMemory& memory, int t, HostCompute& side)
      : test_(test), task_(test.tasks[t]), memory_(memory), t_(t), side_(side), platform_(side.platform()) {}

  void run() {
    if (platform_.leads()) ++memory_.runs[t_][side_.epoch()];
    for (const TestRun& run : task_.runs) use(run.stages.size(), run.stages[0].size(), run.shared);
    use(rows_of(task_, side_.position(0)), kMostWords, true);
    source_ = 1000;
    for (const int from : task_.counted) {
      for (size_t i = platform_.rank(); i < memory_.output[from].size(); i += platform_.size())
        sum_ += mixed(source_, i, memory_.output[from][i]);
      ++source_;
    }
    for (const int from : task_.tagged) read(from);
    write(total());
  }

 private:
  void use(size_t count, size_t words, bool shared) {
    const auto bytes = static_cast<unsigned>(4 * words);
    const auto warps = static_cast<size_t>(platform_.warps());
    for (size_t n = 0; n < count; ++n, ++source_) {
      if (!shared && source_ % warps != static_cast<size_t>(platform_.warp())) continue;
      const unsigned char* const stage = side_.stage(static_cast<int>(n), bytes);
      const auto first = static_cast<size_t>(shared ? platform_.rank() : platform_.lane());
      const auto step = static_cast<size_t>(shared ? platform_.size() : platform_.lanes());
      for (size_t i = first; i < words && !side_.left(); i += step) {
        uint32_t word = 0;
        std::memcpy(&word, stage + 4 * i, 4);
        sum_ += mixed(source_, i, word);
      }
      side_.release(static_cast<int>(n), shared ? platform_.warps() : 1);
    }
    side_.advance(static_cast<int>(count), bytes);
  }

  /// Each warp has a part of the words.
  void read(int from) {
    const auto words = static_cast<int>(memory_.output[from].size());
    const int count = (words + 1) / 2;
    const int begin = count * platform_.warp() / platform_.warps();
    const int end = count * (platform_.warp() + 1) / platform_.warps();
    side_.read(memory_.tagged[from].get() + begin, end - begin, [&](int i, const Tagged& word) {
      for (int n = 0; n < 2 && 2 * (begin + i) + n < words; ++n)
        sum_ += mixed(source_, 2 * (begin + i) + n, word.data[n]);
    });
    ++source_;
  }

  /// Of all threads, through scratch memory.
  uint64_t total() {
    auto* const sums = side_.scratch();
    std::memcpy(sums + 8 * platform_.rank(), &sum_, 8);
    platform_.meet();
    uint64_t hash = mix(static_cast<uint64_t>(t_) << 32 | side_.epoch());
    for (int rank = 0; rank < platform_.size(); ++rank) {
      uint64_t sum = 0;
      std::memcpy(&sum, sums + 8 * rank, 8);
      hash += sum;
    }
    return hash;
  }

  void write(uint64_t hash) {
    if (side_.left()) return;
    const bool tagged = writes_tagged(test_.plan, t_);
    for (int i = platform_.rank(); i < task_.words; i += platform_.size()) {
      memory_.output[t_][i] = output_word(hash, i);
      if (!tagged) memory_.row[t_][side_.epoch()][i] = output_word(hash, i);
    }
    for (int i = platform_.rank(); tagged && 2 * i < task_.words; i += platform_.size())
      side_.write(memory_.tagged[t_][i], output_word(hash, 2 * i), output_word(hash, 2 * i + 1));
    if (!platform_.leads()) return;
    memory_.seen[t_][side_.epoch()] = hash;
    if (t_ + 1 == static_cast<int>(test_.tasks.size())) {
      side_.put_token(0, static_cast<int>(hash & 0xffffff));
      if (side_.epoch() == test_.finish) side_.finish();
    }
  }

  const TestCase& test_;
  const TestTask& task_;
  TestMemory& memory_;
  int t_;
  HostCompute& side_;
  HostPlatform& platform_;
  uint64_t sum_ = 0;
  size_t source_ = 0;
};

HostFunction test_function(const TestCase& test, TestMemory& memory, int t) {
  const TestTask& task = test.tasks[t];
  HostFunction function;
  function.load = [&task, &memory](const Descriptor&, HostLoad& side) {
    for (const TestRun& run : task.runs)
      for (const auto& stage : run.stages) side.push(stage.data(), static_cast<unsigned>(stage.size() * 4));
    for (size_t n = 0; n < rows_of(task, side.position(0)); ++n) {
      side.wait_for_history();
      if (side.left()) return;
      side.push(memory.row[task.history[n]][side.epoch() - 1].data(), kMostWords * 4);
    }
  };
  function.compute = [&test, &memory, t](const Descriptor& descriptor, HostCompute& side) {
    if (descriptor.arguments[1] != memory.output[t].data() || descriptor.epoch != side.epoch() ||
        side.position(0) + 1 != test.length + static_cast<int>(side.epoch()))
      ++memory.wrong;
    TestCompute(test, memory, t, side).run();
  };
  return function;
}

}  // namespace

std::vector<HostFunction> test_functions(const TestCase& test, TestMemory& memory) {
  std::vector<HostFunction> functions(test.plan.functions.size());
  for (size_t t = 0; t < test.tasks.size(); ++t)
    if (const int f = test.plan.tasks[t].function; f >= 0)
      functions[f] = test_function(test, memory, static_cast<int>(t));
  return functions;
}

std::vector<int> run_serially(const TestCase& test, TestMemory& memory) {
  std::vector<int> tokens;
  for (uint32_t epoch = 1; epoch <= test.epochs(); ++epoch) {
    for (size_t t = 0; t < test.tasks.size(); ++t) {
      const TestTask& task = test.tasks[t];
      if (test.plan.tasks[t].function < 0) continue;
      uint64_t hash = mix(static_cast<uint64_t>(t) << 32 | epoch);
      size_t source = 0;
      const auto add = [&](const uint32_t* words, size_t count) {
        for (size_t i = 0; i < count; ++i) hash += mixed(source, i, words[i]);
        ++source;
      };
      for (const TestRun& run : task.runs)
        for (const auto& stage : run.stages) add(stage.data(), stage.size());
      for (size_t n = 0; n < rows_of(task, test.length + static_cast<int>(epoch) - 1); ++n)
        add(memory.row[task.history[n]][epoch - 1].data(), kMostWords);
      source = 1000;
      for (const auto* inputs : {&task.counted, &task.tagged})
        for (const int from : *inputs) add(memory.output[from].data(), memory.output[from].size());
      memory.seen[t][epoch] = hash;
      for (int i = 0; i < task.words; ++i) memory.output[t][i] = memory.row[t][epoch][i] = output_word(hash, i);
      if (t + 1 == test.tasks.size()) tokens.push_back(static_cast<int>(hash & 0xffffff));
    }
  }
  return tokens;
}

std::string run_and_compare(const TestCase& test) {
  TestMemory memory(test);
  TestMemory expected(test);
  const std::vector<int> expected_tokens = run_serially(test, expected);
  HostOptions options = test.options;
  options.operators.resize(test.plan.operators.size());
  for (size_t t = 0; t < test.tasks.size(); ++t)
    if (const int op = test.plan.tasks[t].op; op >= 0) options.operators[op].arguments[1] = memory.output[t].data();
  auto kernel = HostKernel::make(test.plan, test_functions(test, memory), options);
  if (!kernel) return kernel.error().to_string();
  std::vector<int> tokens;
  for (const uint32_t steps : test.launches) {
    if (auto launched = (*kernel)->launch(steps); !launched) return launched.error().to_string();
    const auto done = (*kernel)->wait();
    if (!done) return done.error().to_string();
    for (uint32_t step = 0; step < *done; ++step) tokens.push_back((*kernel)->tokens(step)[0]);
  }
  if (memory.wrong != 0) return "wrong arguments, epochs or positions";
  for (size_t t = 0; t < test.tasks.size(); ++t) {
    if (test.plan.tasks[t].function < 0) continue;
    for (uint32_t epoch = 1; epoch <= test.epochs(); ++epoch) {
      if (memory.runs[t][epoch] != 1)
        return fmt::format("task {} ran {} times in epoch {}", t, memory.runs[t][epoch].load(), epoch);
      if (memory.seen[t][epoch] != expected.seen[t][epoch])
        return fmt::format("task {} saw other data in epoch {}", t, epoch);
    }
    if (memory.output[t] != expected.output[t]) return fmt::format("the output of task {} differs", t);
  }
  if (tokens != expected_tokens) return fmt::format("tokens {}, expected {}", tokens, expected_tokens);
  return "";
}

namespace {

void run_cases(Modes modes, uint64_t first, uint64_t count) {
  for (uint64_t seed = first; seed < first + count; ++seed)
    ASSERT_EQ(run_and_compare(random_case(seed, modes)), "") << "seed " << seed;
}

TEST(RandomPlans, AheadOfTime) { run_cases(Modes::AheadOfTime, 0, 60); }
TEST(RandomPlans, JustInTime) { run_cases(Modes::JustInTime, 0, 60); }
TEST(RandomPlans, Mixed) { run_cases(Modes::Mixed, 0, 80); }
TEST(RandomPlansSlow, AheadOfTime) { run_cases(Modes::AheadOfTime, 1000, 1500); }
TEST(RandomPlansSlow, JustInTime) { run_cases(Modes::JustInTime, 1000, 1500); }
TEST(RandomPlansSlow, Mixed) { run_cases(Modes::Mixed, 1000, 2000); }

/// The cases are not all of one kind.
TEST(RandomPlans, CoverEveryHandOffAndMode) {
  int hand_offs[3] = {};
  int after = 0;
  int empty = 0;
  int history = 0;
  int shuffled = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const TestCase test = random_case(seed, Modes::Mixed);
    for (const Event& event : test.plan.events) ++hand_offs[static_cast<int>(event.hand_off)];
    const auto image = make_image(test.plan, test.options.shape);
    ASSERT_TRUE(image) << image.error().to_string();
    for (const TaskRecord& task : image->tasks) {
      after += (task.flags & kAfterJustInTime) != 0;
      empty += task.function < 0;
    }
    for (const TestTask& task : test.tasks) history += !task.history.empty();
    for (const auto& queue : test.plan.queues) shuffled += !std::is_sorted(queue.begin(), queue.end());
  }
  for (const int count : {hand_offs[0], hand_offs[1], hand_offs[2], after, empty, history, shuffled})
    EXPECT_GE(count, 20);
}

}  // namespace
}  // namespace strata::megakernel::testing
