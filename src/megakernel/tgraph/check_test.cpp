// The check of plans, on plans that were changed: each is refused, or a second opinion finds nothing wrong with it.
#include "megakernel/tgraph/check.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <iostream>

#include "megakernel/tgraph/compile.h"
#include "megakernel/tgraph/linearise.h"
#include "megakernel/tgraph/print.h"
#include "megakernel/tgraph/test_graphs.h"
#include "megakernel/tgraph/test_mutations.h"

namespace strata::megakernel {
namespace {

/// Runs two steps of a plan in random order, by what plan.h says of it alone, and looks whether each task finds what it
/// must find: for all pairs of tasks that by all elements must be in order, the first has ended, and the worker has
/// seen it (through counters, its own order, or the tagged words that it reads).
class RandomRun {
 public:
  RandomRun(const Plan& plan, const OperatorGraph& operators, const Required& required, const Machine& machine,
            uint64_t seed)
      : plan_(plan), operators_(operators), required_(required), machine_(machine), random_(seed) {}

  /// What is wrong, or nothing.
  std::optional<std::string> run() {
    if (auto wrong = number()) return wrong;
    counters_.assign(plan_.events.size(), 0);
    for (epoch_ = 1; epoch_ <= 2; ++epoch_) {
      if (auto wrong = step()) return fmt::format("epoch {}: {}", epoch_, *wrong);
    }
    return std::nullopt;
  }

 private:
  using Set = std::bitset<kMostTestTasks>;

  struct Worker {
    std::vector<int> order;
    std::vector<int64_t> held;
    std::deque<int> given;
    size_t queue_at = 0, load_at = 0, run_at = 0;
    int64_t left = 0, used = 0;
    Set seen;
  };

  /// Tasks as the operators number them; each block once.
  std::optional<std::string> number() {
    std::vector<size_t> base{0};
    for (const Operator& op : operators_.operators)
      base.push_back(base.back() + static_cast<size_t>(*indexing::element_count(op.grid)));
    std::set<size_t> seen;
    for (const Task& task : plan_.tasks) {
      if (task.op < 0) {
        number_.push_back(-1);
        continue;
      }
      const auto o = static_cast<size_t>(task.op);
      const std::vector<int64_t>& grid = operators_.operators[o].grid;
      if (task.function < 0 ||
          plan_.functions[static_cast<size_t>(task.function)].name != operators_.operators[o].function)
        return "a task runs another function";
      for (size_t g = 0; g < 3; ++g) {
        if (task.coordinates[g] < 0 || task.coordinates[g] >= (g < grid.size() ? grid[g] : 1)) return "no such block";
      }
      const auto block = static_cast<size_t>(number_of({task.coordinates.begin(), task.coordinates.end()}, grid));
      if (!seen.insert(base[o] + block).second) return "a block twice";
      number_.push_back(static_cast<int>(base[o] + block));
    }
    if (seen.size() != base.back()) return "a block is missing";
    for (size_t t = 0; t < plan_.tasks.size(); ++t) {
      if (number_[t] >= 0) task_of_[static_cast<size_t>(number_[t])] = t;
    }
    return std::nullopt;
  }

  HandOff hand_off(int event) const { return plan_.events[static_cast<size_t>(event)].hand_off; }
  bool is_active(int event) const {
    const auto e = static_cast<size_t>(event);
    return counters_[e] >= plan_.events[e].triggers * epoch_;
  }
  bool is_tagged(size_t task) const {
    return plan_.tasks[task].signal >= 0 && hand_off(plan_.tasks[task].signal) == HandOff::Tagged;
  }

  /// Whether a worker that runs a task has what it waits for.
  bool can_run(int number) const {
    const auto t = static_cast<size_t>(number);
    for (int event : plan_.tasks[t].waits) {
      if (hand_off(event) == HandOff::Counter && !is_active(event)) return false;
    }
    for (size_t p = 0; p < plan_.tasks.size(); ++p) {
      if (is_tagged(p) && reads(p, t) && !ended_[p]) return false;
    }
    return true;
  }
  bool reads(size_t p, size_t t) const {
    return number_[p] >= 0 && number_[t] >= 0 &&
           required_.reads[static_cast<size_t>(number_[p])][static_cast<size_t>(number_[t])];
  }
  /// Control and schedulers know of events by counters alone.
  bool is_started(int number) const {
    const std::vector<int>& waits = plan_.tasks[static_cast<size_t>(number)].waits;
    return std::all_of(waits.begin(), waits.end(),
                       [&](int event) { return hand_off(event) == HandOff::Counter && is_active(event); });
  }

