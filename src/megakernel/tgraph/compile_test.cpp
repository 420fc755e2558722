#include "megakernel/tgraph/compile.h"

#include <gtest/gtest.h>

#include <iostream>

#include "megakernel/tgraph/check.h"
#include "megakernel/tgraph/linearise.h"
#include "megakernel/tgraph/plan_precedence.h"
#include "megakernel/tgraph/print.h"
#include "megakernel/tgraph/test_graphs.h"
#include "support/test_rounds.h"

namespace strata::megakernel {
namespace {

Machine small_machine(Random& random) {
  Machine machine;
  machine.workers = 1 + static_cast<int>(random.below(6));
  machine.schedulers = 1;
  machine.ring_bytes = kTestStageBytes * (1 + static_cast<int64_t>(random.below(4)));
  return machine;
}

/// What Algorithm 1 promises: an order of execution, and neighbours in the range of the last of their events.
void expect_linear(const Plan& plan) {
  std::vector<int64_t> last_trigger(plan.events.size(), -1);
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    if (plan.tasks[t].signal >= 0) last_trigger[static_cast<size_t>(plan.tasks[t].signal)] = static_cast<int64_t>(t);
  }
  std::vector<int> ranges(plan.tasks.size(), 0);
  for (const Event& event : plan.events) {
    for (int64_t t = event.first; t < event.end; ++t) ++ranges[static_cast<size_t>(t)];
  }
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    const Task& task = plan.tasks[t];
    EXPECT_EQ(ranges[t], task.waits.empty() ? 0 : 1);
    int64_t latest = -1;
    bool inside = task.waits.empty();
    for (int e : task.waits) {
      EXPECT_LT(last_trigger[static_cast<size_t>(e)], static_cast<int64_t>(t)) << "an order of execution";
      latest = std::max(latest, last_trigger[static_cast<size_t>(e)]);
    }
    // Events become active in the order of their last triggers.
    for (int e : task.waits) {
      const Event& event = plan.events[static_cast<size_t>(e)];
      const bool within = event.first <= static_cast<int64_t>(t) && static_cast<int64_t>(t) < event.end;
      inside = inside || (within && last_trigger[static_cast<size_t>(e)] == latest);
    }
    EXPECT_TRUE(inside) << "task " << t;
  }
}

/// Labels from what labels mean, by all pairs of tasks.
void expect_labels(const Plan& plan, const OperatorGraph& operators) {
  const Relation before = [&] {
    Relation relation(plan.tasks.size());
    for (size_t t = 0; t < plan.tasks.size(); ++t) {
      for (size_t p = 0; p < plan.tasks.size(); ++p) {
        const std::vector<int>& waits = plan.tasks[t].waits;
        relation[p][t] = std::find(waits.begin(), waits.end(), plan.tasks[p].signal) != waits.end();
      }
    }
    close(relation);
    return relation;
  }();
  std::vector<bool> late(operators.operators.size(), false);
  const auto comes_late = [&](const std::vector<size_t>& tasks) {
    for (size_t op = 0; op < late.size(); ++op) {
      if (!late[op]) continue;
      bool some = false, all = true;
      for (size_t p = 0; p < plan.tasks.size(); ++p) {
        if (plan.tasks[p].op != static_cast<int>(op)) continue;
        for (size_t t : tasks) (before[p][t] ? some : all) = before[p][t];
      }
      if (some && !all) return true;
    }
    return false;
  };
  const auto expect_mode = [&](size_t t, bool just_in_time) {
    const bool starts = !plan.tasks[t].waits.empty();
    EXPECT_EQ(plan.tasks[t].mode == LaunchMode::JustInTime, just_in_time && starts) << "task " << t;
  };
  for (size_t op = 0; op < late.size(); ++op) {
    std::vector<size_t> tasks;
    for (size_t t = 0; t < plan.tasks.size(); ++t) {
      if (plan.tasks[t].op == static_cast<int>(op)) tasks.push_back(t);
    }
    const bool mine = operators.operators[op].data_dependent || comes_late(tasks);
    for (size_t t : tasks) expect_mode(t, mine);
    late[op] = mine;
  }
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    if (plan.tasks[t].op < 0) expect_mode(t, comes_late({t}));
  }
}

