// Random plans on the host target: every task runs once in an epoch, sees what its predecessors wrote in that epoch,
// and what comes of it is that of a serial run, bit for bit.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "megakernel/runtime/test_random_plan.h"

namespace strata::megakernel::testing {
namespace {

constexpr int kPageWords = 32;

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
    plan.functions.push_back({fmt::format("f{}", number), 0, 0});
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

TestTask random_task(Random& random, const Plan& plan, int t) {
  TestTask task;
  task.words = between(random, 1, kMostWords);
  for (int i = between(random, 0, 4); i > 0; --i) {
    task.constants.emplace_back(4 * between(random, 1, kTestSlotBytes / 16));
    for (uint32_t& word : task.constants.back()) word = static_cast<uint32_t>(random());
  }
  for (int i = between(random, 0, 2); i > 0; --i) {
    const int from = static_cast<int>(random.below(plan.tasks.size()));
    if (plan.tasks[from].function >= 0 && !writes_tagged(plan, from)) task.history.push_back(from);
  }
  for (const int event : plan.tasks[t].waits)
    for (size_t p = 0; p < plan.tasks.size(); ++p)
      if (plan.tasks[p].signal == event && plan.tasks[p].function >= 0)
        (plan.events[event].hand_off == HandOff::Tagged ? task.tagged : task.counted).push_back(static_cast<int>(p));
  task.gives_early = chance(random, 3);
  return task;
}

}  // namespace

TestCase random_case(uint64_t seed, Modes modes) {
  Random random(seed * 3 + static_cast<uint64_t>(modes));
  TestCase test;
  Plan& plan = test.plan;
  plan.name = fmt::format("random {}", seed);
  add_tasks(random, plan);
  assign(random, plan, modes);

  Shape& shape = test.options.shape;
  shape.slots = between(random, 2, 5);
  shape.slot_bytes = kTestSlotBytes;
  shape.window_bytes = between(random, 1, 4 * kTestSlotBytes);
  shape.page_bytes = kPageWords * 4;
  shape.listed = between(random, 1, 5);
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

  int most_pages = 1;
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    test.tasks.push_back(random_task(random, plan, static_cast<int>(t)));
    if (plan.tasks[t].function >= 0) continue;
    const int words = test.tasks[t].words;
    test.tasks[t] = {};
    test.tasks[t].words = words;
  }
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    if (plan.tasks[t].function < 0) continue;
    TestTask& task = test.tasks[t];
    int words = 0;
    for (const int p : task.counted) words += test.tasks[p].words;
    for (const int p : task.tagged) words += test.tasks[p].words;
    task.pages = (words + kPageWords - 1) / kPageWords;
    most_pages = std::max(most_pages, task.pages);
    TaskFunction& function = plan.functions[plan.tasks[t].function];
    function.pages = task.pages;
    function.slots = static_cast<int64_t>(task.constants.size() + task.history.size());
  }
  shape.pages = most_pages + between(random, 0, 2);

  test.options.placement = chance(random, 2) ? Placement::RoundRobin : Placement::LeastLoaded;
  test.options.delays = !chance(random, 4);
  test.options.late_stores = !chance(random, 4);
  test.options.seed = random();
  // A hang is an error of this test and not of the machine's speed.
  test.options.limit = std::chrono::seconds(60);
  test.options.start_limit = std::chrono::seconds(60);
  for (int launch = between(random, 1, 2); launch > 0; --launch) test.launches.push_back(between(random, 1, 4));
  if (chance(random, 4)) test.finish = test.epochs() - static_cast<uint32_t>(random.below(test.launches.back()));
  return test;
}

TestMemory::TestMemory(const TestCase& test) {
  const uint32_t epochs = test.epochs();
  for (const TestTask& task : test.tasks) {
    output.emplace_back(task.words);
    tagged.push_back(std::make_unique<HostTaggedWord[]>((task.words + 2) / 3));
    row.emplace_back(epochs + 1);
    seen.emplace_back(epochs + 1);
    runs.push_back(std::make_unique<std::atomic<int>[]>(epochs + 1));
  }
}

