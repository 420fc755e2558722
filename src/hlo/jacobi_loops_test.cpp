// Calls for eigenvalues and singular values by what defines them: products of the results, in the interpreter.
#include "hlo/jacobi_loops.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/expand_solver_calls.h"
#include "hlo/text.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// One matrix of a batch, row by row.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> elements;

  Matrix(int64_t m, int64_t n) : rows(m), columns(n), elements(static_cast<size_t>(m * n)) {}
  double& at(int64_t i, int64_t j) { return elements[static_cast<size_t>(i * columns + j)]; }
  double at(int64_t i, int64_t j) const { return elements[static_cast<size_t>(i * columns + j)]; }
};

Matrix matrix_of(const Literal& literal, int64_t number, int64_t rows, int64_t columns) {
  const std::vector<double> all = load_all<double>(literal);
  Matrix made(rows, columns);
  std::copy_n(all.begin() + number * rows * columns, rows * columns, made.elements.begin());
  return made;
}

Matrix transposed(const Matrix& of) {
  Matrix made(of.columns, of.rows);
  for (int64_t i = 0; i < of.rows; ++i)
    for (int64_t j = 0; j < of.columns; ++j) made.at(j, i) = of.at(i, j);
  return made;
}

/// a · b, of the first columns of a and rows of b that both have.
Matrix product(const Matrix& a, const Matrix& b, int64_t terms) {
  Matrix made(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < b.columns; ++j)
      for (int64_t k = 0; k < terms; ++k) made.at(i, j) += a.at(i, k) * b.at(k, j);
  return made;
}

Matrix scaled_columns(Matrix of, const std::vector<double>& by) {
  for (int64_t i = 0; i < of.rows; ++i)
    for (int64_t j = 0; j < std::min(of.columns, std::ssize(by)); ++j) of.at(i, j) *= by[static_cast<size_t>(j)];
  return of;
}

double difference(const Matrix& a, const Matrix& b) {
  double worst = 0;
  for (size_t i = 0; i < a.elements.size(); ++i) {
    const double one = std::abs(a.elements[i] - b.elements[i]);
    worst = one <= worst ? worst : one;  // a NaN is worse
  }
  return worst;
}

double from_orthogonal(const Matrix& of) {
  Matrix one(of.columns, of.columns);
  for (int64_t i = 0; i < of.columns; ++i) one.at(i, i) = 1;
  return difference(product(transposed(of), of, of.rows), one);
}

std::vector<Literal> values_of(const std::string& text, const std::vector<double>& elements) {
  const auto module = parse_module(text);
  EXPECT_TRUE(module) << text << (module ? "" : module.error().to_string());
  if (!module) return {};
  EXPECT_TRUE(has_solver_calls(**module)) << text;
  const auto value = evaluate(**module, std::vector{literal_of((*module)->entry_computation()[0].shape, elements)});
  EXPECT_TRUE(value) << value.error().to_string();
  return value ? std::vector<Literal>(value->elements().begin(), value->elements().end()) : std::vector<Literal>();
}

std::string call(const std::string& target, const std::string& operand, const std::string& result,
                 const std::string& config) {
  return fmt::format(
      "HloModule m\nENTRY e {{\n  a = {} parameter(0)\n  ROOT r = {} custom-call(a), "
      "custom_call_target=\"{}\", backend_config={{{}}}\n}}\n",
      operand, result, target, config);
}

/// Normal numbers, matrices of rank 1 and of zeros, columns of sizes far apart, large and small ones.
std::vector<double> elements_of(Random& random, int64_t batch, int64_t m, int64_t n, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> all;
  for (int64_t b = 0; b < batch; ++b) {
    const auto kind = random.below(6);
    std::vector<double> rows(static_cast<size_t>(m)), columns(static_cast<size_t>(n));
    for (double& row : rows) row = normal(generator);
    for (double& column : columns) column = normal(generator);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const double value = normal(generator);
        all.push_back(kind == 0   ? 0
                      : kind == 1 ? rows[static_cast<size_t>(i)] * columns[static_cast<size_t>(j)]
                      : kind == 2 ? value * std::pow(10, -2 * static_cast<double>(j))
                      : kind == 3 ? value * 1e30
                      : kind == 4 ? value * 1e-30
                                  : value);
      }
    }
  }
  return all;
}