  std::optional<std::string> step() {
    ended_.reset();
    std::bitset<kMostTestTasks> given;
    std::vector<Set> event_seen(plan_.events.size());
    std::vector<Worker> workers(plan_.queues.size());
    std::vector<size_t> turn;
    for (size_t w = 0; w <= workers.size(); ++w) turn.push_back(w);
    size_t count = 0, idle = 0;
    while (idle < 2) {
      for (size_t i = turn.size(); i-- > 1;) std::swap(turn[i], turn[random_.below(i + 1)]);
      bool progress = false;
      for (size_t w : turn) {
        // Some are slow; at last all get their turn.
        if (idle == 0 && random_.below(3) == 0) {
          progress = true;
          continue;
        }
        if (w == workers.size()) {
          for (const Event& event : plan_.events) {
            if (plan_.schedulers == 0 || !is_active(static_cast<int>(&event - plan_.events.data()))) continue;
            for (int64_t t = event.first; t < event.end; ++t) {
              const auto task = static_cast<size_t>(t);
              if (plan_.tasks[task].mode != LaunchMode::JustInTime || given[task] || !is_started(static_cast<int>(t)))
                continue;
              given[task] = true;
              workers[random_.below(workers.size())].given.push_back(static_cast<int>(t));
              progress = true;
            }
          }
          continue;
        }
        Worker& worker = workers[w];
        if (worker.load_at == worker.order.size()) {
          int next = -1;
          if (!worker.given.empty()) {
            next = worker.given.front();
            worker.given.pop_front();
          } else if (worker.queue_at < plan_.queues[w].size()) {
            const int first = plan_.queues[w][worker.queue_at];
            if (!plan_.tasks[static_cast<size_t>(first)].after_just_in_time || is_started(first)) {
              next = first;
              ++worker.queue_at;
            }
          }
          if (next >= 0) {
            worker.order.push_back(next);
            worker.held.push_back(0);
            const int function = plan_.tasks[static_cast<size_t>(next)].function;
            worker.left = function < 0 ? 0 : plan_.functions[static_cast<size_t>(function)].stages;
            progress = true;
          }
        }
        if (worker.load_at < worker.order.size()) {
          // All stages have equally many bytes, and the ring a multiple of them.
          const int64_t room = std::min(worker.left, machine_.ring_bytes / kTestStageBytes - worker.used);
          worker.left -= room;
          worker.used += room;
          worker.held[worker.load_at] += room;
          progress = progress || room > 0;
          if (worker.left == 0) {
            ++worker.load_at;
            progress = true;
          }
        }
        if (worker.run_at == worker.order.size() || !can_run(worker.order[worker.run_at])) continue;
        worker.used -= worker.held[worker.run_at];
        progress = progress || worker.held[worker.run_at] > 0;
        worker.held[worker.run_at] = 0;
        if (worker.load_at <= worker.run_at) continue;
        const auto t = static_cast<size_t>(worker.order[worker.run_at++]);
        progress = true;
        if (ended_[t]) return fmt::format("task {} runs twice", t);
        const Task& task = plan_.tasks[t];
        for (int event : task.waits) {
          if (hand_off(event) == HandOff::Counter) worker.seen |= event_seen[static_cast<size_t>(event)];
        }
        if (auto wrong = look(t, worker.seen)) return wrong;
        ended_[t] = true;
        ++count;
        worker.seen[t] = true;
        // What goes through shared memory is seen by nobody else.
        for (size_t c = 0; c < plan_.tasks.size(); ++c) {
          if (task.signal < 0 || hand_off(task.signal) != HandOff::Worker || !reads(t, c)) continue;
          const auto& queue = plan_.queues[w];
          if (std::find(queue.begin(), queue.end(), static_cast<int>(c)) == queue.end())
            return fmt::format("task {} cannot see what task {} leaves in shared memory", c, t);
        }
        if (task.signal < 0 || hand_off(task.signal) == HandOff::Tagged) continue;
        ++counters_[static_cast<size_t>(task.signal)];
        if (hand_off(task.signal) == HandOff::Counter) event_seen[static_cast<size_t>(task.signal)] |= worker.seen;
      }
      idle = progress ? 0 : idle + 1;
    }
    if (count < plan_.tasks.size()) return "some tasks never run";
    if (!last_is_last_) return "the step ends before all tasks have ended";
    return std::nullopt;
  }

