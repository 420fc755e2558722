#include "superopt/measured_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/text.h"
#include "superopt/tune_queue.h"

namespace strata {
namespace {

/// Five graphs in 40 schedules each.
std::vector<MeasuredCost::Row> rows() {
  std::vector<MeasuredCost::Row> all;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> estimate(8, 12);
  for (int graph = 0; graph < 5; ++graph) {
    for (int64_t warps : {1, 2, 4, 8}) {
      for (int64_t stages : {1, 2, 3, 4, 8}) {
        for (bool bulk : {false, true}) {
          BlockSchedule schedule{.row_warps = warps, .stages = stages, .bulk = bulk};
          all.push_back({graph, {std::nullopt, schedule}, estimate(random) * std::sqrt(static_cast<double>(warps))});
        }
      }
    }
  }
  return all;
}

/// What the model of rows() does not know: graph 3 is slow, many warps are fast, not slow, TMA is slow with few stages.
double truth(const MeasuredCost::Row& row) {
  const BlockSchedule& s = *row.schedules[1];
  return row.estimated_us * (row.graph == 3 ? 2 : 1) / static_cast<double>(s.row_warps) *
         (s.bulk && s.stages < 3 ? 1.5 : 1);
}

std::vector<std::pair<size_t, double>> measured(const std::vector<MeasuredCost::Row>& all, size_t count) {
  std::vector<size_t> order;
  for (size_t i = 0; i < all.size(); ++i) order.push_back(i);
  std::shuffle(order.begin(), order.end(), std::mt19937(2));
  std::vector<std::pair<size_t, double>> times;
  for (size_t i = 0; i < count; ++i) times.emplace_back(order[i], truth(all[order[i]]));
  return times;
}

double correlation(const std::vector<MeasuredCost::Row>& all, const std::vector<MeasuredCost::Estimate>& estimates) {
  std::vector<std::pair<double, double>> pairs;
  for (size_t i = 0; i < all.size(); ++i) pairs.emplace_back(estimates[i].us, truth(all[i]));
  return *rank_correlation(pairs);
}

TEST(MeasuredCost, IsTheModelsWhereNothingWasMeasured) {
  const auto all = rows();
  MeasuredCost cost(all);
  cost.learn({{3, 1.0}});
  const auto estimates = cost.estimates();
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_NEAR(estimates[i].us, all[i].estimated_us, 1e-9);
    EXPECT_EQ(estimates[i].deviation, 0);
  }
}

TEST(MeasuredCost, AFewMeasurementsTellOfTheOthers) {
  const auto all = rows();
  MeasuredCost cost(all);
  EXPECT_LT(correlation(all, cost.estimates()), 0.5);
  cost.learn(measured(all, 60));
  EXPECT_GT(correlation(all, cost.estimates()), 0.9);
}

TEST(MeasuredCost, AMeasuredRowIsEstimatedWithoutItself) {
  const auto all = rows();
  auto times = measured(all, 60);
  MeasuredCost cost(all);
  cost.learn(times);
  const auto left_out = cost.estimates();
  for (size_t i : {0U, 17U, 59U}) {
    auto others = times;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    cost.learn(others);
    const auto again = cost.estimates();
    // The mean of the errors is the only thing that the row had a part in.
    EXPECT_NEAR(again[times[i].first].us / left_out[times[i].first].us, 1, 0.02);
    EXPECT_NEAR(again[times[i].first].deviation / left_out[times[i].first].deviation, 1, 0.1);
  }
}

TEST(MeasuredCost, WhatIsFarFromAllMeasuredIsUncertain) {
  const auto all = rows();
  std::vector<std::pair<size_t, double>> times;
  for (size_t i = 0; i < 10; ++i) times.emplace_back(i, truth(all[i]) * (i % 2 == 0 ? 1.2 : 1));
  MeasuredCost cost(all);
  cost.learn(times);
  const auto estimates = cost.estimates();
  EXPECT_GT(estimates[199].deviation, 1.5 * estimates[10].deviation);
}

TEST(MeasuredCost, TimesThatAreAllAsEstimatedChangeNothing) {
  const auto all = rows();
  std::vector<std::pair<size_t, double>> times;
  for (size_t i = 0; i < all.size(); ++i) times.emplace_back(i, all[i].estimated_us);
  MeasuredCost cost(all);
  cost.learn(times);
  const auto estimates = cost.estimates();
  for (size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(estimates[i].us, all[i].estimated_us, 1e-6) << i;
}

/// Rows of TunedRow for the queue: graphs are told apart by address only.
std::vector<TunedRow> tuned_rows(const std::vector<MeasuredCost::Row>& all) {
  std::vector<GraphPtr> graphs;
  for (int i = 0; i < 5; ++i)
    graphs.push_back(*parse_graph("graph g {\n  input A: f16[2, 2]\n  O = exp(A)\n  output O\n}\n"));
  std::vector<TunedRow> tuned;
  for (const auto& row : all) {
    TunedRow& made = tuned.emplace_back();
    made.graph = graphs[static_cast<size_t>(row.graph)];
    made.schedules = row.schedules;
    made.estimated_us = row.estimated_us;
  }
  std::stable_sort(tuned.begin(), tuned.end(),
                   [](const auto& a, const auto& b) { return a.estimated_us < b.estimated_us; });
  for (size_t i = 0; i < tuned.size(); ++i) tuned[i].place = static_cast<int>(i) + 1;
  return tuned;
}

/// How many rows are measured until the fastest is.
int until_fastest(TuneOrder order, bool learns) {
  auto all = rows();
  const auto tuned = tuned_rows(all);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.estimated_us < b.estimated_us; });
  size_t fastest = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (truth(all[i]) < truth(all[fastest])) fastest = i;
  }
  TuneQueue queue(tuned, order, 1);
  int count = 0;
  while (const auto row = queue.next()) {
    ++count;
    if (learns) queue.measured(*row, truth(all[*row]));
    if (*row == fastest) return count;
  }
  return -1;
}

TEST(TuneQueue, MeasurementsBringTheFastestEarlier) {
  const int learning = until_fastest(TuneOrder::Promise, true);
  EXPECT_GT(learning, 0);
  EXPECT_LT(learning, until_fastest(TuneOrder::Promise, false));
}

TEST(TuneQueue, GivesEachRowOnceAndWhatMustBeFirst) {
  auto tuned = tuned_rows(rows());
  tuned[120].is_program = true;
  for (TuneOrder order : {TuneOrder::Promise, TuneOrder::Random}) {
    TuneQueue queue(tuned, order, 7);
    std::vector<size_t> given;
    while (const auto row = queue.next()) {
      given.push_back(*row);
      queue.measured(*row, 5);
    }
    ASSERT_EQ(given.size(), tuned.size());
    EXPECT_EQ(given[0], 120U);
    EXPECT_EQ(given[1], 0U);
    std::sort(given.begin(), given.end());
    for (size_t i = 0; i < given.size(); ++i) EXPECT_EQ(given[i], i);
  }
}

TEST(TuneQueue, BeginsWithTheBestOfEachGraph) {
  const auto tuned = tuned_rows(rows());
  TuneQueue queue(tuned, TuneOrder::Promise, 1);
  std::vector<const Graph*> graphs;
  for (int i = 0; i < 5; ++i) graphs.push_back(tuned[*queue.next()].graph.get());
  std::sort(graphs.begin(), graphs.end());
  EXPECT_EQ(std::unique(graphs.begin(), graphs.end()), graphs.end());
}

}  // namespace
}  // namespace strata