double largest(const Matrix& of) {
  double most = std::numeric_limits<double>::min();
  for (const double value : of.elements) most = std::max(most, std::abs(value));
  return most;
}

TEST(JacobiLoops, EigenvectorsGiveTheMatrixBack) {
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    Random random(seed);
    const bool wide = random.below(2) == 0, lower = random.below(2) == 0, lapack = random.below(2) == 0;
    const std::string type = wide ? "f64" : "f32";
    const auto batch = static_cast<int64_t>(random.below(3)) + 1;
    const int64_t n = seed % 20 == 0 ? 33 : static_cast<int64_t>(random.below(9)) + 1;
    const std::string matrix = fmt::format("{}[{},{},{}]", type, batch, n, n);
    const std::string text = call(lapack ? fmt::format("lapack_{}syevd_ffi", wide ? 'd' : 's') : "cusolver_syevd_ffi",
                                  matrix, fmt::format("({}, {}[{},{}], s32[{}])", matrix, type, batch, n, batch),
                                  lapack ? fmt::format("mode = 86 : ui8, uplo = {} : ui8", lower ? 76 : 85)
                                         : fmt::format("algorithm = 0 : ui8, lower = {}", lower));
    std::vector<double> given = elements_of(random, batch, n, n, seed);
    for (double& value : given) value = wide ? value : static_cast<float>(value);
    std::vector<Matrix> symmetric;
    for (int64_t b = 0; b < batch; ++b) {
      Matrix one(n, n);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          const bool read = lower ? i >= j : i <= j;
          double& element = given[static_cast<size_t>((b * n + i) * n + j)];
          if (read) one.at(i, j) = one.at(j, i) = element;
          if (!read) element = kNan;  // of the other triangle nothing is read
        }
      }
      symmetric.push_back(one);
    }
    const std::vector<Literal> made = values_of(text, given);
    ASSERT_EQ(made.size(), 3U);
    const double tolerance = static_cast<double>(n + 4) * (wide ? 1e-15 : 5e-7);
    for (int64_t b = 0; b < batch; ++b) {
      const Matrix &a = symmetric[static_cast<size_t>(b)], v = matrix_of(made[0], b, n, n);
      const std::vector<double> w = matrix_of(made[1], b, 1, n).elements;
      EXPECT_TRUE(std::is_sorted(w.begin(), w.end())) << text;
      EXPECT_LE(from_orthogonal(v), tolerance) << seed << text;
      EXPECT_LE(difference(product(scaled_columns(v, w), transposed(v), n), a), 2 * tolerance * largest(a))
          << seed << text;
      EXPECT_EQ(made[2].get_integer(b), 0) << text;
    }
  }
}

