#include "superopt/verify/decided.h"

#include <gmock/gmock.h>

#include <cmath>

#include "interpret/interpret.h"
#include "superopt/verify/exponents.h"
#include "superopt/verify/inputs.h"
#include "superopt/verify/lax.h"
#include "superopt/verify/test_graphs.h"
#include "superopt/verify/verify.h"

namespace strata {
namespace {

using testing::HasSubstr;

constexpr const char* kMasked =
    "input x: f32[6, 6];I = iota(dim=0) : f32[6, 1];J = iota(dim=1) : f32[1, 6];"
    "C = iota(dim=0, start=-9, step=0) : f32[1];";

VerifyResult verified(const std::string& reference, const std::string& candidate) {
  const auto result = verify(*graph_of(kMasked + reference), *graph_of(kMasked + candidate));
  EXPECT_TRUE(result) << (result ? "" : result.error().to_string());
  return result ? *result : VerifyResult{};
}

TEST(Decided, MasksOfIotasAreInsideTheLaxFragment) {
  EXPECT_EQ(lax_violation(*graph_of(kMasked + std::string("m = greater(I, J);y = select(m, x, C);output y"))),
            std::nullopt);
  // Of half an integer the field has no order, and what an input decides is no constant.
  for (const char* outside : {"h = scale(I, factor=1/2);m = greater(h, J);y = select(m, x, C);output y",
                              "m = greater(x, J);y = select(m, I, C);output y", "y = select(x, I, J);output y"}) {
    EXPECT_THAT(lax_violation(*graph_of(kMasked + std::string(outside))).value_or(""), HasSubstr("outside"));
  }
}

TEST(Decided, MasksAreComparedExactly) {
  const std::string causal = "m = greater(J, I);y = select(m, C, x);output y";
  // j > i, or not i + 1 > j.
  EXPECT_EQ(verified(causal, "p = add_constant(I, value=1);m = greater(p, J);y = select(m, x, C);output y").verdict,
            Verdict::Equivalent);
  EXPECT_EQ(verified(causal, "m = greater(I, J);y = select(m, C, x);output y").verdict, Verdict::Different);
  // A query more, or one less.
  for (const char* off : {"p = add_constant(I, value=1);m = greater(J, p);y = select(m, C, x);output y",
                          "p = add_constant(I, value=-1);m = greater(J, p);y = select(m, C, x);output y"}) {
    EXPECT_EQ(verified(causal, off).verdict, Verdict::Different);
  }
}

TEST(Decided, WindowsAreProductsOfMasks) {
  const std::string window =
      "m = greater(J, I);d = sub(I, J);w = iota(dim=0, start=3, step=0) : f32[1];f = greater(d, w);"
      "a = add(m, f);e = select(a, C, x);s = exp(e);y = sum(s, dim=1);output y";
  const auto other = [](const char* least) {
    return fmt::format(
        "p = add_constant(I, value=1);m = greater(p, J);q = add_constant(J, value={});n = greater(q, I);"
        "w = iota(dim=0, start=3, step=0) : f32[1];u = sub(w, w);v = mul(m, n);b = add(v, u);e = select(b, x, C);"
        "s = exp(e);y = sum(s, dim=1);output y",
        least);
  };
  const VerifyResult same = verified(window, other("4"));
  EXPECT_EQ(same.verdict, Verdict::Equivalent) << same.reason;
  EXPECT_LE(same.error_bound, 1e-12);
  EXPECT_EQ(verified(window, other("5")).verdict, Verdict::Different);
}

// A constant is masked by: its exponential is a power of the random root, and independent of those of scores.
TEST(Decided, ExponentsMayBeConstants) {
  const VerifyResult result = verified(
      "m = greater(J, I);e = select(m, C, x);s = exp(e);t = sum(s, dim=1);y = div(s, t);output y",
      "m = greater(J, I);e = select(m, C, x);r = reduce_max(e, dim=1);d = sub(e, r);s = exp(d);t = sum(s, dim=1);"
      "y = div(s, t);output y");
  EXPECT_EQ(result.verdict, Verdict::Equivalent) << result.reason;
  EXPECT_THAT(result.argument, HasSubstr("independent exponents"));
}

// Multiples of one exponent are dependent, and a smaller shape has fewer: what shrinks with masks says nothing of them.
TEST(Decided, PositionsAsFactorsOfExponentsAreNoMasks) {
  EXPECT_TRUE(only_hides_exponents(*graph_of(
      kMasked +
      std::string("m = greater(J, I);e = select(m, C, x);s = exp(e);n = mul(s, m);y = sum(n, dim=1);output y"))));
  for (const char* counted : {"a = mul(x, J);y = exp(a);output y", "a = add(x, I);y = exp(a);output y",
                              "m = greater(J, I);a = mul(x, m);y = exp(a);output y",
                              "m = greater(J, I);a = sqr(x);e = select(m, x, a);y = exp(e);output y"})
    EXPECT_FALSE(only_hides_exponents(*graph_of(kMasked + std::string(counted)))) << counted;
  const VerifyResult result = verified("u = sum(x, dim=1);a = mul(u, J);s = exp(a);y = sum(s, dim=1);output y",
                                       "u = sum(x, dim=1);a = mul(J, u);s = exp(a);y = sum(s, dim=1);output y");
  EXPECT_NE(result.verdict, Verdict::Different);
  EXPECT_THAT(result.argument, testing::Not(HasSubstr("independent exponents")));
}

// At shrunk shapes the masks hide all that they hide at all: exponents of which one is the other's double, and two
// constants of which one is the other's multiple.
TEST(Decided, WhatSmallMasksHideMustBeIndependentToo) {
  const std::string many =
      "input x: f32[64, 4];I = iota(dim=0) : f32[64, 1];C = iota(dim=0, start=9, step=0) : f32[1];"
      "D = iota(dim=0, start=18, step=0) : f32[1];L = iota(dim=0, start=40, step=0) : f32[1];"
      "m = greater(I, L);";
  const auto independent = [&](const std::string& statements) {
    const GraphPtr graph = graph_of(many + statements);
    EXPECT_TRUE(only_hides_exponents(*graph));
    return exponents_independent(*graph, *graph, kVerifierPrimes, 1);
  };
  EXPECT_TRUE(independent("a = select(m, x, C);e = exp(a);y = sum(e, dim=1);output y"));
  EXPECT_FALSE(independent(
      "d = add(x, x);a = select(m, x, C);b = select(m, d, C);e = exp(a);f = exp(b);y = add(e, f);output y"));
  EXPECT_FALSE(independent("a = select(m, C, x);b = select(m, D, x);e = exp(a);f = exp(b);y = add(e, f);output y"));
}

TEST(Decided, MasksMayShowOrHideAll) {
  const GraphPtr graph = graph_of(kMasked + std::string("m = greater(J, I);a = select(m, C, x);y = exp(a);output y"));
  const auto shown = with_masks(*graph, Masks::Show), hidden = with_masks(*graph, Masks::Hide);
  ASSERT_TRUE(shown && hidden);
  Float64Arithmetic arithmetic;
  const std::vector<Tensor<double>> inputs{Tensor<double>({6, 6}, std::vector<double>(36, 2.0))};
  EXPECT_EQ(execute(**shown, arithmetic, inputs)->front().data, std::vector<double>(36, std::exp(2.0)));
  EXPECT_EQ(execute(**hidden, arithmetic, inputs)->front().data, std::vector<double>(36, std::exp(-9.0)));
}

TEST(Decided, OffsetsOfTilesCount) {
  const GraphPtr program = load_program("causal");
  const GraphPtr online = load_data("causal_online");
  const auto right = verify(*program, *online);
  ASSERT_TRUE(right) << right.error().to_string();
  EXPECT_EQ(right->verdict, Verdict::Equivalent) << right->reason;
  EXPECT_LE(right->error_bound, 1e-12) << right->argument;
  EXPECT_LE(right->tests, 4) << right->argument;
  EXPECT_TRUE(Screen(program, 1).passes(*online));
  const auto wrong = verify(*program, *load_data("causal_wrong"));
  ASSERT_TRUE(wrong) << wrong.error().to_string();
  EXPECT_EQ(wrong->verdict, Verdict::Different) << wrong->reason;
  EXPECT_FALSE(Screen(program, 1).passes(*load_data("causal_wrong")));
}

// Whose elements are known is matched by these, whatever its name: tests/adversary has many such pairs.
TEST(Decided, ProgramsHaveIotasOfTheirOwn) {
  const auto answer = [](const std::string& reference, const std::string& candidate) {
    const auto result =
        verify(*graph_of("input x: f32[6, 6];" + reference), *graph_of("input x: f32[6, 6];" + candidate));
    EXPECT_TRUE(result) << (result ? "" : result.error().to_string());
    return result ? result->verdict : Verdict::Undecided;
  };
  const std::string causal =
      "I = iota(dim=0) : f32[6, 1];J = iota(dim=1) : f32[1, 6];m = greater(J, I);y = mul(x, m);output y";
  EXPECT_EQ(answer(causal,
                   "J = iota(dim=0) : f32[6, 1];I = iota(dim=1) : f32[1, 6];m = greater(I, J);y = mul(x, m);output y"),
            Verdict::Equivalent);
  EXPECT_EQ(answer(causal,
                   "J = iota(dim=0) : f32[6, 1];I = iota(dim=1) : f32[1, 6];m = greater(J, I);y = mul(x, m);output y"),
            Verdict::Different);
  // A name of one program's iota may be that of a tensor that the other computes, and either may have none.
  EXPECT_EQ(answer("m = iota(dim=0) : f32[6, 1];y = sub(m, m);z = add(y, x);output z",
                   "m = sub(x, x);y = add(m, x);output y"),
            Verdict::Equivalent);
  EXPECT_EQ(answer("y = scale(x, factor=1);output y", "m = iota(dim=0) : f32[6, 1];y = add(m, x);output y"),
            Verdict::Different);
  // An argument is no iota, whatever it is called.
  const auto unlike = verify(*graph_of("input x: f32[6];I = iota(dim=0) : f32[6];y = add(x, I);output y"),
                             *graph_of("input x: f32[6];input I: f32[6];y = add(x, I);output y"));
  ASSERT_FALSE(unlike);
  EXPECT_THAT(unlike.error().message, HasSubstr("1 and 2 inputs"));
}

TEST(Decided, ReplacementsReadTheProgramsIotas) {
  const GraphPtr program = graph_of("input x: f32[6];I = iota(dim=0) : f32[6];y = add(x, I);output y");
  const GraphPtr other = graph_of("input x: f32[6];I = iota(dim=0, start=1) : f32[6];y = add(x, I);output y");
  EXPECT_TRUE(check_interface(*program, *other));
  EXPECT_TRUE(check_replacement(*program, *program));
  const auto refused = check_replacement(*program, *other);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("start=1"));
}

// At full shape, by tiles: masks of iotas that begin elsewhere.
TEST(Decided, TilesOfOtherIotasAreTheSameMask) {
  const GraphPtr program = load_program("causal");
  std::string online = print(*load_data("causal_online"));
  const auto with = [&](const char* queries, const char* keys) {
    std::string text = online;
    const auto replace = [&](std::string_view from, const std::string& to) {
      const size_t at = text.find(from);
      ASSERT_NE(at, std::string::npos) << text;
      text.replace(at, from.size(), to);
    };
    replace("I = iota(dim=0)", fmt::format("I = iota(dim=0{})", queries));
    replace("J = iota(dim=1)", fmt::format("J = iota(dim=1{})", keys));
    const auto result = verify(*program, *parse_graph(text).value());
    EXPECT_TRUE(result) << (result ? "" : result.error().to_string());
    return result ? result->verdict : Verdict::Undecided;
  };
  EXPECT_EQ(with(", start=-7", ", start=-7"), Verdict::Equivalent);
  EXPECT_EQ(with(", start=1, step=2", ", step=2"), Verdict::Equivalent);
  EXPECT_EQ(with(", start=1", ""), Verdict::Different);
  EXPECT_EQ(with("", ", start=1"), Verdict::Different);
}

}  // namespace
}  // namespace strata