TEST(Compile, PlansOfRandomGraphsPassTheCheck) {
  Random random(3);
  int just_in_time = 0, tagged = 0, worker = 0, empty = 0;
  double listed = 0, in_turn = 0;
  for (int test = 0; test < 250; ++test) {
    const OperatorGraph operators = random_operator_graph(random);
    const Machine machine = small_machine(random);
    CompileOptions options;
    options.max_waits = static_cast<int>(random.below(5));
    options.choose_hand_offs = random.below(4) != 0;
    for (const Policy policy : {Policy::LongestPath, Policy::RoundRobin}) {
      options.policy = policy;
      const auto compiled = compile(operators, machine, options);
      ASSERT_TRUE(compiled) << "test " << test << ": " << compiled.error().to_string() << "\n" << to_text(operators);
      const Plan& plan = compiled->plan;
      expect_linear(plan);
      expect_labels(plan, operators);
      const Estimate& e = compiled->estimate;
      EXPECT_NEAR(e.computing + e.waiting_for_memory + e.waiting_for_events + e.idle, e.seconds,
                  1e-9 + 1e-6 * e.seconds);
      EXPECT_GE(e.seconds * (1 + 1e-9), e.floor);
      (policy == Policy::LongestPath ? listed : in_turn) += e.seconds;
      for (const Task& task : plan.tasks) {
        just_in_time += task.mode == LaunchMode::JustInTime;
        empty += task.op < 0;
      }
      for (const Event& event : plan.events) {
        tagged += event.hand_off == HandOff::Tagged;
        worker += event.hand_off == HandOff::Worker;
      }
      const auto parsed = parse_plan(print_plan(plan));
      ASSERT_TRUE(parsed) << parsed.error().to_string();
      EXPECT_EQ(print_plan(*parsed), print_plan(plan));
    }
    if (HasFailure()) {
      ADD_FAILURE() << "test " << test << "\n" << to_text(operators);
      return;
    }
  }
  EXPECT_LT(listed, in_turn);
  for (int count : {just_in_time, tagged, worker, empty}) EXPECT_GT(count, 100);
}

/// The numbers of events of one decode layer, after each pass.
TEST(Compile, DecodeLayer) {
  const OperatorGraph operators = decode_layers({});
  const Machine machine;
  const auto compiled = compile(operators, machine);
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  const Stages& stages = compiled->stages;
  std::cout << to_text(operators) << "\ndependences\n"
            << to_text(stages.dependences) << "\ndropped\n"
            << to_text(stages.dropped) << "\nfused\n"
            << to_text(stages.fused) << "\nnormalised\n"
            << to_text(stages.normalised.graph);
  // 1 embed -> qkv, 8 qkv -> attention, 8 attention -> combine, combine -> o, o -> gate/up, gate/up -> down, 1 for the
  // residual of o (one embedding), 128 for that of down, and the end.
  EXPECT_EQ(stages.dependences.events.size(), 1U + 8 + 8 + 1 + 1 + 1 + 1 + 128 + 1);
  EXPECT_EQ(stages.dropped.events.size(), 1U + 8 + 8 + 1 + 1 + 1 + 1);
  EXPECT_EQ(stages.fused.events.size(), 21U);
  EXPECT_EQ(stages.normalised.empty_tasks, 0);
  EXPECT_EQ(stages.normalised.graph.task_count(), 1 + 128 + 8 * 16 + 8 + 128 * 3 + 1);
  std::map<HandOff, int> hand_offs;
  for (const Event& event : compiled->plan.events) ++hand_offs[event.hand_off];
  EXPECT_EQ(hand_offs[HandOff::Tagged], 20);
  EXPECT_EQ(hand_offs[HandOff::Counter], 1) << "the end of the step";
  EXPECT_EQ(compiled->plan.schedulers, 0);
}

/// Two layers: the residual of the second layer's o, which comes from down, follows from attention.
TEST(Compile, LayersAddTheirEvents) {
  DecodeLayers model;
  model.layers = 2;
  const auto compiled = compile(decode_layers(model), {});
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  EXPECT_EQ(compiled->stages.dependences.events.size(), 150U + 1 + 8 + 8 + 1 + 1 + 1 + 128 + 128);
  EXPECT_EQ(compiled->stages.fused.events.size(), 21U + 20);
  EXPECT_EQ(compiled->stages.normalised.empty_tasks, 0);
}

