// The cost model's estimates, corrected by what was measured of the same program (docs/cost-model.md).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "superopt/codegen/generate.h"

namespace strata {

/// A Gaussian process over log(measured / estimated) time. Rows that differ little - in the same graph, by a stage more
/// or by twice the warps - are wrong by about the same factor, so a few measurements tell much of what is left.
class MeasuredCost {
 public:
  struct Row {
    int graph = 0;        ///< rows of one number are schedules of one graph
    Schedules schedules;  ///< by operator
    double estimated_us = 0;
  };
  struct Estimate {
    double us = 0;
    double deviation = 0;  ///< standard deviation of log(us)
  };

  explicit MeasuredCost(const std::vector<Row>& rows);
  ~MeasuredCost();
  MeasuredCost(MeasuredCost&&) noexcept;

  /// Measured rows and their times, µs, all above 0: what was learnt before is forgotten. Of more than 400 it takes
  /// 400, evenly.
  void learn(const std::vector<std::pair<size_t, double>>& measured);

  /// Of all rows; a learnt row is estimated as if it alone had not been measured (leave one out). The model's own
  /// estimates, with no deviation, where less than two were learnt.
  std::vector<Estimate> estimates() const;

 private:
  struct Point {
    int graph = 0;
    std::string algorithms;
    std::array<float, 9> schedule{};  ///< logarithms and flags, in units of a doubling
    double log_estimate = 0;
  };
  struct Learnt;
  static Point point_of(const Row& row);
  static double similarity(const Point& a, const Point& b);

  std::vector<Point> points_;
  std::unique_ptr<Learnt> learnt_;
};

}  // namespace strata
