#include "superopt/solver/solver.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "superopt/solver/identities.h"

namespace strata {
namespace {

SolverResult solved(const Pair& pair, const SolverOptions& options = {}) {
  const std::string inputs = expanded(pair.inputs);
  auto result = prove_with_solver(*graph_of(inputs + pair.reference), *graph_of(inputs + pair.candidate), options);
  EXPECT_TRUE(result) << pair.name << ": " << (result ? "" : result.error().to_string());
  return result ? *result : SolverResult{};
}

std::string steps(const SolverResult& result) { return fmt::format("{}", fmt::join(result.steps, "; ")); }

template <size_t n>
auto all(const Pair (&pairs)[n]) {
  return testing::ValuesIn(pairs);
}

class SolverProves : public testing::TestWithParam<Pair> {};
TEST_P(SolverProves, Equivalence) {
  const SolverResult result = solved(GetParam());
  EXPECT_EQ(result.verdict, Verdict::Equivalent) << result.reason << "\n" << steps(result);
  EXPECT_EQ(result.by_normal_form + result.by_cases + result.by_z3, result.entries);
  RecordProperty("argument", result.argument);
}
INSTANTIATE_TEST_SUITE_P(All, SolverProves, all(kEquivalent),
                         [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(Identities, SolverProves, all(kIdentities),
                         [](const auto& test) { return std::string(test.param.name); });

class SolverNeverProves : public testing::TestWithParam<Pair> {};
TEST_P(SolverNeverProves, NearMiss) {
  const SolverResult result = solved(GetParam());
  EXPECT_NE(result.verdict, Verdict::Equivalent) << result.argument << "\n" << steps(result);
}
INSTANTIATE_TEST_SUITE_P(All, SolverNeverProves, all(kNearMisses),
                         [](const auto& test) { return std::string(test.param.name); });

class SolverRefutes : public testing::TestWithParam<Pair> {};
TEST_P(SolverRefutes, NearMiss) {
  const SolverResult result = solved(GetParam());
  ASSERT_EQ(result.verdict, Verdict::Different) << result.reason << "\n" << steps(result);
  ASSERT_TRUE(result.counterexample);
  EXPECT_FALSE(std::fabs(result.counterexample->expected - result.counterexample->found) <= 1e-7);
  EXPECT_FALSE(result.counterexample->inputs.empty());
}
INSTANTIATE_TEST_SUITE_P(All, SolverRefutes, all(kDifferent),
                         [](const auto& test) { return std::string(test.param.name); });

class SolverIgnoresTies : public testing::TestWithParam<Pair> {};
TEST_P(SolverIgnoresTies, SetsWithoutVolume) {
  const SolverResult result = solved(GetParam());
  EXPECT_NE(result.verdict, Verdict::Different) << result.reason << "\n" << steps(result);
}
INSTANTIATE_TEST_SUITE_P(All, SolverIgnoresTies, all(kTies),
                         [](const auto& test) { return std::string(test.param.name); });

/// relu(f) = f for f = a⁸ + … + h⁸ − 8·a·…·h, which is never negative: true, and too hard for Z3.
struct Hard {
  std::string inputs = inputs_of("abcdefgh");
  std::string reference, candidate;

  Hard() {
    std::string f, sum, product;
    for (const char c : std::string("abcdefgh")) {
      f += fmt::format("{0}2 = sqr({0});{0}4 = sqr({0}2);{0}8 = sqr({0}4);", c);
      if (!sum.empty()) f += fmt::format("s{0} = add({1}, {0}8);p{0} = mul({2}, {0});", c, sum, product);
      product = sum.empty() ? "a" : fmt::format("p{}", c);
      sum = sum.empty() ? "a8" : fmt::format("s{}", c);
    }
    f += fmt::format("n = scale({}, factor=8);o = sub({}, n);", product, sum);
    reference = f + "output o";
    candidate = f + "r = relu(o);output r";
  }
  Result<SolverResult> solve(const SolverOptions& options) const {
    return prove_with_solver(*graph_of(inputs + reference), *graph_of(inputs + candidate), options);
  }
};

TEST(Solver, GivesUpInTime) {
  const auto result = Hard().solve({.time_limit = 0.5});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->verdict, Verdict::Undecided);
  EXPECT_THAT(result->reason, testing::HasSubstr("Z3 gives up within 0.5 s"));
}

TEST(Solver, Stops) {
  std::stop_source source;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    source.request_stop();
  });
  // Without a limit only the request ends it.
  const auto result = Hard().solve({.time_limit = 1e6, .stop = source.get_token()});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::Interrupted);
}

