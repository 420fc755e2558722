#include "megakernel/tgraph/task_graph.h"

#include <gtest/gtest.h>

#include <chrono>

#include "megakernel/tgraph/passes.h"
#include "megakernel/tgraph/print.h"
#include "megakernel/tgraph/test_graphs.h"

namespace strata::megakernel {
namespace {

using indexing::Expr;
using indexing::IndexingMap;

/// Every pass keeps what the operators ask for by all their elements, and adds nothing where the maps are exact.
TEST(TaskGraph, PassesKeepTheOrderThatElementsAskFor) {
  Random random(1);
  int exact = 0, empty_tasks = 0;
  constexpr int kTests = 400;
  for (int test = 0; test < kTests; ++test) {
    const OperatorGraph operators = random_operator_graph(random);
    const auto valid = validate(operators);
    ASSERT_TRUE(valid) << valid.error().to_string();
    Relation required = required_order(operators).any;
    close(required);
    const size_t count = required.size();

    const auto found = dependences(operators);
    ASSERT_TRUE(found) << found.error().to_string();
    const bool all_exact = std::all_of(found->begin(), found->end(), [](const Dependence& one) { return one.exact; });
    exact += all_exact;
    const TaskGraph graph = *task_graph(operators);
    const Relation base = order_of(graph, count);
    for (size_t i = 0; i < count; ++i) {
      const auto missing = required[i] & ~base[i];
      EXPECT_TRUE(missing.none()) << "test " << test << ": " << i << " before " << missing._Find_first() << "\n"
                                  << to_text(operators) << to_text(graph);
      if (HasFailure()) return;
    }
    if (all_exact) {
      EXPECT_EQ(base, required) << "test " << test;
    }

    // Groups that depend on each other, and no others, do so with all their tasks.
    const TaskGraph coarse = one_event_a_pair(graph);
    const Relation coarse_order = order_of(coarse, count);
    for (size_t i = 0; i < count; ++i) EXPECT_TRUE((base[i] & ~coarse_order[i]).none()) << "test " << test;
    std::set<std::pair<int, int>> pairs;
    for (const TaskEvent& event : coarse.events) {
      ASSERT_EQ(event.in.groups.size() + event.out.groups.size(), 2U);
      EXPECT_TRUE(pairs.emplace(event.in.groups.begin()->first, event.out.groups.begin()->first).second);
      EXPECT_TRUE(std::any_of(graph.events.begin(), graph.events.end(), [&](const TaskEvent& fine) {
        return fine.in.groups.contains(event.in.groups.begin()->first) &&
               fine.out.groups.contains(event.out.groups.begin()->first);
      }));
    }

    const TaskGraph ended = with_step_end(graph);
    EXPECT_EQ(order_of(ended, count), base);
    const Relation with_end = order_of(ended, static_cast<size_t>(ended.task_count()));
    int last = 0;
    for (const auto& row : with_end) last += row.none();
    EXPECT_EQ(last, 1) << "tasks with nothing after them";
    const auto dropped = drop_implied(ended);
    ASSERT_TRUE(dropped) << dropped.error().to_string();
    EXPECT_EQ(order_of(*dropped, count), base);
    const TaskGraph fused = fuse_events(*dropped);
    EXPECT_EQ(order_of(fused, count), base);
    EXPECT_EQ(fuse_events(fused), fused) << "a fixed point";
    std::set<std::vector<int>> ins, outs;
    const TaskNumbers numbers(fused);
    for (const TaskEvent& event : fused.events) {
      EXPECT_TRUE(ins.insert(numbers.tasks_of(event.in)).second);
      EXPECT_TRUE(outs.insert(numbers.tasks_of(event.out)).second);
    }
    for (int max_waits : {1, 2, 4}) {
      const auto normalised = normalise(fused, max_waits, {});
      ASSERT_TRUE(normalised) << normalised.error().to_string();
      EXPECT_EQ(order_of(normalised->graph, count), base) << "test " << test << ", waits " << max_waits;
      const Precedence precedence(normalised->graph);
      std::vector<int> signals(precedence.waits.size(), 0);
      for (const auto& triggers : precedence.triggers) {
        EXPECT_FALSE(triggers.empty());
        for (int task : triggers) ++signals[static_cast<size_t>(task)];
      }
      for (size_t t = 0; t < signals.size(); ++t) {
        EXPECT_LE(signals[t], 1);
        EXPECT_LE(precedence.waits[t].size(), static_cast<size_t>(max_waits));
      }
      EXPECT_EQ(normalised->empty_tasks, normalised->graph.task_count() - fused.task_count());
      EXPECT_EQ(normalised->seconds > 0, normalised->empty_tasks > 0);
      empty_tasks += normalised->empty_tasks > 0;
    }
    if (HasFailure()) {
      ADD_FAILURE() << "test " << test;
      return;
    }
  }
  EXPECT_GT(exact, kTests / 2);
  EXPECT_GT(empty_tasks, kTests / 10);
}

/// Tests of the paper's figures and of reading that is not by tiles.
class Small : public testing::Test {
 protected:
  static TaskSet tasks(int group, const std::vector<int64_t>& numbers, int64_t of) {
    TaskSet set;
    set.add(group, GridSet::of(numbers, {of}));
    return set;
  }
};

/// Figure 6a: T0 triggers e1, e2 and e3, for which T1, T2 and T3 wait.
TEST_F(Small, FanOutBecomesEmptyTasks) {
  TaskGraph graph{{{"a", 0, {1}}, {"b", 1, {3}}}, {}};
  for (int64_t k = 0; k < 3; ++k) graph.events.push_back({tasks(0, {0}, 1), tasks(1, {k}, 3)});
  const Normalised made = *normalise(graph, 1, {});
  EXPECT_EQ(made.empty_tasks, 3);
  ASSERT_EQ(made.graph.events.size(), 4U);
  EXPECT_EQ(made.graph.groups.back(), (TaskGroup{"fan-out of a", -1, {3}}));
  EXPECT_EQ(made.graph.events[1], (TaskEvent{tasks(2, {1}, 3), tasks(1, {1}, 3)}));
  EXPECT_EQ(made.graph.events[3], (TaskEvent{tasks(0, {0}, 1), tasks(2, {0, 1, 2}, 3)}));
  // Predecessor-set fusion makes one event of them, and nothing to normalise.
  EXPECT_EQ(fuse_events(graph).events.size(), 1U);
}

/// Figure 6b: T3 waits for e0, e1 and e2, which T0, T1 and T2 trigger, along with tasks of their own.
TEST_F(Small, FanInBecomesEmptyTasks) {
  TaskGraph graph{{{"a", 0, {3}}, {"b", 1, {4}}}, {}};
  for (int64_t k = 0; k < 3; ++k) graph.events.push_back({tasks(0, {k}, 3), tasks(1, {k, 3}, 4)});
  const Normalised one = *normalise(graph, 1, {});
  EXPECT_EQ(one.empty_tasks, 3);
  ASSERT_EQ(one.graph.events.size(), 4U);
  EXPECT_EQ(one.graph.events[3], (TaskEvent{tasks(2, {0, 1, 2}, 3), tasks(1, {3}, 4)}));
  TaskEvent expected{tasks(0, {1}, 3), tasks(1, {1}, 4)};
  expected.out.add(2, GridSet::of({1}, {3}));
  EXPECT_EQ(one.graph.events[1], expected);
  const Normalised two = *normalise(graph, 2, {});
  EXPECT_EQ(two.empty_tasks, 2) << "one of three events is waited for directly";
  EXPECT_EQ(normalise(graph, 4, {})->empty_tasks, 0);
  EXPECT_FALSE(normalise(graph, 0, {}));
  EXPECT_FALSE(normalise(graph, 5, {}));
}

TEST_F(Small, CyclesAndHugeGraphsAreErrors) {
  TaskGraph graph{{{"a", 0, {1}}, {"b", 1, {1}}}, {}};
  graph.events.push_back({tasks(0, {0}, 1), tasks(1, {0}, 1)});
  graph.events.push_back({tasks(1, {0}, 1), tasks(0, {0}, 1)});
  EXPECT_EQ(drop_implied(graph).error().message, "tasks wait for each other in a cycle");
  EXPECT_EQ(normalise(graph, 1, {}).error().message, "tasks wait for each other in a cycle");
  graph.groups[0].grid = {1000000};
  EXPECT_EQ(drop_implied(graph).error().message, "the graph has 1000001 tasks; at most 262144 are planned");
}

/// Grids of 10⁸ blocks: the producer writes tiles of 64 × 64.
class LargeGrids : public testing::Test {
 protected:
  static constexpr int64_t kSide = 10000;
  static constexpr int64_t kTile = 64;

