// Loops over columns against the interpreter, in the interpreter. tests/hlo has JAX's values.
#include "hlo/expand_linear_algebra.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "hlo/compare.h"
#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/expand_solver_calls.h"
#include "hlo/text.h"
#include "hlo/verify.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

using Number = std::complex<double>;

ModulePtr parsed(const std::string& text) {
  auto module = parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string() << text;
  return module ? *module : nullptr;
}

/// One of these.
template <class T>
T one_of(Random& random, std::initializer_list<T> of) {
  return std::data(of)[random.below(of.size())];
}

Literal literal(const Shape& shape, const std::vector<Number>& values) {
  if (is_complex(shape.type)) return literal_of(shape, values);
  std::vector<double> parts;
  for (const Number& value : values) parts.push_back(value.real());
  return literal_of(shape, parts);
}

std::vector<Number> numbers(const Literal& literal) {
  if (is_complex(literal.shape().type)) return load_all<Number>(literal);
  const std::vector<double> parts = load_all<double>(literal);
  return {parts.begin(), parts.end()};
}

/// What stands where it must not be read.
const Number kNowhere(std::numeric_limits<double>::quiet_NaN(), 0);

/// Normal numbers; real of real types.
class Normal {
 public:
  Normal(uint64_t seed, ElementType type) : generator_(seed), complex_(is_complex(type)) {}
  Number operator()() { return {normal_(generator_), complex_ ? normal_(generator_) : 0}; }

 private:
  std::mt19937_64 generator_;
  std::normal_distribution<double> normal_;
  bool complex_;
};

/// Positive definite but for the matrices that are to fail, of which one triangle is to be read.
std::vector<Number> positive(int64_t batch, int64_t n, bool lower, int64_t fails, Normal& normal) {
  std::vector<Number> all;
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<Number> g(static_cast<size_t>(n * n));
    for (Number& value : g) value = normal();
    const auto at = [&](int64_t i, int64_t k) { return g[static_cast<size_t>(i * n + k)]; };
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        Number sum = i == j ? static_cast<double>(n) : 0;
        for (int64_t k = 0; k < n; ++k) sum += at(i, k) * std::conj(at(j, k));
        if (i == j && b == fails && i == n / 2) sum = -sum;
        all.push_back((lower ? j > i : j < i) ? kNowhere : sum);
      }
    }
  }
  return all;
}

/// How the module without its operators differs from the interpreter's value of it.
std::string checked(const std::string& text, const std::vector<Literal>& arguments) {
  const ModulePtr module = parsed(text);
  if (!module) return "it does not parse";
  EXPECT_TRUE(has_linear_algebra(*module));
  const auto expanded = expand_linear_algebra(*module);
  if (!expanded) return expanded.error().to_string();
  EXPECT_FALSE(has_linear_algebra(*expanded));
  if (const auto verified = verify(*expanded); !verified) return verified.error().to_string();
  const auto expected = evaluate(*module, arguments);
  const auto actual = evaluate(*expanded, arguments);
  if (!expected || !actual) return (expected ? actual : expected).error().to_string();
  return difference(*actual, *expected, 8, Unit::Array).value_or("");
}

/// Small sizes, and every so often one of several blocks.
int64_t random_size(Random& random, uint64_t seed) {
  return seed % 12 == 0 ? one_of<int64_t>(random, {129, 130, 150}) : one_of<int64_t>(random, {1, 2, 3, 5, 8, 17});
}

TEST(ExpandLinearAlgebra, FactorsAreTheInterpreters) {
  for (uint64_t seed = 1; seed <= 72; ++seed) {
    Random random(seed);
    const std::string type = std::data({"f32", "f64", "c64", "c128", "bf16"})[random.below(5)];
    const int64_t n = random_size(random, seed), batch = one_of<int64_t>(random, {1, 2, 3});
    const bool lower = random.below(2) == 0;
    const std::string shape = fmt::format("{}[{}{},{}]", type, batch == 1 ? "" : fmt::format("{},", batch), n, n);
    const std::string text = fmt::format(
        "HloModule m\nENTRY e {{\n  a = {0} parameter(0)\n  ROOT r "
        "= {0} cholesky(a), lower={1}\n}}\n",
        shape, lower);
    const ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    const Shape operand = module->entry_computation()[0].shape;
    Normal normal(seed, operand.type);
    const int64_t fails = static_cast<int64_t>(random.below(4));  // none of the batch, if it has fewer
    ASSERT_EQ(checked(text, {literal(operand, positive(batch, n, lower, fails, normal))}), "") << seed << text;
  }
}

