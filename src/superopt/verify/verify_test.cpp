#include "superopt/verify/verify.h"

#include <gmock/gmock.h>

#include <cmath>

#include "superopt/verify/lax.h"
#include "superopt/verify/test_graphs.h"
#include "support/test_rounds.h"

namespace strata {
namespace {

VerifyResult verified(const GraphPtr& reference, const GraphPtr& candidate, const VerifyOptions& options = {}) {
  auto result = verify(*reference, *candidate, options);
  EXPECT_TRUE(result) << (result ? "" : result.error().to_string());
  return result ? *result : VerifyResult{};
}

VerifyResult verified(const std::string& reference, const std::string& candidate, const VerifyOptions& options = {}) {
  return verified(graph_of(reference), graph_of(candidate), options);
}

class KnownEquivalents : public testing::TestWithParam<KnownPair> {};

TEST_P(KnownEquivalents, AreProvedAtFullShapeAndPassTheScreen) {
  const GraphPtr program = load_program(GetParam().program);
  const GraphPtr graph = load_data(GetParam().graph);
  const VerifyResult result = verified(program, graph);
  EXPECT_EQ(result.verdict, Verdict::Equivalent) << result.reason;
  EXPECT_LE(result.error_bound, 1e-12) << result.argument;
  EXPECT_LE(result.tests, 4) << result.argument;
  EXPECT_TRUE(Screen(program, 1).passes(*graph));
}

INSTANTIATE_TEST_SUITE_P(Programs, KnownEquivalents, testing::ValuesIn(kKnownPairs),
                         [](const auto& test) { return std::string(test.param.graph); });

TEST(Verify, RefutesThePublishedWrongAttention) {
  const GraphPtr program = load_program("qknorm");
  const GraphPtr graph = load_data("qknorm_wrong");
  const VerifyResult result = verified(program, graph);
  EXPECT_EQ(result.verdict, Verdict::Different) << result.reason;
  ASSERT_TRUE(result.counterexample);
  EXPECT_EQ(result.counterexample->output, "O");
  EXPECT_EQ(result.counterexample->index.size(), 3u);
  EXPECT_NE(result.counterexample->expected, result.counterexample->found);
  EXPECT_FALSE(Screen(program, 1).passes(*graph));
}

struct Identity {
  const char* reference;
  const char* candidate;
  Verdict verdict;
};

const Identity kIdentities[] = {
    {"input x: f32[3];input y: f32[3];a = exp(x);b = exp(y);c = mul(a, b);output c",
     "input x: f32[3];input y: f32[3];a = add(x, y);c = exp(a);output c", Verdict::Equivalent},
    {"input x: f32[3];input y: f32[3];a = exp(x);b = exp(y);c = mul(a, b);output c",
     "input x: f32[3];input y: f32[3];a = mul(x, y);c = exp(a);output c", Verdict::Different},
    {"input x: f32[3];input y: f32[3];a = exp(x);b = exp(y);c = div(a, b);output c",
     "input x: f32[3];input y: f32[3];a = sub(x, y);c = exp(a);output c", Verdict::Equivalent},
    {"input x: f32[3];a = silu(x);output a",
     "input x: f32[3];a = scale(x, factor=-1);e = exp(a);m = exp(x);o = mul(e, m);d = add(o, e);c = div(x, d);output c",
     Verdict::Equivalent},
    {"input x: f32[3];a = exp(x);b = sqr(a);output b", "input x: f32[3];a = scale(x, factor=2);b = exp(a);output b",
     Verdict::Equivalent},
    {"input x: f32[3];a = exp(x);b = sqrt(a);output b", "input x: f32[3];a = scale(x, factor=1/2);b = exp(a);output b",
     Verdict::Equivalent},
    // Roots: rules that move them across products, and those that use √x · √x = x.
    {"input x: f32[3];input y: f32[3];a = sqrt(x);b = sqrt(y);c = mul(a, b);output c",
     "input x: f32[3];input y: f32[3];a = mul(x, y);c = sqrt(a);output c", Verdict::Equivalent},
    {"input x: f32[3];a = sqrt(x);b = div(x, a);output b", "input x: f32[3];b = sqrt(x);output b", Verdict::Equivalent},
    {"input x: f32[3];input y: f32[3];a = rsqrt(x);b = sqr(a);c = mul(b, y);output c",
     "input x: f32[3];input y: f32[3];c = div(y, x);r = sqrt(x);s = mul(c, r);t = div(s, r);output t",
     Verdict::Equivalent},
    {"input x: f32[3];a = scale(x, factor=4/9);b = sqrt(a);output b",
     "input x: f32[3];a = sqrt(x);b = scale(a, factor=2/3);output b", Verdict::Equivalent},
    {"input x: f32[3];a = scale(x, factor=2);b = scale(x, factor=3);c = sqrt(a);d = sqrt(b);e = mul(c, d);output e",
     "input x: f32[3];a = scale(x, factor=6);r = sqrt(a);s = sqrt(x);e = mul(r, s);output e", Verdict::Equivalent},
    {"input x: f32[3];a = sqr(x);b = sqrt(a);output b", "input x: f32[3];s = scale(x, factor=1);output s",
     Verdict::Different},  // |x|
    {"input x: f32[3];input y: f32[3];a = sqr(x);b = mul(a, y);c = sqrt(b);output c",
     "input x: f32[3];input y: f32[3];b = sqrt(y);c = mul(x, b);output c", Verdict::Different},  // |x| √y
    // Structured data would hide these: equal inputs, inputs affine in the index, constant rows.
    {"input x: f32[2, 2];input y: f32[2, 2];a = matmul(x, y);output a",
     "input x: f32[2, 2];input y: f32[2, 2];a = matmul(y, x);output a", Verdict::Different},
    {"input x: f32[2, 2];input y: f32[2, 2];a = matmul(x, y);output a",
     "input x: f32[2, 2];input y: f32[2, 2];t = transpose(y, perm=[1, 0]);a = matmul(x, t);output a",
     Verdict::Different},
    {"input x: f32[2, 4];e = exp(x);s = sum(e, dim=1);a = div(e, s);output a",
     "input x: f32[2, 4];e = exp(x);s = sum(e, dim=0);a = div(e, s);output a", Verdict::Different},
    {"input x: f32[2, 4];input y: f32[1, 4];z = add(x, y);e = exp(z);s = sum(e, dim=1);a = div(e, s);output a",
     "input x: f32[2, 4];input y: f32[1, 4];e = exp(x);s = sum(e, dim=1);a = div(e, s);r = sub(y, y);b = add(a, r);"
     "output b",
     Verdict::Different},
    // A constant that the field's sizes know: 4 · y + Σ x.
    {"input x: f32[2, 4];input y: f32[2, 1];z = add(x, y);s = sum(z, dim=1);output s",
     "input x: f32[2, 4];input y: f32[2, 1];s = sum(x, dim=1);z = scale(y, factor=4);o = add(s, z);output o",
     Verdict::Equivalent},
    // conv2d is linear in the image and in the filter; one by one it is a matrix product.
    {"input x: f32[2, 3, 5, 4];input v: f32[4, 3, 2, 2];input w: f32[4, 3, 2, 2];a = conv2d(x, v, stride=2);"
     "b = conv2d(x, w, stride=2);c = add(a, b);output c",
     "input x: f32[2, 3, 5, 4];input v: f32[4, 3, 2, 2];input w: f32[4, 3, 2, 2];u = add(v, w);"
     "c = conv2d(x, u, stride=2);output c",
     Verdict::Equivalent},
    {"input x: f32[2, 3, 4, 4];input y: f32[2, 3, 4, 4];input w: f32[4, 3, 3, 3];a = conv2d(x, w, padding=1);"
     "b = conv2d(y, w, padding=1);c = sub(a, b);output c",
     "input x: f32[2, 3, 4, 4];input y: f32[2, 3, 4, 4];input w: f32[4, 3, 3, 3];z = sub(x, y);"
     "c = conv2d(z, w, padding=1);output c",
     Verdict::Equivalent},
    {"input x: f32[2, 3, 4, 5];input w: f32[4, 3, 1, 1];c = conv2d(x, w);output c",
     "input x: f32[2, 3, 4, 5];input w: f32[4, 3, 1, 1];v = reshape(w, shape=[4, 3]);y = reshape(x, shape=[2, 3, 20]);"
     "p = matmul(v, y);c = reshape(p, shape=[2, 4, 4, 5]);output c",
     Verdict::Equivalent},
    {"input x: f32[2, 4, 4, 4];input w: f32[4, 4, 1, 1];c = conv2d(x, w);output c",
     "input x: f32[2, 4, 4, 4];input w: f32[4, 4, 1, 1];v = reshape(w, shape=[4, 4]);y = reshape(x, shape=[2, 4, 16]);"
     "t = transpose(v, perm=[1, 0]);p = matmul(t, y);c = reshape(p, shape=[2, 4, 4, 4]);output c",
     Verdict::Different},
    {"input x: f32[2, 3, 5, 5];input w: f32[4, 3, 3, 3];c = conv2d(x, w, stride=2, padding=1);output c",
     "input x: f32[2, 3, 5, 5];input w: f32[4, 3, 3, 3];c = conv2d(x, w);output c", Verdict::Different},
    {"input x: f32[2, 3, 4, 4];input w: f32[3, 3, 2, 2];a = conv2d(x, w);s = sqr(a);output s",
     "input x: f32[2, 3, 4, 4];input w: f32[3, 3, 2, 2];y = sqr(x);v = sqr(w);s = conv2d(y, v);output s",
     Verdict::Different},
    {"input x: f32[1, 2, 4, 4];input w: f32[2, 2, 3, 3];a = conv2d(x, w, padding=1);b = conv2d(a, w, padding=1);"
     "output b",
     "input x: f32[1, 2, 4, 4];input w: f32[2, 2, 3, 3];a = conv2d(x, w, padding=1);s = scale(a, factor=2);"
     "b = conv2d(s, w, padding=1);output b",
     Verdict::Different},
    // gelu exponentiates a cubic: a random function stands for it, and differences show.
    {"input x: f32[3];input w: f32[3];a = mul(x, w);b = gelu(a);output b",
     "input x: f32[3];input w: f32[3];a = mul(w, x);b = gelu(a);output b", Verdict::Equivalent},
    {"input x: f32[3];a = gelu(x);b = scale(a, factor=2);output b",
     "input x: f32[3];a = scale(x, factor=2);b = gelu(a);output b", Verdict::Different},
};

TEST(Verify, DecidesIdentities) {
  for (const Identity& identity : kIdentities) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const VerifyResult result = verified(identity.reference, identity.candidate, {.seed = seed});
      EXPECT_EQ(result.verdict, identity.verdict) << identity.reference << "\n"
                                                  << identity.candidate << "\n"
                                                  << result.reason << "\n"
                                                  << result.argument;
    }
    // The screen draws one sample, which a wrong sign may survive.
    const GraphPtr reference = graph_of(identity.reference);
    if (identity.verdict == Verdict::Different && takes_roots(*reference)) continue;
    const bool passes = Screen(reference, 1).passes(*graph_of(identity.candidate));
    EXPECT_EQ(passes, identity.verdict != Verdict::Different) << identity.reference << "\n" << identity.candidate;
  }
}

