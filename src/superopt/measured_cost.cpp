#include "superopt/measured_cost.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

namespace strata {
namespace {

// Chosen on 4713 schedules of 20 programs that were measured on an H200: what ranks the others best after 30 and 60 of
// a program. Half and twice of each changes little.
constexpr double kOtherGraph = 0.5;      ///< distance of two graphs
constexpr double kOtherAlgorithm = 0.5;  ///< of two algorithms of a library
constexpr double kDoubling = 0.15;       ///< of one number of a schedule and its double
constexpr float kMostDoublings = 3;
constexpr float kFlag = 2;       ///< a flag's distance, in doublings
constexpr double kNoise = 0.03;  ///< variance of a measurement, of that of the errors
constexpr size_t kMostLearnt = 400;

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

}  // namespace

struct MeasuredCost::Learnt {
  std::vector<size_t> rows;
  Vector errors;  ///< log(measured / estimated), less their mean
  double mean = 0;
  double variance = 0;
  Matrix inverse;  ///< of the covariance of the learnt rows, in units of the variance
};

MeasuredCost::MeasuredCost(const std::vector<Row>& rows) {
  for (const Row& row : rows) points_.push_back(point_of(row));
}
MeasuredCost::~MeasuredCost() = default;
MeasuredCost::MeasuredCost(MeasuredCost&&) noexcept = default;

MeasuredCost::Point MeasuredCost::point_of(const Row& row) {
  Point point{row.graph, {}, {}, std::log(row.estimated_us)};
  const BlockSchedule* block = nullptr;
  for (const auto& schedule : row.schedules) {
    if (!schedule) continue;
    if (schedule->algorithm >= 0) {
      point.algorithms += fmt::format("{} ", schedule->algorithm);
    } else if (block == nullptr) {
      block = &*schedule;  // the one that rows of a graph differ by
    }
  }
  if (block == nullptr) return point;
  const auto doublings = [](int64_t value) { return std::log2(static_cast<float>(std::max<int64_t>(1, value))); };
  const auto flag = [](bool set) { return set ? kFlag : 0; };
  point.schedule = {doublings(block->row_warps),
                    doublings(block->loop_warps),
                    doublings(block->stages),
                    doublings(block->cluster),
                    doublings(block->sharers),
                    flag(block->wide),
                    flag(block->bulk),
                    flag(block->turns),
                    flag(block->handover != Handover::Launch) + flag(block->handover == Handover::Last)};
  return point;
}

double MeasuredCost::similarity(const Point& a, const Point& b) {
  double distance = 0;
  for (size_t i = 0; i < a.schedule.size(); ++i)
    distance += kDoubling * std::min(kMostDoublings, std::abs(a.schedule[i] - b.schedule[i]));
  if (a.graph != b.graph) distance += kOtherGraph;
  if (a.algorithms != b.algorithms) distance += kOtherAlgorithm;
  return std::exp(-distance);
}

void MeasuredCost::learn(const std::vector<std::pair<size_t, double>>& measured) {
  learnt_.reset();
  if (measured.size() < 2) return;
  auto learnt = std::make_unique<Learnt>();
  const size_t count = std::min(measured.size(), kMostLearnt);
  learnt->errors.resize(static_cast<Eigen::Index>(count));
  for (size_t i = 0; i < count; ++i) {
    const auto& [row, us] = measured[i * measured.size() / count];
    learnt->rows.push_back(row);
    learnt->errors[static_cast<Eigen::Index>(i)] = std::log(us) - points_[row].log_estimate;
  }
  learnt->mean = learnt->errors.mean();
  learnt->errors.array() -= learnt->mean;
  constexpr double kLeast = 1e-4;  // variance of errors that are all equal
  learnt->variance = std::max(kLeast, learnt->errors.squaredNorm() / static_cast<double>(count));
  const auto n = static_cast<Eigen::Index>(count);
  Matrix covariance(n, n);
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      const double value = similarity(points_[learnt->rows[i]], points_[learnt->rows[j]]) + (i == j ? kNoise : 0);
      covariance(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) = value;
      covariance(static_cast<Eigen::Index>(j), static_cast<Eigen::Index>(i)) = value;
    }
  }
  learnt->inverse = covariance.llt().solve(Matrix::Identity(n, n));
  learnt_ = std::move(learnt);
}

std::vector<MeasuredCost::Estimate> MeasuredCost::estimates() const {
  std::vector<Estimate> estimates;
  for (const Point& point : points_) estimates.push_back({std::exp(point.log_estimate), 0});
  if (!learnt_) return estimates;
  const auto n = static_cast<Eigen::Index>(learnt_->rows.size());
  const Vector weights = learnt_->inverse * learnt_->errors;
  Vector similar(n);
  const auto set = [&](size_t row, double error, double variance) {
    estimates[row] = {std::exp(points_[row].log_estimate + learnt_->mean + error),
                      std::sqrt(learnt_->variance * std::max(0.0, variance))};
  };
  for (size_t row = 0; row < points_.size(); ++row) {
    for (Eigen::Index i = 0; i < n; ++i)
      similar[i] = similarity(points_[row], points_[learnt_->rows[static_cast<size_t>(i)]]);
    set(row, similar.dot(weights), 1 - similar.dot(learnt_->inverse * similar));
  }
  // Rasmussen and Williams, Gaussian Processes for Machine Learning, equations 5.10 to 5.12.
  for (Eigen::Index i = 0; i < n; ++i) {
    const double precision = learnt_->inverse(i, i);
    set(learnt_->rows[static_cast<size_t>(i)], learnt_->errors[i] - weights[i] / precision, 1 / precision - kNoise);
  }
  return estimates;
}

}  // namespace strata