TEST(ExpandLinearAlgebra, SolutionsAreTheInterpreters) {
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    Random random(seed);
    const std::string type = std::data({"f32", "f64", "c64", "c128", "f16"})[random.below(5)];
    const int64_t n = random_size(random, seed), columns = one_of<int64_t>(random, {1, 2, 7});
    const int64_t batch = one_of<int64_t>(random, {1, 2});
    const bool left = random.below(2) == 0, lower = random.below(2) == 0, unit = random.below(2) == 0;
    const std::string transpose = std::data({"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"})[random.below(3)];
    const std::string text = fmt::format(
        "HloModule m\nENTRY e {{\n  a = {0}[{1},{2},{2}] parameter(0)\n  b = "
        "{0}[{1},{3},{4}] parameter(1)\n  ROOT r = "
        "{0}[{1},{3},{4}] triangular-solve(a, b), left_side={5}, lower={6}, "
        "unit_diagonal={7}, transpose_a={8}\n}}\n",
        type, batch, n, left ? n : columns, left ? columns : n, left, lower, unit, transpose);
    const ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    const Shape a = module->entry_computation()[0].shape, b = module->entry_computation()[1].shape;
    Normal normal(seed, a.type);
    std::vector<Number> matrix, sides;
    for (int64_t at = 0; at < a.element_count(); ++at) {
      const int64_t i = at / n % n, j = at % n;
      const bool read = i == j ? !unit : (lower ? j < i : j > i);
      matrix.push_back(!read ? kNowhere : i == j ? normal() + 4.0 : normal() / static_cast<double>(n));
    }
    for (int64_t at = 0; at < b.element_count(); ++at) sides.push_back(normal());
    ASSERT_EQ(checked(text, {literal(a, matrix), literal(b, sides)}), "") << seed << text;
  }
}

TEST(ExpandLinearAlgebra, LeavesWhatHasNoElements) {
  const ModulePtr module = parsed(
      "HloModule m\nENTRY e {\n  a = f32[3,0,0] parameter(0)\n  ROOT r "
      "= f32[3,0,0] cholesky(a)\n}\n");
  ASSERT_TRUE(module);
  EXPECT_FALSE(has_linear_algebra(*module));
}

std::vector<Literal> values_of(const std::string& text, const std::vector<Literal>& arguments) {
  const ModulePtr module = parsed(text);
  if (!module) return {};
  EXPECT_TRUE(has_solver_calls(*module)) << text;
  EXPECT_TRUE(check_evaluable(*module, module->entry_computation()));
  const auto expanded = expand_solver_calls(*module);
  EXPECT_TRUE(expanded && verify(*expanded));
  const auto value = evaluate(*module, arguments);
  EXPECT_TRUE(value) << value.error().to_string();
  return value ? std::vector<Literal>{value->elements().begin(), value->elements().end()} : std::vector<Literal>();
}

std::string call(const std::string& target, const std::string& operand, const std::string& result,
                 const std::string& config = "") {
  return fmt::format(
      "HloModule m\nENTRY e {{\n  a = {} parameter(0)\n  ROOT r "
      "= {} custom-call(a), custom_call_target=\"{}\"{}\n}}\n",
      operand, result, target, config.empty() ? "" : ", backend_config={" + config + "}");
}

TEST(ExpandSolverCalls, LuIsOfTheMatrixWithItsRowsExchanged) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const std::string type = std::data({"f64", "c128"})[random.below(2)];
    const bool large = seed % 10 == 0;
    const int64_t m = large ? 150 : one_of<int64_t>(random, {1, 2, 5, 9}), batch = one_of<int64_t>(random, {1, 2});
    const int64_t n = large ? one_of<int64_t>(random, {129, 150, 170}) : one_of<int64_t>(random, {1, 3, 5, 9});
    const int64_t steps = std::min(m, n);
    const std::string matrix = fmt::format("{}[{},{},{}]", type, batch, m, n);
    const std::string text =
        call("cusolver_getrf_ffi", matrix, fmt::format("({}, s32[{},{}], s32[{}])", matrix, batch, steps, batch));
    const Shape shape = parsed(text)->entry_computation()[0].shape;
    Normal normal(seed, shape.type);
    std::vector<Number> a;
    for (int64_t i = 0; i < shape.element_count(); ++i) a.push_back(normal());
    const std::vector<Literal> made = values_of(text, {literal(shape, a)});
    ASSERT_EQ(made.size(), 3U);
    const auto lu = numbers(made[0]);
    double worst = 0, largest = 0;
    for (int64_t b = 0; b < batch; ++b) {
      EXPECT_EQ(made[2].get_integer(b), 0);
      const auto at = [&](const std::vector<Number>& of, int64_t i, int64_t j) {
        return of[static_cast<size_t>((b * m + i) * n + j)];
      };
      std::vector<int64_t> row(static_cast<size_t>(m));
      std::iota(row.begin(), row.end(), 0);
      for (int64_t k = 0; k < steps; ++k) {
        const int64_t pivot = made[1].get_integer(b * steps + k) - 1;
        ASSERT_TRUE(pivot >= k && pivot < m);
        std::swap(row[static_cast<size_t>(k)], row[static_cast<size_t>(pivot)]);
      }
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          Number sum = 0;
          for (int64_t k = 0; k <= std::min({i, j, steps - 1}); ++k)
            sum += (k == i ? 1.0 : at(lu, i, k)) * at(lu, k, j);
          worst = std::max(worst, std::abs(sum - at(a, row[static_cast<size_t>(i)], j)));
          if (j < std::min(i, steps)) largest = std::max(largest, std::abs(at(lu, i, j)));
        }
      }
    }
    EXPECT_LT(worst, 1e-10) << text;
    // Pivots are the largest by the sum of the parts' absolute values.
    EXPECT_LE(largest, std::sqrt(2.0) + 1e-12);
  }
}