TEST(Solver, InterfacesMustAgree) {
  EXPECT_FALSE(prove_with_solver(*graph_of("input x: f32[3];a = relu(x);output a"),
                                 *graph_of("input y: f32[3];a = relu(y);output a")));
}

TEST(Solver, CandidateMustBeDefinedWhereTheReferenceIs) {
  // √x² = x holds where √x is defined, and x is so everywhere: float64 shows it with a negative number.
  const Pair root{"Root", "x", "m = scale(x, factor=1);output m", "r = sqrt(x);m = sqr(r);output m"};
  EXPECT_EQ(solved(root).verdict, Verdict::Different);
  const Pair reversed{"Reversed", "x", root.candidate, root.reference};
  EXPECT_EQ(solved(reversed).verdict, Verdict::Equivalent);
  const Pair quotient{"Quotient", "xy", "m = scale(x, factor=1);output m", "p = mul(x, y);m = div(p, y);output m"};
  EXPECT_EQ(solved(quotient).verdict, Verdict::Equivalent);
  const Pair half{"Half", "xy", "m = scale(x, factor=1);output m", "r = relu(y);p = mul(x, r);m = div(p, r);output m"};
  EXPECT_EQ(solved(half).verdict, Verdict::Different);
}

TEST(Solver, RationalNumbersTellApartWhatRoundingHides) {
  // √x² − x is 0 for x > 0; float64 makes almost 0 of it.
  const Pair root{"Root", "xy", "s = sqr(x);r = sqrt(s);d = sub(r, x);m = select(d, x, y);output m",
                  "m = scale(x, factor=1);output m"};
  const SolverResult result = solved(root);
  ASSERT_EQ(result.verdict, Verdict::Different) << result.reason << steps(result);
  EXPECT_THAT(result.reason, testing::HasSubstr("in exact arithmetic"));
  ASSERT_TRUE(result.counterexample);
  const auto& inputs = result.counterexample->inputs;
  const auto at = static_cast<size_t>(result.counterexample->index[0]);
  EXPECT_GT(inputs[0].second.data[at], 0);
  EXPECT_EQ(result.counterexample->expected, inputs[1].second.data[at]);
  EXPECT_EQ(result.counterexample->found, inputs[0].second.data[at]);
  // At integers alone, and where one of them is undefined.
  const Pair tie{"Tie", "xy", "g = greater(x, y);h = greater(y, x);s = add(g, h);m = mul(s, x);output m",
                 "m = scale(x, factor=1);output m"};
  EXPECT_NE(solved(tie).verdict, Verdict::Different);
  const Pair domain{"Domain", "x",
                    "s = sqr(x);r = sqrt(s);d = sub(r, x);n = scale(x, factor=-1);q = sqrt(n);"
                    "p = mul(q, d);m = mul(p, d);output m",
                    "n = scale(x, factor=-1);q = sqrt(n);c = mul(q, x);e = mul(c, x);m = scale(e, factor=4);output m"};
  EXPECT_NE(solved(domain).verdict, Verdict::Different) << solved(domain).reason;
}

TEST(Solver, LargeProgramsKeepTheirTime) {
  const auto start = std::chrono::steady_clock::now();
  const std::string large = "input x: f32[8192, 4096];";
  const auto relu = prove_with_solver(*graph_of(large + "m = relu(x);output m"),
                                      *graph_of(large + "z = sub(x, x);m = max(x, z);output m"), {.time_limit = 3});
  ASSERT_TRUE(relu);
  EXPECT_EQ(relu->verdict, Verdict::Equivalent) << relu->reason;
  const auto other = prove_with_solver(*graph_of(large + "m = relu(x);output m"),
                                       *graph_of(large + "z = sub(x, x);m = max(z, z);output m"), {.time_limit = 3});
  ASSERT_TRUE(other);
  EXPECT_EQ(other->verdict, Verdict::Different) << other->reason;
  // Sums are executed as they are, and stopped in the middle.
  const auto sums =
      prove_with_solver(*graph_of(large + "r = relu(x);m = sum(r, dim=1);output m"),
                        *graph_of(large + "z = sub(x, x);r = max(x, z);m = sum(r, dim=1);output m"), {.time_limit = 1});
  ASSERT_TRUE(sums);
  EXPECT_NE(sums->verdict, Verdict::Different);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 15);
}

TEST(Solver, NoTimeIsNoDifference) {
  for (const Pair& pair : kEquivalent) {
    const SolverResult result = solved(pair, {.time_limit = 0});
    EXPECT_EQ(result.verdict, Verdict::Undecided) << pair.name;
    EXPECT_FALSE(result.reason.empty());
  }
}

}  // namespace
}  // namespace strata