TEST(Verify, NeverRefutesWhatOnlyPositivityMakesEqual) {
  // √((Σ x²)²) = Σ x² because sums of squares are positive, which no finite field knows.
  const char* reference = "input x: f32[4, 3];a = sqr(x);b = sum(a, dim=1);output b";
  const char* candidate = "input x: f32[4, 3];a = sqr(x);b = sum(a, dim=1);c = sqr(b);d = sqrt(c);output d";
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    EXPECT_EQ(verified(reference, candidate, {.seed = seed}).verdict, Verdict::Undecided);
    EXPECT_EQ(verified(candidate, reference, {.seed = seed}).verdict, Verdict::Undecided);
  }
  EXPECT_TRUE(Screen(graph_of(reference), 1).passes(*graph_of(candidate)));
}

TEST(Verify, ExecutesWhatIsOutsideTheFragmentAsRandomFunctions) {
  const char* two = "input x: f32[3];a = exp(x);b = exp(a);output b";
  const char* relu = "input x: f32[3];a = relu(x);output a";
  const char* silu = "input x: f32[3];a = exp(x);b = silu(a);output b";
  for (const char* text : {two, relu, silu}) {
    EXPECT_TRUE(lax_violation(*graph_of(text))) << text;
    const VerifyResult result = verified(text, text);
    EXPECT_EQ(result.verdict, Verdict::Equivalent) << text << result.reason;
    EXPECT_THAT(result.argument, testing::HasSubstr("random functions"));
  }
  EXPECT_FALSE(lax_violation(*load_data("gqa_fused")));
  // What only the operator's own laws show is left undecided, and what is wrong is never accepted.
  EXPECT_EQ(verified("input x: f32[3];a = relu(x);b = scale(a, factor=2);output b",
                     "input x: f32[3];a = scale(x, factor=2);b = relu(a);output b")
                .verdict,
            Verdict::Undecided);
  EXPECT_EQ(verified("input x: f32[3];a = relu(x);output a", "input x: f32[3];a = gelu(x);output a").verdict,
            Verdict::Undecided);
}