/// A model of many layers takes little time, and the estimate is near the streaming of its weights.
TEST(Compile, DecodeOfManyLayers) {
  DecodeLayers model;  // Qwen3-8B
  model.layers = 36;
  model.hidden = 4096;
  model.head = 128;
  model.inner = 12288;
  const OperatorGraph operators = decode_layers(model);
  const auto compiled = compile(operators, {});
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  EXPECT_GT(compiled->plan.tasks.size(), 23000U);
  const Estimate& e = compiled->estimate;
  std::cout << fmt::format("{:.1f} us: computing {:.1f}, memory {:.1f}, events {:.1f}, idle {:.1f}; floor {:.1f}\n",
                           e.seconds * 1e6, e.computing * 1e6, e.waiting_for_memory * 1e6, e.waiting_for_events * 1e6,
                           e.idle * 1e6, e.floor * 1e6);
  EXPECT_GT(e.seconds, e.floor);
  EXPECT_LT(e.seconds, 1.35 * e.floor);
}

TEST(Compile, APlanForEachBatch) {
  const auto layer = [](int64_t batch) {
    DecodeLayers model;
    model.batch = batch;
    model.splits = std::max<int64_t>(1, 16 / batch);
    return decode_layers(model);
  };
  const auto plan_of = [&](int64_t batch) -> Result<Plan> {
    STRATA_TRY(Compiled compiled, compile(layer(batch), {}));
    return std::move(compiled.plan);
  };
  const auto file = compile_batches("layer", 6, plan_of);
  ASSERT_TRUE(file) << file.error().to_string();
  std::vector<int64_t> batches;
  for (const auto& [batch, plan] : file->by_batch) {
    batches.push_back(batch);
    EXPECT_TRUE(check(plan, layer(batch), {}));
  }
  EXPECT_EQ(batches, (std::vector<int64_t>{1, 2, 4, 8}));
  const auto parsed = parse_plan_file(print_plan_file(*file));
  ASSERT_TRUE(parsed) << parsed.error().to_string();
  EXPECT_EQ(print_plan_file(*parsed), print_plan_file(*file));
  EXPECT_EQ(compile_batches("layer", 0, plan_of).error().message, "a plan is for 1 to 65536 sequences, not 0");
  const auto none = [](int64_t) -> Result<Plan> { return invalid("no model"); };
  EXPECT_EQ(compile_batches("layer", 4, none).error().message, "batch 1: no model");
}

/// A task that waits for one that is held up must be marked; one that only stands after it must not lose its prefetch.
TEST(Marks, TasksThatOnlyStandAfterALateOneLoadAhead) {
  Plan plan;
  plan.workers = 2;
  plan.schedulers = 1;
  plan.events = {{1, 1, 2}, {1, 2, 3}, {1, 4, 5}};
  const auto task = [&](std::vector<int> waits, int signal) { plan.tasks.push_back({-1, -1, {}, waits, signal}); };
  task({}, 0);
  task({0}, 1);   // just in time
  task({1}, -1);  // waits for it
  task({0}, 2);
  task({2}, -1);  // waits for the one before
  plan.tasks[1].mode = LaunchMode::JustInTime;
  const auto marks = [&](std::vector<int> queue) {
    plan.queues = {std::move(queue), {4}};
    const auto marked = mark_after_just_in_time(plan);
    EXPECT_TRUE(marked) << marked.error().to_string();
    std::vector<int> numbers;
    for (size_t t = 0; t < marked->tasks.size(); ++t) {
      if (marked->tasks[t].after_just_in_time) numbers.push_back(static_cast<int>(t));
    }
    return numbers;
  };
  EXPECT_EQ(marks({0, 2, 3}), (std::vector<int>{2, 4})) << "3 stands after 2, and 4 waits for 3";
  EXPECT_EQ(marks({0, 3, 2}), (std::vector<int>{2}));
}

/// The plan's tasks in other queues: in any order in which they may run.
Plan with_random_queues(Plan plan, Random& random) {
  std::vector<bool> placed(plan.tasks.size(), false);
  std::vector<int64_t> left;
  for (const Event& event : plan.events) left.push_back(event.triggers);
  for (std::vector<int>& queue : plan.queues) queue.clear();
  for (;;) {
    std::vector<size_t> ready;
    for (size_t t = 0; t < plan.tasks.size(); ++t) {
      const std::vector<int>& waits = plan.tasks[t].waits;
      if (!placed[t] &&
          std::all_of(waits.begin(), waits.end(), [&](int e) { return left[static_cast<size_t>(e)] == 0; }))
        ready.push_back(t);
    }
    if (ready.empty()) return plan;
    const size_t t = ready[random.below(ready.size())];
    placed[t] = true;
    if (plan.tasks[t].signal >= 0) --left[static_cast<size_t>(plan.tasks[t].signal)];
    if (plan.tasks[t].mode == LaunchMode::AheadOfTime)
      plan.queues[random.below(plan.queues.size())].push_back(static_cast<int>(t));
  }
}