  /// Whether task t may run now.
  std::optional<std::string> look(size_t t, const Set& seen) {
    if (t + 1 == plan_.tasks.size() && ended_.count() + 1 < plan_.tasks.size()) last_is_last_ = false;
    if (number_[t] < 0) return std::nullopt;
    for (const auto& [n, p] : task_of_) {
      if (!required_.any[n][static_cast<size_t>(number_[t])]) continue;
      if (!ended_[p]) return fmt::format("task {} runs before task {}", t, p);
      if (!seen[p] && !(is_tagged(p) && reads(p, t))) return fmt::format("task {} does not see task {}", t, p);
    }
    return std::nullopt;
  }

  const Plan& plan_;
  const OperatorGraph& operators_;
  const Required& required_;
  const Machine& machine_;
  Random random_;
  int64_t epoch_ = 1;
  bool last_is_last_ = true;
  Set ended_;
  std::vector<int64_t> counters_;
  std::vector<int> number_;           ///< of each task of the plan, by operators
  std::map<size_t, size_t> task_of_;  ///< the reverse
};

/// The first thing that goes wrong in some runs.
std::optional<std::string> second_opinion(const Plan& plan, const OperatorGraph& operators, const Required& required,
                                          const Machine& machine) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    if (auto wrong = RandomRun(plan, operators, required, machine, seed).run()) return wrong;
  }
  return std::nullopt;
}

TEST(Check, RefusesChangedPlansThatAreWrong) {
  Random random(1);
  constexpr int kMutants = 5000;
  int refused = 0, accepted = 0, plans = 0;
  int looked_at = 0, found_wrong = 0;  // of those refused: whether the second opinion sees faults at all
  const std::set<std::string> orders{"a wait less",
                                     "two tasks of a queue swapped",
                                     "a task moved to another queue",
                                     "tasks of two queues swapped",
                                     "a task in no queue",
                                     "another hand-off"};
  std::map<std::string, std::pair<int, int>> by_kind;
  while (refused + accepted < kMutants) {
    RandomGraphOptions shape;
    shape.operators = 5;
    const OperatorGraph operators = random_operator_graph(random, shape);
    Machine machine;
    machine.workers = 1 + static_cast<int>(random.below(4));
    machine.schedulers = 1;
    machine.ring_bytes = kTestStageBytes * (1 + static_cast<int64_t>(random.below(4)));
    CompileOptions options;
    options.policy = random.below(3) == 0 ? Policy::RoundRobin : Policy::LongestPath;
    options.max_waits = random.below(3) == 0 ? 1 : kMaxWaits;
    const auto compiled = compile(operators, machine, options);
    ASSERT_TRUE(compiled) << compiled.error().to_string();
    if (compiled->plan.tasks.size() > 150) continue;
    ++plans;
    const Required required = required_order(operators);
    const auto fine = second_opinion(compiled->plan, operators, required, machine);
    ASSERT_FALSE(fine) << "an unchanged plan: " << *fine << "\n" << to_text(operators) << to_text(compiled->plan);
    for (int mutant = 0; mutant < 60; ++mutant) {
      Plan plan = compiled->plan;
      const std::string what = Mutation(plan, random).apply(random.below(Mutation::kKinds));
      if (what.empty() || print_plan(plan) == print_plan(compiled->plan)) continue;
      if (!check(plan, operators, machine)) {
        ++refused;
        ++by_kind[what].first;
        if (!orders.contains(what)) continue;
        ++looked_at;
        found_wrong += second_opinion(plan, operators, required, machine).has_value();
        continue;
      }
      ++accepted;
      ++by_kind[what].second;
      const auto wrong = second_opinion(plan, operators, required, machine);
      ASSERT_FALSE(wrong) << what << ": " << *wrong << "\n" << to_text(operators) << to_text(plan);
    }
  }
  std::cout << fmt::format("{} plans; {} changed plans refused, {} as good as before\n", plans, refused, accepted);
  for (const auto& [what, counts] : by_kind)
    std::cout << fmt::format("  {}: {} refused, {} as good\n", what, counts.first, counts.second);
  std::cout << fmt::format("  of {} refused, {} were seen to go wrong\n", looked_at, found_wrong);
  EXPECT_GT(found_wrong, looked_at / 3);
  EXPECT_GT(plans, 50);
  EXPECT_GT(accepted, 200) << "the check refuses what is right";
  EXPECT_GT(refused, 2500);
}