TEST(Verify, MatchesInputsByName) {
  const char* reference = "input x: f32[2, 3];input y: f32[3, 2];a = matmul(x, y);output a";
  const char* swapped = "input y: f32[3, 2];input x: f32[2, 3];a = matmul(x, y);output a";
  EXPECT_EQ(verified(reference, swapped).verdict, Verdict::Equivalent);
  EXPECT_TRUE(Screen(graph_of(reference), 1).passes(*graph_of(swapped)));
  const GraphPtr other = graph_of("input x: f32[2, 3];input z: f32[3, 2];a = matmul(x, z);output a");
  auto result = verify(*graph_of(reference), *other);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, testing::HasSubstr("'y'"));
}

TEST(Verify, RepeatsFromItsSeedAndStops) {
  const GraphPtr program = load_program("lora");
  const GraphPtr graph = graph_of(
      "input X: f16[16, 256];input W: f16[256, 4096];input A: f16[256, 16];input B: f16[16, 4096];"
      "XW = matmul(X, W);XA = matmul(X, A);XAB = matmul(XA, B);O = sub(XW, XAB);output O");
  const VerifyResult once = verified(program, graph, {.seed = 7});
  const VerifyResult again = verified(program, graph, {.seed = 7});
  ASSERT_TRUE(once.counterexample && again.counterexample);
  EXPECT_EQ(once.counterexample->found, again.counterexample->found);
  std::stop_source source;
  source.request_stop();
  auto stopped = verify(*program, *graph, {.stop = source.get_token()});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::Interrupted);
}