  static TaskGraph graph_of(const std::vector<int64_t>& grid, IndexingMap read) {
    const std::vector<int64_t> shape{kSide * kTile, kSide * kTile};
    OperatorGraph graph;
    graph.tensors = {{"a", shape}, {"b", grid}};
    Operator producer{"producer", "f", {kSide, kSide}};
    producer.writes = {tile(0, true, shape, producer.grid, {0, 1})};
    Operator consumer{"consumer", "g", grid};
    read.dims = indexing::positions(grid);
    consumer.reads = {access(0, false, std::move(read))};
    consumer.writes = {tile(1, true, grid, grid, grid.size() == 1 ? std::vector<int>{0} : std::vector<int>{0, 1})};
    graph.operators = {producer, consumer};
    const auto start = std::chrono::steady_clock::now();
    const auto valid = validate(graph);
    EXPECT_TRUE(valid) << valid.error().to_string();
    const auto made = task_graph(graph);
    EXPECT_TRUE(made) << made.error().to_string();
    const TaskGraph fused = fuse_events(*made);
    RecordProperty(
        "microseconds",
        static_cast<int>(
            std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count()));
    EXPECT_EQ(fused.task_count(), kSide * kSide + *indexing::element_count(grid));
    return fused;
  }
};

TEST_F(LargeGrids, AllToAllIsOneEvent) {
  IndexingMap read;
  read.ranges = indexing::positions({kSide * kTile, kSide * kTile});
  read.results = {Expr::range(0), Expr::range(1)};
  const TaskGraph graph = graph_of({kSide, kSide}, read);
  ASSERT_EQ(graph.events.size(), 1U);
  EXPECT_EQ(graph.events[0].out.count(), kSide * kSide);
}

TEST_F(LargeGrids, KeptRowsAreOneEventEach) {
  IndexingMap read;
  read.ranges = indexing::positions({kTile, kSide * kTile});
  read.results = {Expr::dim(0) * kTile + Expr::range(0), Expr::range(1)};
  const TaskGraph graph = graph_of({kSide, kSide}, read);
  ASSERT_EQ(graph.events.size(), static_cast<size_t>(kSide));
  for (const TaskEvent& event : graph.events) {
    EXPECT_EQ(event.in.count(), kSide);
    EXPECT_EQ(event.out.count(), kSide);
  }
}

TEST_F(LargeGrids, KeptColumnsOfAFlatGridAreOneEventEach) {
  IndexingMap read;
  read.ranges = indexing::positions({kSide * kTile, 100 * kTile});
  read.results = {Expr::range(0), mod(Expr::dim(0), 100) * (100 * kTile) + Expr::range(1)};
  const TaskGraph graph = graph_of({kSide * 100}, read);
  ASSERT_EQ(graph.events.size(), 100U);
  EXPECT_EQ(graph.events[7].in.count(), kSide * 100);
  EXPECT_EQ(graph.events[7].out.count(), kSide);
}

/// Consumers of single rows of elements: 640000 of them, and 64 of each row of tiles.
TEST_F(LargeGrids, ManyConsumersOfFewProducersAreDividedFromTheirSide) {
  const std::vector<int64_t> shape{640000, 8};
  OperatorGraph graph;
  graph.tensors = {{"a", shape}, {"b", {640000}}};
  Operator producer{"producer", "f", {100}};
  producer.writes = {tile(0, true, shape, producer.grid, {0, -1})};
  Operator consumer{"consumer", "g", {640000}};
  consumer.reads = {tile(0, false, shape, consumer.grid, {0, -1})};
  consumer.writes = {tile(1, true, {640000}, consumer.grid, {0})};
  graph.operators = {producer, consumer};
  const auto made = task_graph(graph);
  ASSERT_TRUE(made) << made.error().to_string();
  ASSERT_EQ(made->events.size(), 100U);
  for (const TaskEvent& event : made->events) EXPECT_EQ(event.out.count(), 6400);
}

TEST_F(LargeGrids, TooManySetsAreAnError) {
  OperatorGraph graph;
  graph.tensors = {{"a", {1000000}}, {"b", {1000000}}};
  Operator producer{"producer", "f", {1000000}};
  producer.writes = {tile(0, true, {1000000}, producer.grid, {0})};
  Operator consumer{"consumer", "g", {1000000}};
  consumer.reads = {tile(0, false, {1000000}, consumer.grid, {0})};
  consumer.writes = {tile(1, true, {1000000}, consumer.grid, {0})};
  graph.operators = {producer, consumer};
  const auto made = task_graph(graph);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::Unsupported);
  EXPECT_EQ(made.error().message,
            "tasks of operator 'consumer' depend on more than 131072 different sets of tasks of 'producer', by tensor "
            "'a'");
}

}  // namespace
}  // namespace strata::megakernel