/// A plan by hand, and what the check says of each fault.
class CheckByHand : public testing::Test {
 protected:
  void SetUp() override {
    graph_.name = "two";
    graph_.tensors = {{"x", {4}}, {"y", {4}}};
    Operator a{"a", "f", {4}, {}, {tile(0, true, {4}, {4}, {0})}};
    Operator b{"b", "g", {4}, {tile(0, false, {4}, {4}, {0})}, {tile(1, true, {4}, {4}, {0})}};
    graph_.operators = {a, b};
    machine_.workers = 2;
    CompileOptions options;
    options.choose_hand_offs = false;
    options.policy = Policy::RoundRobin;
    const auto compiled = compile(graph_, machine_, options);
    ASSERT_TRUE(compiled) << compiled.error().to_string();
    plan_ = compiled->plan;
  }
  std::string complaint() const {
    const auto checked = check(plan_, graph_, machine_);
    return checked ? "" : checked.error().message;
  }
  OperatorGraph graph_;
  Machine machine_;
  Plan plan_;
};

/// a writes x, b reads it and adds to it in place: words that carry the step's epoch are there after a already.
TEST(Check, RefusesTaggedWordsThatAreWrittenTwice) {
  OperatorGraph graph;
  graph.name = "two";
  graph.tensors = {{"x", {4}}, {"y", {4}}};
  Operator a{"a", "f", {4}, {}, {tile(0, true, {4}, {4}, {0})}};
  Operator b{"b", "f", {4}, {tile(0, false, {4}, {4}, {0})}, {tile(0, true, {4}, {4}, {0})}};
  Operator c{"c", "f", {2}, {tile(0, false, {4}, {2}, {-1})}, {tile(1, true, {4}, {2}, {0})}};
  graph.operators = {a, b, c};
  Machine machine;
  machine.workers = 3;
  const auto compiled = compile(graph, machine);
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  Plan plan = compiled->plan;
  for (const Event& event : plan.events) EXPECT_NE(event.hand_off, HandOff::Tagged);
  for (const Task& task : plan.tasks) {
    if (task.op >= 0 && task.op < 2 && task.signal >= 0)
      plan.events[static_cast<size_t>(task.signal)].hand_off = HandOff::Tagged;
  }
  const auto checked = check(plan, graph, machine);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message,
            "'a' and 'b' write the same memory in a step, and tagged words do not say which was last");
}

/// What lies in memory as it is has no tags: counters hand it over, and a plan in which tags do is refused.
TEST(Check, RefusesTagsOfWhatHasNone) {
  OperatorGraph graph;
  graph.name = "untagged";
  graph.tensors = {{"x", {4}}, {"y", {4}}};
  graph.operators = {{"a", "f", {4}, {}, {tile(0, true, {4}, {4}, {0})}},
                     {"b", "f", {2}, {tile(0, false, {4}, {2}, {-1})}, {tile(1, true, {4}, {2}, {0})}}};
  Machine machine;
  machine.workers = 3;
  const auto tagged = compile(graph, machine);
  ASSERT_TRUE(tagged) << tagged.error().to_string();
  const auto is_tagged = [](const Event& event) { return event.hand_off == HandOff::Tagged; };
  ASSERT_TRUE(std::any_of(tagged->plan.events.begin(), tagged->plan.events.end(), is_tagged));
  graph.tensors[0].untagged = true;
  const auto checked = check(tagged->plan, graph, machine);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message, "tensor 'x' lies in memory without tags, and is handed over by them");
  const auto counted = compile(graph, machine);
  ASSERT_TRUE(counted) << counted.error().to_string();
  EXPECT_FALSE(std::any_of(counted->plan.events.begin(), counted->plan.events.end(), is_tagged));
}