/// Marked are tasks ahead of time of which some event needs a task just in time, by events or queues.
TEST(Marks, AreThoseOfAllPairsOfTasks) {
  Random random(21);
  int marked = 0, only_after = 0;
  for (int test = 0; test < rounds(1500); ++test) {
    const OperatorGraph operators = random_operator_graph(random);
    const Machine machine = small_machine(random);
    CompileOptions options;
    options.choose_hand_offs = false;
    const auto compiled = compile(operators, machine, options);
    ASSERT_TRUE(compiled) << compiled.error().to_string();
    const auto made = mark_after_just_in_time(with_random_queues(compiled->plan, random));
    ASSERT_TRUE(made) << made.error().to_string();
    const Plan& plan = *made;
    const auto checked = check(plan, operators, machine);
    EXPECT_TRUE(checked) << checked.error().to_string();
    const auto just_in_time = [&](size_t t) { return plan.tasks[t].mode == LaunchMode::JustInTime; };
    const auto waits_for = [&](size_t t, size_t p) {
      const std::vector<int>& waits = plan.tasks[t].waits;
      return std::find(waits.begin(), waits.end(), plan.tasks[p].signal) != waits.end();
    };
    Relation before(plan.tasks.size());
    for (size_t t = 0; t < plan.tasks.size(); ++t) {
      for (size_t p = 0; p < plan.tasks.size(); ++p) before[p][t] = waits_for(t, p);
    }
    for (const auto& queue : plan.queues) {
      for (size_t i = 1; i < queue.size(); ++i)
        before[static_cast<size_t>(queue[i - 1])][static_cast<size_t>(queue[i])] = true;
    }
    close(before);
    const auto late = [&](size_t t) {
      bool any = just_in_time(t);
      for (size_t p = 0; p < plan.tasks.size(); ++p) any = any || (just_in_time(p) && before[p][t]);
      return any;
    };
    for (size_t t = 0; t < plan.tasks.size(); ++t) {
      bool expected = false;
      for (size_t p = 0; p < plan.tasks.size(); ++p) expected = expected || (waits_for(t, p) && late(p));
      expected = expected && !just_in_time(t);
      EXPECT_EQ(plan.tasks[t].after_just_in_time, expected) << "task " << t;
      marked += expected;
      only_after += !expected && !just_in_time(t) && late(t);
      if (!expected) continue;
      Plan without = plan;
      without.tasks[t].after_just_in_time = false;
      EXPECT_FALSE(check(without, operators, machine)) << "task " << t;
    }
  }
  EXPECT_GT(marked, rounds(100));
  EXPECT_GT(only_after, rounds(10));
}

/// Where experts take tokens, tasks are just in time up to the next barrier.
TEST(Compile, DataDependentOperatorsAreJustInTimeUpToABarrier) {
  OperatorGraph graph;
  graph.name = "experts";
  graph.tensors = {{"x", {8, 4}}, {"y", {8, 4}}, {"z", {8, 4}}, {"u", {8, 4}}, {"v", {8, 4}}};
  const auto add = [&](const char* name, const std::vector<int>& reads, int to, bool whole, bool dependent) {
    Operator op{name, name, {8}};
    for (int from : reads) op.reads.push_back(tile(from, false, {8, 4}, {8}, {whole ? -1 : 0, -1}));
    op.writes.push_back(tile(to, true, {8, 4}, {8}, {0, -1}));
    op.data_dependent = dependent;
    graph.operators.push_back(op);
  };
  add("route", {}, 0, false, false);
  add("experts", {0}, 1, true, true);
  add("scale", {1}, 2, false, false);
  add("mix", {2}, 3, true, false);
  add("next", {3}, 4, false, false);
  const auto compiled = compile(graph, {});
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  EXPECT_EQ(compiled->plan.schedulers, 16);
  for (const Task& task : compiled->plan.tasks) {
    const bool late = task.op == 1 || task.op == 2;
    EXPECT_EQ(task.mode == LaunchMode::JustInTime, late) << task.op;
    EXPECT_EQ(task.after_just_in_time, task.op == 3 || task.op == 4 || task.op < 0) << task.op;
  }
  // Whom a scheduler starts, and who starts after those, waits for counters.
  for (const Task& task : compiled->plan.tasks) {
    for (int event : task.waits) {
      EXPECT_EQ(compiled->plan.events[static_cast<size_t>(event)].hand_off, HandOff::Counter);
    }
  }
}