namespace {

/// What a task makes of what it has seen.
void write_output(const TestTask& task, uint64_t hash, uint32_t* output) {
  for (int i = 0; i < task.words; ++i) output[i] = static_cast<uint32_t>(mix(hash + i));
}

/// Places of `from`'s outputs in the pages of a task, in words.
template <class Visit>
void each_input(const TestCase& test, const TestTask& task, Visit visit) {
  int at = 0;
  for (const int from : task.counted) {
    visit(from, at, false);
    at += test.tasks[from].words;
  }
  for (const int from : task.tagged) {
    visit(from, at, true);
    at += test.tasks[from].words;
  }
}

HostFunction test_function(const TestCase& test, TestMemory& memory, int t, const TestHook& hook) {
  const TestTask& task = test.tasks[t];
  HostFunction function;
  function.load = [&task, &memory](const TaskRecord&, HostLoad& side) {
    for (const auto& constant : task.constants) side.push(constant.data(), static_cast<unsigned>(constant.size() * 4));
    for (const int from : task.history) {
      side.wait_for_history();
      if (side.left()) return;
      side.push(memory.row[from][side.epoch() - 1].data(), kMostWords * 4);
    }
  };
  function.gather = [&test, &task, &memory](const TaskRecord&, HostGather& side) {
    each_input(test, task, [&](int from, int at, bool tagged) {
      const int words = test.tasks[from].words;
      std::vector<uint32_t> data(words);
      auto* const bytes = reinterpret_cast<unsigned char*>(data.data());
      if (tagged) {
        side.read(memory.tagged[from].get(), bytes, words * 4);
      } else {
        data = memory.output[from];
      }
      for (int i = 0; i < words; ++i)
        std::memcpy(side.page((at + i) / kPageWords) + (at + i) % kPageWords * 4, &data[i], 4);
    });
  };
  function.compute = [&test, &task, &memory, t, hook](const TaskRecord&, HostCompute& side) {
    if (hook) hook(t, side);
    const uint32_t epoch = side.epoch();
    ++memory.runs[t][epoch];
    uint64_t hash = mix(static_cast<uint64_t>(t) << 32 | epoch);
    std::vector<uint32_t> words(kMostWords);
    const auto use = [&](size_t count) {
      const unsigned char* const slot = side.front();
      if (side.left()) return;
      std::memcpy(words.data(), slot, count * 4);
      side.pop();
      hash = mix_words(hash, words.data(), static_cast<int>(count));
    };
    for (const auto& constant : task.constants) use(constant.size());
    for (size_t i = 0; i < task.history.size(); ++i) use(kMostWords);
    if (side.left()) return;
    each_input(test, task, [&](int from, int at, bool) {
      for (int i = 0; i < test.tasks[from].words; ++i) {
        uint32_t word = 0;
        std::memcpy(&word, side.page((at + i) / kPageWords) + (at + i) % kPageWords * 4, 4);
        hash = mix_word(hash, word);
      }
    });
    if (task.gives_early && task.pages > 0) side.give_page();
    memory.seen[t][epoch] = hash;
    write_output(task, hash, memory.output[t].data());
    if (writes_tagged(test.plan, t)) {
      side.write(memory.tagged[t].get(), reinterpret_cast<const unsigned char*>(memory.output[t].data()),
                 task.words * 4);
    } else {
      write_output(task, hash, memory.row[t][epoch].data());
    }
    if (t + 1 == static_cast<int>(test.tasks.size())) {
      side.put_token(0, static_cast<int>(hash & 0xffffff));
      if (epoch == test.finish) side.finish();
    }
  };
  return function;
}

}  // namespace

std::vector<HostFunction> test_functions(const TestCase& test, TestMemory& memory, TestHook hook) {
  std::vector<HostFunction> functions(test.plan.functions.size());
  for (size_t t = 0; t < test.tasks.size(); ++t)
    if (const int f = test.plan.tasks[t].function; f >= 0)
      functions[f] = test_function(test, memory, static_cast<int>(t), hook);
  return functions;
}

std::vector<int> run_serially(const TestCase& test, TestMemory& memory) {
  std::vector<int> tokens;
  for (uint32_t epoch = 1; epoch <= test.epochs(); ++epoch) {
    for (size_t t = 0; t < test.tasks.size(); ++t) {
      const TestTask& task = test.tasks[t];
      if (test.plan.tasks[t].function < 0) continue;
      uint64_t hash = mix(static_cast<uint64_t>(t) << 32 | epoch);
      for (const auto& constant : task.constants)
        hash = mix_words(hash, constant.data(), static_cast<int>(constant.size()));
      for (const int from : task.history) hash = mix_words(hash, memory.row[from][epoch - 1].data(), kMostWords);
      each_input(test, task, [&](int from, int, bool) {
        hash = mix_words(hash, memory.output[from].data(), test.tasks[from].words);
      });
      memory.seen[t][epoch] = hash;
      write_output(task, hash, memory.output[t].data());
      write_output(task, hash, memory.row[t][epoch].data());
      if (t + 1 == test.tasks.size()) tokens.push_back(static_cast<int>(hash & 0xffffff));
    }
  }
  return tokens;
}

std::string run_and_compare(const TestCase& test) {
  TestMemory memory(test);
  TestMemory expected(test);
  const std::vector<int> expected_tokens = run_serially(test, expected);
  auto kernel = HostKernel::make(test.plan, test_functions(test, memory), test.options);
  if (!kernel) return kernel.error().to_string();
  std::vector<int> tokens;
  for (const uint32_t steps : test.launches) {
    if (auto launched = (*kernel)->launch(steps); !launched) return launched.error().to_string();
    const auto done = (*kernel)->wait();
    if (!done) return done.error().to_string();
    for (uint32_t step = 0; step < *done; ++step) tokens.push_back((*kernel)->tokens(step)[0]);
  }
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