TEST_F(CheckByHand, SaysWhatIsWrong) {
  EXPECT_EQ(complaint(), "");
  const Plan good = plan_;
  plan_.tasks[5].waits.clear();
  EXPECT_EQ(complaint(), "task 5 stands among those of event 1, but does not wait for it");
  plan_.events[1].end = plan_.events[1].first;
  // Its worker runs block 1 of a before, all the same.
  EXPECT_EQ(complaint(), "");
  std::swap(plan_.queues[0], plan_.queues[1]);
  EXPECT_EQ(complaint(), "");
  const auto at = std::find(plan_.queues[0].begin(), plan_.queues[0].end(), 5);
  ASSERT_NE(at, plan_.queues[0].end());
  plan_.queues[0].erase(at);
  plan_.queues[1].insert(plan_.queues[1].begin(), 5);
  EXPECT_EQ(complaint(), "block [1] of 'b' need not come after all blocks of 'a' whose elements of 'x' it touches");
  plan_ = good;
  plan_.events[0].triggers = 2;
  EXPECT_EQ(complaint(), "event 0 has 2 triggers, but 1 tasks signal it");
  plan_ = good;
  std::swap(plan_.queues[0].front(), plan_.queues[0].back());
  EXPECT_EQ(complaint(), "the events and the queues' order make a cycle");
  plan_ = good;
  plan_.events[0].hand_off = HandOff::Worker;
  EXPECT_EQ(complaint(), "");
  plan_.tasks.back().waits.clear();
  plan_.events.back() = {4, 0, 0};
  EXPECT_EQ(complaint(), "task 7 may run into the next step: no counters and queues lead from it to the last task");
  plan_ = good;
  machine_.ring_bytes = 1024;
  machine_.scratch_bytes = 16;
  EXPECT_EQ(complaint(), "");
  graph_.operators[0].cost = {2048, 0, 1, 2048, 32};
  EXPECT_EQ(complaint(),
            "task 0 of 'a' has function 'f' of 0 stages of 0 bytes and 0 bytes of scratch memory; expected 'f' of 1 "
            "stages of 2048 bytes and 32 bytes of scratch memory");
  plan_.functions[0] = function_of(graph_, graph_.operators[0]);
  EXPECT_EQ(complaint(), "a task of 'a' has stages of 2048 bytes; the ring has 1024");
  machine_.ring_bytes = 2048;
  EXPECT_EQ(complaint(), "a task of 'a' takes 32 bytes of scratch memory; a worker has 16");
  machine_.scratch_bytes = 32;
  EXPECT_EQ(complaint(), "");
  // Later steps load history by bulk copies.
  graph_.tensors[1].kind = TensorClass::History;
  EXPECT_EQ(complaint(),
            "task 4 of 'b' has function 'g' of 0 stages of 0 bytes and 0 bytes of scratch memory; expected 'g' of 0 "
            "stages of 0 bytes and 0 bytes of scratch memory, which stores for copies");
}

/// A model of many layers: the check takes as long as bit sets, not as pairs.
TEST(Check, IsFastForManyTasks) {
  DecodeLayers model;
  model.layers = 36;
  const OperatorGraph operators = decode_layers(model);
  CompileOptions options;
  options.policy = Policy::RoundRobin;
  options.max_waits = kMaxWaits;
  const auto compiled = compile(operators, {}, options);
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  ASSERT_GT(compiled->plan.tasks.size(), 23000U);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(check(compiled->plan, operators, {}));
  const auto took = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  // A tag less somewhere in the middle.
  Plan plan = compiled->plan;
  for (Task& task : plan.tasks) {
    if (task.op != 60 || task.coordinates[0] != 5) continue;
    const auto event = static_cast<size_t>(task.waits[0]);
    const int64_t number = &task - plan.tasks.data();
    task.waits.clear();
    // The range may lose its first or last task alone.
    if (plan.events[event].first == number) ++plan.events[event].first;
    if (plan.events[event].end == number + 1) --plan.events[event].end;
  }
  EXPECT_FALSE(check(plan, operators, {}));
}

}  // namespace
}  // namespace strata::megakernel