TEST(ExpandSolverCalls, ReflectorsMultiplyToTheMatrix) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const std::string type = std::data({"f64", "c128"})[random.below(2)];
    const int64_t n = one_of<int64_t>(random, {1, 3, 5, 9}), m = n + one_of<int64_t>(random, {0, 1, 4});
    const int64_t batch = one_of<int64_t>(random, {1, 2});
    const std::string matrix = fmt::format("{}[{},{},{}]", type, batch, m, n);
    const std::string factors = fmt::format("{}[{},{}]", type, batch, n);
    const std::string text = fmt::format(
        "HloModule m\nENTRY e {{\n  a = {0} parameter(0)\n  c = ({0}, {1}) "
        "custom-call(a), "
        "custom_call_target=\"cusolver_geqrf_ffi\"\n  b = {0} "
        "get-tuple-element(c), index=0\n"
        "  f = {1} get-tuple-element(c), index=1\n  q = {0} custom-call(b, f), "
        "custom_call_target=\"cusolver_orgqr_ffi\"\n  ROOT r = ({0}, {0}) "
        "tuple(b, q)\n}}\n",
        matrix, factors);
    const Shape shape = parsed(text)->entry_computation()[0].shape;
    Normal normal(seed, shape.type);
    std::vector<Number> a;
    // Whose squares vanish, or overflow.
    const double scale = one_of<double>(random, {1.0, 1e-200, 1e200});
    for (int64_t i = 0; i < shape.element_count(); ++i) a.push_back(normal() * scale);
    const std::vector<Literal> made = values_of(text, {literal(shape, a)});
    ASSERT_EQ(made.size(), 2U);
    const auto r = numbers(made[0]), q = numbers(made[1]);
    const auto at = [&](const std::vector<Number>& of, int64_t b, int64_t i, int64_t j) {
      return of[static_cast<size_t>((b * m + i) * n + j)];
    };
    double worst = 0;
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t i = 0; i < m; ++i) {
          Number sum = 0;
          for (int64_t k = 0; k <= j; ++k) sum += at(q, b, i, k) * at(r, b, k, j);
          worst = std::max(worst, std::abs((sum - at(a, b, i, j)) / scale));
        }
        for (int64_t k = 0; k < n; ++k) {
          Number sum = 0;
          for (int64_t i = 0; i < m; ++i) sum += std::conj(at(q, b, i, k)) * at(q, b, i, j);
          worst = std::max(worst, std::abs(sum - (j == k ? 1.0 : 0.0)));
        }
        EXPECT_EQ(at(r, b, j, j).imag(), 0);
      }
    }
    EXPECT_LT(worst, 1e-12) << text;
  }
}

TEST(ExpandSolverCalls, TellWhereThereIsNoFactor) {
  const auto singular = parse_value("f32[2,2,2] {{{0, 1}, {0, 2}}, {{1, 2}, {2, 4}}}");
  auto made = values_of(call("cusolver_getrf_ffi", "f32[2,2,2]", "(f32[2,2,2], s32[2,2], s32[2])"), {*singular});
  ASSERT_EQ(made.size(), 3U);
  EXPECT_EQ(print(made[2]), "{1, 2}");
  EXPECT_EQ(print(made[1]), "{ {1, 2}, {2, 2} }");
  const auto matrices = parse_value("f32[2,2,2] {{{4, 7}, {2, 5}}, {{1, 7}, {2, 4}}}");
  made = values_of(call("cusolver_potrf_ffi", "f32[2,2,2]", "(f32[2,2,2], s32[2])", "lower = true"), {*matrices});
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(print(made[0]), "{ { {2, 7}, {1, 2} }, { {nan, 7}, {nan, nan} } }");  // the other triangle stays
  EXPECT_EQ(print(made[1]), "{0, 1}");
  made = values_of(call("cusolver_potrf_ffi", "f32[2,2]", "(f32[2,2], s32[])", "lower = false"),
                   {*parse_value("f32[2,2] {{4, 2}, {7, 5}}")});
  EXPECT_EQ(print(made[0]), "{ {2, 1}, {7, 2} }");
}