TEST(Simulate, IsWhatOneCanReckon) {
  OperatorGraph graph;
  graph.name = "one";
  graph.tensors = {{"w", {4, 1000000}, 1, TensorClass::Constant}, {"y", {4}}, {"z", {1}}};
  Operator first{"first", "f", {4}, {tile(0, false, {4, 1000000}, {4}, {0, -1})}, {tile(1, true, {4}, {4}, {0})}};
  first.cost = {1000000, 2e-6, 100, 10000};
  Operator second{"second", "g", {1}, {tile(1, false, {4}, {1}, {-1})}, {tile(2, true, {1}, {1}, {0})}};
  second.cost = {0, 3e-6};
  graph.operators = {first, second};
  Machine machine;
  machine.workers = 4;
  machine.rates.counter_event = 1e-6;
  machine.rates.counter_doubling = 0.5e-6;
  machine.rates.counter_at_full_memory = 0;
  machine.rates.task_interval = 1e-6;
  CompileOptions options;
  options.choose_hand_offs = false;
  options.max_waits = 1;
  // Four workers at 0.1 TB/s each: 10 us, the last hundredth of 2 us, an event of four triggers, 3 us.
  const double alone = 10e-6 + 0.02e-6 + 2e-6 + 3e-6;
  EXPECT_NEAR(compile(graph, machine, options)->estimate.seconds, alone, 1e-12);
  // Half of the bandwidth that they could take.
  machine.rates.stream_bandwidth = 0.2e12;
  const auto slow = compile(graph, machine, options);
  EXPECT_NEAR(slow->estimate.seconds, alone + 10e-6, 1e-12);
  EXPECT_NEAR(slow->estimate.floor, 20e-6, 1e-12);
  EXPECT_NEAR(slow->estimate.computing, (4 * 2e-6 + 3e-6) / 4, 1e-12);
  // Two workers run two tasks each: the ring holds what the second computes while the first ends.
  machine.workers = 2;
  EXPECT_NEAR(compile(graph, machine, options)->estimate.seconds, alone + 10e-6, 1e-12);
}

// One worker is free early, but not for so long that it could begin all tasks after the products.
TEST(Schedule, TasksThatComputeNothingAreSpread) {
  OperatorGraph graph;
  graph.name = "spread";
  graph.tensors = {{"w", {7, 2000000}, 1, TensorClass::Constant}, {"y", {7}}, {"z", {64}}};
  Operator products{"products", "f", {7}, {tile(0, false, {7, 2000000}, {7}, {0, -1})}, {tile(1, true, {7}, {7}, {0})}};
  products.cost = {2000000, 1e-6, 200, 10000};
  const Operator best{"best", "g", {64}, {tile(1, false, {7}, {64}, {-1})}, {tile(2, true, {64}, {64}, {0})}};
  graph.operators = {products, best};
  Machine machine;
  machine.workers = 4;
  const auto compiled = compile(graph, machine);
  ASSERT_TRUE(compiled);
  for (const std::vector<int>& queue : compiled->plan.queues) {
    const auto of_best = [&](int task) { return compiled->plan.tasks[static_cast<size_t>(task)].op == 1; };
    EXPECT_LE(std::count_if(queue.begin(), queue.end(), of_best), 64 / 4 + 8);
  }
}

TEST(Print, TextAndDrawingAreShort) {
  const auto compiled = compile(decode_layers({}), {});
  ASSERT_TRUE(compiled);
  const TaskGraph& graph = compiled->stages.normalised.graph;
  const std::string text = to_text(graph);
  EXPECT_NE(text.find("qkv.0: 128 tasks [8, 16]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("8 events: 16 of qkv.0 -> 16 of attention.0\n"), std::string::npos) << text;
  const std::string svg = to_svg(graph);
  EXPECT_EQ(svg.rfind("<svg ", 0), 0U);
  EXPECT_NE(svg.find("gate_up.0 × 128"), std::string::npos);
  // A node for each part of qkv and attention, not for each task.
  size_t nodes = 0;
  for (size_t at = 0; (at = svg.find("<rect", at)) != std::string::npos; ++at) ++nodes;
  EXPECT_EQ(nodes, 1U + 8 + 8 + 8 + 3 + 1);
  const std::string plan = to_text(compiled->plan);
  EXPECT_NE(plan.find("plan decode: 650 tasks, 21 events, 128 workers, 0 schedulers\n"), std::string::npos) << plan;
}

}  // namespace
}  // namespace strata::megakernel
