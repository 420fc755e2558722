// What keeps the verifier from accepting programs that differ: certificates of roots, signs, domains, primes, and the
// second opinion in float64. tests/adversary has many more pairs.
#include <gmock/gmock.h>

#include "superopt/verify/domains.h"
#include "superopt/verify/positive.h"
#include "superopt/verify/reals.h"
#include "superopt/verify/roots.h"
#include "superopt/verify/test_graphs.h"
#include "superopt/verify/verify.h"

namespace strata {
namespace {

bool independent(const std::string& text) {
  const auto result = roots_independent(*graph_of(text), kVerifierPrimes, 1);
  EXPECT_TRUE(result) << result.error().to_string();
  return result && *result;
}

TEST(RootsIndependent, WhereEachEntryHasASliceOfItsOwn) {
  for (const char* name : {"rmsnorm", "qknorm"}) {
    EXPECT_TRUE(*roots_independent(*load_program(name), kVerifierPrimes, 1)) << name;
  }
  EXPECT_TRUE(independent("input x: f32[3];input y: f32[3];a = sqrt(x);b = sqrt(y);c = mul(a, b);output c"));
}

TEST(RootsIndependent, NotOfSquaresNorOfWhatSharesItsInputs) {
  EXPECT_FALSE(independent("input x: f32[3];s = sqr(x);a = sqrt(s);output a"));
  EXPECT_FALSE(independent("input x: f32[3];input y: f32[3];z = add(x, y);s = sqr(z);a = sqrt(s);output a"));
  EXPECT_FALSE(
      independent("input x: f32[3];z = add_constant(x, value=1);a = sqrt(x);b = sqrt(z);c = mul(a, b);output c"));
  // One entry of the argument is a square.
  EXPECT_FALSE(independent(
      "input x: f32[2];h = slice(x, dim=0, start=0, size=1);t = slice(x, dim=0, start=1, size=1);s = sqr(h);"
      "u = concat(s, t, dim=0);a = sqrt(u);output a"));
  // The rows of x are those of both dimensions of the argument.
  EXPECT_FALSE(independent("input x: f32[3, 2];t = transpose(x, perm=[1, 0]);u = matmul(x, t);a = sqrt(u);output a"));
}

TEST(RootsIndependent, CountsThoseInReach) {
  EXPECT_EQ(roots_in_entry(*graph_of("input x: f32[4, 8];s = sqr(x);r = sqrt(s);output r")), 1);
  EXPECT_EQ(roots_in_entry(*graph_of("input x: f32[4, 8];s = sqr(x);r = sqrt(s);t = sum(r, dim=1);output t")), 8);
  EXPECT_EQ(roots_in_entry(*graph_of("input x: f32[4];a = sqrt(x);b = rsqrt(x);c = add(a, b);output c")), 1);
}

TEST(Positive, IsSeenFromOperators) {
  const auto sign = [](const char* text) {
    const GraphPtr graph = graph_of(text);
    return signs_of(*graph,
                    std::vector<Sign>(graph->inputs().size(), Sign::Unknown))[static_cast<size_t>(graph->outputs()[0])];
  };
  EXPECT_EQ(sign("input x: f32[2, 2];e = exp(x);s = sum(e, dim=1);output s"), Sign::Positive);
  EXPECT_EQ(sign("input x: f32[2, 2];e = mul(x, x);s = sum(e, dim=1);output s"), Sign::NonNegative);
  EXPECT_EQ(sign("input x: f32[2, 2];e = sqr(x);s = add_constant(e, value=1/8);output s"), Sign::Positive);
  EXPECT_EQ(sign("input x: f32[2, 2];e = sqr(x);s = scale(e, factor=-1);output s"), Sign::Unknown);
  EXPECT_EQ(sign("input x: f32[2, 2];input y: f32[2, 2];e = mul(x, y);output e"), Sign::Unknown);
}

TEST(Domains, QuotientsBySelectedValuesAreSeen) {
  EXPECT_TRUE(divides_by_selected(
      *graph_of("input x: f32[3];input y: f32[3];m = max(x, y);d = sub(m, x);q = div(y, d);output q"), nullptr));
  EXPECT_FALSE(divides_by_selected(*graph_of("input x: f32[2, 4];m = reduce_max(x, dim=1);t = sub(x, m);e = exp(t);"
                                             "s = sum(e, dim=1);q = div(e, s);output q"),
                                   nullptr));
}

bool refuted(const std::string& reference, const std::string& candidate) {
  const auto difference = difference_over_reals(*graph_of(reference), *graph_of(candidate));
  EXPECT_TRUE(difference) << difference.error().to_string();
  return difference && difference->has_value();
}

TEST(Reals, RefuteWhatDiffersOnARegion) {
  EXPECT_TRUE(
      refuted("input x: f32[3];y = scale(x, factor=1);output y", "input x: f32[3];s = sqr(x);y = sqrt(s);output y"));
  EXPECT_TRUE(
      refuted("input x: f32[3];y = relu(x);output y",
              "input x: f32[3];a = relu(x);b = add_constant(x, value=-700);c = relu(b);y = add(a, c);output y"));
  // 0/0 on half of the line.
  EXPECT_TRUE(refuted("input x: f32[3];y = scale(x, factor=1);output y",
                      "input x: f32[3];a = relu(x);b = div(a, a);y = mul(b, x);output y"));
}

TEST(Reals, RefuteWhereAnExponentialIsExactlyZero) {
  for (const char* f : {"silu", "gelu"}) {
    EXPECT_TRUE(refuted(fmt::format("input x: f32[3];a = relu(x);y = {}(a);output y", f),
                        fmt::format("input x: f32[3];y = {}(x);output y", f)))
        << f;
    const std::string zero = fmt::format("input x: f32[3];input z: f32[3];a = sub(x, x);b = {}(a);", f);
    EXPECT_TRUE(refuted(zero + "y = max(b, x);output y", zero + "y = max(b, z);output y")) << f;
    EXPECT_TRUE(refuted(zero + "y = exp(b);output y", zero + "c = exp(b);y = sub(c, x);output y")) << f;
  }
}

TEST(Reals, DoNotRefuteZerosByUnderflow) {
  // x / x, except for 0 / 0 where float64 underflows.
  for (const char* f : {"silu", "gelu"}) {
    EXPECT_FALSE(refuted("input x: f32[3];a = sub(x, x);y = exp(a);output y",
                         fmt::format("input x: f32[3];s = scale(x, factor=900);a = {}(s);y = div(a, a);output y", f)))
        << f;
  }
}

TEST(Reals, DoNotRefuteRoundingTiesAndOverflow) {
  const char* same = "input x: f32[3];y = scale(x, factor=1);output y";
  EXPECT_FALSE(refuted(
      same,
      "input x: f32[3];a = add_constant(x, value=1000000000000);y = add_constant(a, value=-1000000000000);output y"));
  EXPECT_FALSE(refuted("input x: f32[3];input y: f32[3];z = sub(x, x);s = mul(y, z);output s",
                       "input x: f32[3];input y: f32[3];t = scale(x, factor=1/3);u = scale(t, factor=3);"
                       "g = greater(u, x);h = greater(x, u);d = add(g, h);s = mul(y, d);output s"));
  EXPECT_FALSE(
      refuted("input x: f32[3];input y: f32[3];g = greater(x, y);output g",
              "input x: f32[3];input y: f32[3];h = greater(y, x);z = sub(x, x);e = exp(z);g = sub(e, h);output g"));
  EXPECT_FALSE(refuted(same,
                       "input x: f32[3];a = scale(x, factor=900);e = exp(a);b = scale(a, factor=-1);f = exp(b);"
                       "g = mul(e, f);y = mul(g, x);output y"));
}

/// The answer must not depend on luck: one and the same for every seed.
void expect_never_equivalent(const std::string& reference, const std::string& candidate) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto result = verify(*graph_of(reference), *graph_of(candidate), {.seed = seed});
    ASSERT_TRUE(result) << result.error().to_string();
    EXPECT_NE(result->verdict, Verdict::Equivalent) << candidate << "\n" << result->argument;
  }
}