/// Pairs that differ, with small fields: one test must accept them no more often than its bound says. `least` is a
/// lower limit on the rate, so that the experiment is known to see acceptances at all.
struct Acceptance {
  const char* reference;
  const char* candidate;
  double least;
};

const Acceptance kAcceptances[] = {
    {"input x: f32[1];input y: f32[1];input z: f32[1];a = mul(x, y);output a",
     "input x: f32[1];input y: f32[1];input z: f32[1];a = mul(x, y);b = mul(a, z);c = add(a, b);output c", 0.014},
    {"input x: f32[1];input y: f32[1];input z: f32[1];e = exp(x);a = mul(e, z);output a",
     "input x: f32[1];input y: f32[1];input z: f32[1];e = exp(y);a = mul(e, z);output a", 0.014},
    {"input x: f32[1];input y: f32[1];input z: f32[1];a = div(x, y);output a",
     "input x: f32[1];input y: f32[1];input z: f32[1];a = div(x, z);output a", 0.009},
};

TEST(Verify, AcceptsDifferentProgramsNoMoreOftenThanTheBound) {
  const int trials = rounds(4000);
  for (const Acceptance& pair : kAcceptances) {
    const GraphPtr reference = graph_of(pair.reference);
    const GraphPtr candidate = graph_of(pair.candidate);
    int accepted = 0;
    double bound = 0;
    for (uint64_t seed = 1; seed <= static_cast<uint64_t>(trials); ++seed) {
      // δ so large that one test suffices.
      const auto result = verified(reference, candidate, {.delta = 0.9, .seed = seed, .primes = FieldPrimes{167, 83}});
      if (result.verdict != Verdict::Equivalent) continue;
      ++accepted;
      bound = std::max(bound, result.error_bound);
    }
    const double rate = accepted / static_cast<double>(trials);
    EXPECT_GE(rate, pair.least) << pair.candidate;
    EXPECT_LE(rate, bound + 4 * std::sqrt(bound / trials)) << pair.candidate;
  }
}

TEST(FloatErrors, FilterBadRounding) {
  const GraphPtr program = load_program("ntrans");
  const auto errors = float_errors(*program, *load_data("ntrans_fused"), 1);
  ASSERT_TRUE(errors);
  EXPECT_TRUE(errors->acceptable);
  EXPECT_LE(errors->candidate_f64, 1e-13);
  EXPECT_LE(errors->candidate_f32, 1e-5);
  EXPECT_GT(errors->candidate_f32, 1e-10);
  EXPECT_GT(errors->reference_own, 1e-4);  // float16 rounds something

  // Equal over the reals; the second loses everything to cancellation.
  const GraphPtr plain = graph_of("input x: f16[4, 8];input y: f16[4, 8];a = add(x, y);output a");
  const GraphPtr lossy = graph_of(
      "input x: f16[4, 8];input y: f16[4, 8];b = scale(x, factor=1000000);c = add(b, y);d = sub(c, b);"
      "e = add(d, x);output e");
  EXPECT_EQ(verified(plain, lossy).verdict, Verdict::Equivalent);
  const auto bad = float_errors(*plain, *lossy, 1);
  ASSERT_TRUE(bad);
  EXPECT_FALSE(bad->acceptable);
  FloatChecker checker(plain, 1);
  EXPECT_TRUE(checker.check(*plain)->acceptable);
  EXPECT_FALSE(checker.check(*lossy)->acceptable);
}

}  // namespace
}  // namespace strata