TEST(ExpandSolverCalls, ExchangesAreAPermutation) {
  const auto module = parsed(call("cu_lu_pivots_to_permutation", "s32[2,3]", "s32[2,5]"));
  ASSERT_TRUE(module);
  const auto value = evaluate(*module, std::vector{*parse_value("s32[2,3] {{3, 1, 3}, {0, 4, 4}}")});
  ASSERT_TRUE(value) << value.error().to_string();
  EXPECT_EQ(print(*value), "{ {3, 1, 0, 2, 4}, {0, 4, 1, 3, 2} }");
}

TEST(ExpandSolverCalls, ManyExchangesAreAPermutation) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Random random(seed);
    const int64_t batch = one_of<int64_t>(random, {1, 3}), steps = one_of<int64_t>(random, {1, 63, 64, 65, 130, 200});
    const int64_t n = steps + one_of<int64_t>(random, {0, 1, 40});
    const Shape shape = array_shape(ElementType::S32, {batch, steps});
    Literal pivots(shape);
    std::vector<int64_t> expected;
    for (int64_t b = 0; b < batch; ++b) {
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      for (int64_t k = 0; k < steps; ++k) {
        const auto pivot = k + static_cast<int64_t>(random.below(static_cast<uint64_t>(n - k)));
        pivots.set<int64_t>(b * steps + k, pivot);
        std::swap(order[static_cast<size_t>(k)], order[static_cast<size_t>(pivot)]);
      }
      expected.insert(expected.end(), order.begin(), order.end());
    }
    const auto module = parsed(call("cu_lu_pivots_to_permutation", fmt::format("s32[{},{}]", batch, steps),
                                    fmt::format("s32[{},{}]", batch, n)));
    ASSERT_TRUE(module);
    const auto value = evaluate(*module, std::vector{pivots});
    ASSERT_TRUE(value) << value.error().to_string();
    for (int64_t i = 0; i < batch * n; ++i)
      ASSERT_EQ(value->get_integer(i), expected[static_cast<size_t>(i)]) << seed << " " << i;
  }
}

TEST(ExpandSolverCalls, OthersStayRefused) {
  for (const std::string& text :
       {call("cusolver_syevd_ffi", "f32[4,4]", "(f32[4,4], f32[4], s32[])"),                  // which triangle?
        call("cusolver_syevd_ffi", "c64[4,4]", "(c64[4,4], f32[4], s32[])", "lower = true"),  // complex
        call("cusolver_gesvdj_ffi", "f32[4,3]", "(f32[4,3], f32[3], f32[4,3], f32[3,4], s32[])", "compute_uv = true"),
        call("lapack_dpotrf_ffi", "f32[4,4]", "(f32[4,4], s32[])", "uplo = 76 : ui8"),  // of another type
        call("cusolver_geqrf_ffi", "f32[4,3]", "(f32[4,3], f32[4])"),                   // four factors of three columns
        call("cusolver_orgqr_ffi", "f32[4,3]", "f32[4,3]"),                             // of which factors?
        call("cusolver_potrf_ffi", "f32[4,4]", "(f32[4,4], s32[])"),                    // which triangle?
        call("cusolver_potrf_ffi", "f32[4,3]", "(f32[4,3], s32[])", "lower = true"),    // not square
        call("cusolver_getrf_ffi", "f32[4,3]", "(f32[4,3], s32[4], s32[])"),            // four pivots of three columns
        call("cusolver_getrf_ffi", "s32[3,3]", "(s32[3,3], s32[3], s32[])"),            // integers
        call("cu_lu_pivots_to_permutation", "s32[5]", "s32[3]")}) {
    const ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    EXPECT_FALSE(has_solver_calls(*module)) << text;
    const auto checked = check_evaluable(*module, module->entry_computation());
    ASSERT_FALSE(checked) << text;
    EXPECT_THAT(checked.error().to_string(), testing::HasSubstr("does not support custom-call to"));
  }
}

}  // namespace
}  // namespace strata::hlo