TEST(JacobiLoops, SingularVectorsGiveTheMatrixBack) {
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    Random random(seed);
    const bool wide = random.below(2) == 0, full = random.below(2) == 0;
    const std::string type = wide ? "f64" : "f32";
    const auto batch = static_cast<int64_t>(random.below(3)) + 1;
    const auto m = static_cast<int64_t>(random.below(9)) + 1, n = static_cast<int64_t>(random.below(9)) + 1;
    const int64_t k = std::min(m, n), columns = full ? m : k, rows = full ? n : k;
    const auto array = [&](int64_t i, int64_t j) { return fmt::format("{}[{},{},{}]", type, batch, i, j); };
    // With v, with vᵀ, with vᵀ before u.
    const auto form = random.below(4);
    const std::string target = form == 0   ? "cusolver_gesvdj_ffi"
                               : form == 3 ? fmt::format("lapack_{}gesdd_ffi", wide ? 'd' : 's')
                                           : "cusolver_gesvd_ffi";
    const std::string left = array(m, columns), right = form == 0 ? array(n, rows) : array(rows, n);
    const std::string text =
        call(target, array(m, n),
             fmt::format("({}, {}[{},{}], {}, {}, s32[{}])", array(m, n), type, batch, k, form == 2 ? right : left,
                         form == 2 ? left : right, batch),
             form == 3 ? fmt::format("mode = {} : ui8", full ? 65 : 83)
                       : fmt::format("compute_uv = true, full_matrices = {}{}", full,
                                     form == 0 ? "" : fmt::format(", transposed = {}", form == 2)));
    std::vector<double> given = elements_of(random, batch, m, n, seed);
    for (double& value : given) value = wide ? value : static_cast<float>(value);
    const std::vector<Literal> made = values_of(text, given);
    ASSERT_EQ(made.size(), 5U);
    const double tolerance = static_cast<double>(m + n) * (wide ? 1e-15 : 5e-7);
    for (int64_t b = 0; b < batch; ++b) {
      Matrix a(m, n);
      std::copy_n(given.begin() + b * m * n, m * n, a.elements.begin());
      const Matrix u = matrix_of(made[form == 2 ? 3 : 2], b, m, columns);
      const Matrix v =
          form == 0 ? matrix_of(made[3], b, n, rows) : transposed(matrix_of(made[form == 2 ? 2 : 3], b, rows, n));
      const std::vector<double> s = matrix_of(made[1], b, 1, k).elements;
      EXPECT_TRUE(std::is_sorted(s.rbegin(), s.rend()) && s.back() >= 0) << text;
      EXPECT_LE(from_orthogonal(u), tolerance) << seed << text;
      EXPECT_LE(from_orthogonal(v), tolerance) << seed << text;
      EXPECT_LE(difference(product(scaled_columns(u, s), transposed(v), k), a), 2 * tolerance * largest(a))
          << seed << text;
      EXPECT_EQ(made[4].get_integer(b), 0) << text;
    }
  }
}

TEST(JacobiLoops, ValuesAloneAreThoseWithVectors) {
  const auto text = [](bool vectors) {
    return call("cusolver_gesvdj_ffi", "f64[7,5]", "(f64[7,5], f64[5], f64[7,7], f64[5,5], s32[])",
                fmt::format("compute_uv = {}, full_matrices = true", vectors));
  };
  Random random(7);
  std::vector<double> given(35);
  for (double& value : given) value = static_cast<double>(random.below(1000)) - 500;
  const auto with = values_of(text(true), given), without = values_of(text(false), given);
  ASSERT_TRUE(with.size() == 5 && without.size() == 5);
  EXPECT_LE(difference(matrix_of(with[1], 0, 1, 5), matrix_of(without[1], 0, 1, 5)), 1e-10);
}

TEST(JacobiLoops, WhatIsNotFiniteIsNanInItsOwnMatrixAlone) {
  for (const double bad : {kNan, std::numeric_limits<double>::infinity()}) {
    std::vector<double> given{2, 1, 1, 2, bad, 1, 1, 2, 0, 3, 3, 0};
    const auto eigen = values_of(
        call("cusolver_syevd_ffi", "f64[3,2,2]", "(f64[3,2,2], f64[3,2], s32[3])", "algorithm = 0 : ui8, lower = true"),
        given);
    const auto singular =
        values_of(call("cusolver_gesvdj_ffi", "f64[3,2,2]", "(f64[3,2,2], f64[3,2], f64[3,2,2], f64[3,2,2], s32[3])",
                       "compute_uv = true, full_matrices = true"),
                  given);
    ASSERT_TRUE(eigen.size() == 3 && singular.size() == 5);
    for (const Literal& result : {eigen[0], eigen[1], singular[1], singular[2], singular[3]}) {
      const std::vector<double> values = load_all<double>(result);
      const size_t each = values.size() / 3;
      for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::isnan(values[i]), i / each == 1) << i;
    }
    const std::vector<double> found = load_all<double>(eigen[1]);
    EXPECT_NEAR(found[0], 1, 1e-14);
    EXPECT_NEAR(found[5], 3, 1e-14);
  }
}

}  // namespace
}  // namespace strata::hlo