TEST(Soundness, SignsOfManyRoots) {
  std::string product = "input X: f32[4];input Y: f32[4];";
  std::string last;
  for (int j = 0; j < 10; ++j) {
    product +=
        fmt::format("a{0} = add_constant(X, value=-{0});s{0} = sqr(a{0});r{0} = sqrt(s{0});f{0} = sub(r{0}, a{0});", j);
    if (j > 0) product += fmt::format("p{0} = mul({1}, f{0});", j, last);
    last = j == 0 ? "f0" : fmt::format("p{}", j);
  }
  expect_never_equivalent("input X: f32[4];input Y: f32[4];z = sub(X, X);O = add(Y, z);output O",
                          product + fmt::format("O = add(Y, {});output O", last));
}

TEST(Soundness, MultiplesOfThePrimesOfOtherDays) {
  // p = 2305843009207177439 by doubling and adding.
  std::string text = "input X: f32[4];d0 = scale(X, factor=1);";
  std::string sum;
  for (int bit = 0; bit < 61; ++bit) {
    if (kVerifierPrimes.p >> bit & 1) {
      const std::string next = fmt::format("t{}", bit);
      text += sum.empty() ? fmt::format("{} = scale(d{}, factor=1);", next, bit)
                          : fmt::format("{} = add({}, d{});", next, sum, bit);
      sum = next;
    }
    text += fmt::format("d{} = add(d{}, d{});", bit + 1, bit, bit);
  }
  expect_never_equivalent("input X: f32[4];O = sub(X, X);output O",
                          text + fmt::format("O = scale({}, factor=1);output O", sum));
}

TEST(Soundness, DomainsThatChanceMayHide) {
  expect_never_equivalent("input X: f32[1];input Y: f32[1];input Z: f32[1];O = scale(Z, factor=1);output O",
                          "input X: f32[1];input Y: f32[1];input Z: f32[1];m = max(X, Y);d = sub(m, X);a = mul(Z, d);"
                          "O = div(a, d);output O");
}

}  // namespace
}  // namespace strata
