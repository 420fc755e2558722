#include "superopt/verify/shrink.h"

#include <gmock/gmock.h>

#include "superopt/verify/bound.h"
#include "superopt/verify/test_graphs.h"
#include "superopt/verify/verify.h"

namespace strata {
namespace {

int64_t elements(const Graph& graph) {
  int64_t sum = 0;
  for (const TensorInfo& tensor : graph.tensors()) sum += tensor.type.elements();
  return sum;
}

TEST(Shrink, MakesKnownPairsTinyAndKeepsThemEquivalent) {
  for (const KnownPair& pair : kKnownPairs) {
    const auto small = shrink(*load_program(pair.program), *load_data(pair.graph));
    ASSERT_TRUE(small) << pair.graph << ": " << small.error().to_string();
    const auto& [reference, candidate] = *small;
    EXPECT_LE(elements(*reference), 8000) << pair.graph << "\n" << print(*reference);
    EXPECT_EQ(reference->types(reference->outputs()), candidate->types(candidate->outputs()));
    const auto result = verify(*reference, *candidate);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->verdict, Verdict::Equivalent) << pair.graph << ": " << result->reason;
    // Grids and loops keep more than one point.
    for (const Operation& op : candidate->operations()) {
      ASSERT_TRUE(op.body);
      EXPECT_THAT(op.body->launch().grid, testing::Each(testing::Ge(2)));
    }
  }
}

TEST(Shrink, GivesTheExpectedText) {
  const auto small = shrink(*load_program("rmsnorm"), *load_data("rmsnorm_fused"));
  ASSERT_TRUE(small);
  const std::string text = print(*small->second);
  EXPECT_THAT(text, testing::HasSubstr("grid=[2], loop=2"));
  EXPECT_THAT(text, testing::HasSubstr("input X: f16[2, 4]"));
  EXPECT_THAT(text, testing::HasSubstr("input W: f16[4, 4]"));
  EXPECT_THAT(text, testing::HasSubstr("factor=1/1024"));
}

TEST(Shrink, KeepsSizesThatAreFactorsOfTheResult) {
  // 64 iterations add the same tile: equivalent at this size alone, so neither shrinks nor is refused.
  const GraphPtr program = graph_of("input x: f32[128, 8];y = scale(x, factor=64);output y");
  const GraphPtr repeated = graph_of(
      "input x: f32[128, 8];y = block(x, grid=[16], loop=64) {;a = in_iter(x, imap=[0]);b = accum(a, kind=sum);"
      "y = out_saver(b, omap=[0]);};output y");
  EXPECT_EQ(verify(*program, *repeated)->verdict, Verdict::Equivalent);
  EXPECT_TRUE(Screen(program, 1).passes(*repeated));
  // The same through a stacked result of blocks that do not differ.
  const GraphPtr stacked = graph_of(
      "input x: f32[128, 8];z = block(x, grid=[64]) {;a = in_iter(x, imap=[_]);b = reshape(a, shape=[1, 128, 8]);"
      "z = out_saver(b, omap=[0]);};s = sum(z, dim=0);y = reshape(s, shape=[128, 8]);output y");
  EXPECT_EQ(verify(*program, *stacked)->verdict, Verdict::Equivalent);
  EXPECT_TRUE(Screen(program, 1).passes(*stacked));
  // And as an addend.
  const GraphPtr sum = graph_of(
      "input x: f32[128, 8];input w: f32[64, 128, 8];t = sum(w, dim=0);r = reshape(t, shape=[128, 8]);"
      "u = scale(x, factor=64);y = add(u, r);output y");
  const GraphPtr inside = graph_of(
      "input x: f32[128, 8];input w: f32[64, 128, 8];"
      "y = block(x, w, grid=[16], loop=64) {;a = in_iter(x, imap=[0]);b = in_iter(w, imap=[1], fmap=0);"
      "c = reshape(b, shape=[8, 8]);d = add(a, c);e = accum(d, kind=sum);y = out_saver(e, omap=[0]);};output y");
  EXPECT_EQ(verify(*sum, *inside)->verdict, Verdict::Equivalent);
  EXPECT_TRUE(Screen(sum, 1).passes(*inside));
}

TEST(Shrink, KeepsSizesWhereConstantsAreAdded) {
  // 32 elements carry 32 constants: equal at this size alone.
  const GraphPtr each = graph_of("input x: f32[16, 32];a = add_constant(x, value=1/4);y = sum(a, dim=1);output y");
  const GraphPtr once = graph_of("input x: f32[16, 32];a = sum(x, dim=1);y = add_constant(a, value=8);output y");
  EXPECT_EQ(verify(*each, *once)->verdict, Verdict::Equivalent);
  EXPECT_TRUE(Screen(each, 1).passes(*once));
  const GraphPtr wrong = graph_of("input x: f32[16, 32];a = sum(x, dim=1);y = add_constant(a, value=4);output y");
  EXPECT_EQ(verify(*each, *wrong)->verdict, Verdict::Different);
  // In a loop, each of 64 iterations adds its constant.
  const GraphPtr looped = graph_of(
      "input x: f32[64, 8];y = block(x, grid=[4], loop=64) {;a = in_iter(x, imap=[1], fmap=0);"
      "b = add_constant(a, value=1/2);c = accum(b, kind=sum);y = out_saver(c, omap=[1]);};output y");
  const GraphPtr summed = graph_of("input x: f32[64, 8];a = sum(x, dim=0);y = add_constant(a, value=32);output y");
  EXPECT_EQ(verify(*summed, *looped)->verdict, Verdict::Equivalent);
  EXPECT_TRUE(Screen(summed, 1).passes(*looped));
}

TEST(Shrink, GrowsAGridWhereATileIsOneRow) {
  // Two kernels cut the same rows into tiles of four and of one.
  const GraphPtr program = graph_of("input x: f32[8, 64];a = sqr(x);y = sum(a, dim=1);output y");
  const GraphPtr pair = graph_of(
      "input x: f32[8, 64];"
      "z = block(x, grid=[2]) {;b = in_iter(x, imap=[0]);c = sqr(b);z = out_saver(c, omap=[0]);};"
      "y = block(z, grid=[8]) {;d = in_iter(z, imap=[0]);e = sum(d, dim=1);y = out_saver(e, omap=[0]);};output y");
  const auto small = shrink(*program, *pair);
  ASSERT_TRUE(small) << small.error().to_string();
  EXPECT_THAT(print(*small->first), testing::HasSubstr("input x: f32[4, 2]"));
  EXPECT_EQ(verify(*small->first, *small->second)->verdict, Verdict::Equivalent);
}

TEST(Shrink, CutsWhatRepeatsWhereNothingIsReduced) {
  // A bias is the same in all rows, and no operator reduces rows: their number is no part of the result.
  const GraphPtr program =
      graph_of("input x: f32[512, 64];input b: f32[64];s = sum(x, dim=1);d = div(x, s);y = add(d, b);output y");
  const GraphPtr fused = graph_of(
      "input x: f32[512, 64];input b: f32[64];"
      "y = block(x, b, grid=[32], loop=4) {;t = in_iter(x, imap=[0], fmap=0);u = in_iter(b, imap=[_]);"
      "s = sum(t, dim=1);d = div(t, s);a = add(d, u);c = accum(a, kind=concat, dim=0);"
      "y = out_saver(c, omap=[0]);};output y");
  const auto small = shrink(*program, *fused);
  ASSERT_TRUE(small) << small.error().to_string();
  EXPECT_THAT(print(*small->first), testing::HasSubstr("input x: f32[8, 2]"));
  // Where something does reduce them, it is.
  const GraphPtr reduced = graph_of("input x: f32[512, 64];input b: f32[64];d = add(x, b);y = sum(d, dim=0);output y");
  const auto kept = shrink(*reduced, *reduced);
  ASSERT_TRUE(kept);
  EXPECT_THAT(print(*kept->first), testing::HasSubstr("input x: f32[512, 2]"));
}

TEST(Shrink, CutsWhatIsOnlyExponentiated) {
  const std::string softmax =
      "input s: f32[4, 16, 64];input m: f32[4, 16, 1];d = sub(s, m);e = exp(d);z = sum(e, dim=2);";
  const GraphPtr program = graph_of(softmax + "y = div(e, z);output y");
  const auto small = shrink(*program, *program);
  ASSERT_TRUE(small);
  EXPECT_THAT(print(*small->first), testing::HasSubstr("input s: f32[2, 2, 2]"));
  // Where the difference is read elsewhere too, its size may count.
  const GraphPtr read = graph_of(softmax + "a = sum(d, dim=2);y = div(a, z);output y");
  const auto kept = shrink(*read, *read);
  ASSERT_TRUE(kept);
  EXPECT_THAT(print(*kept->first), testing::HasSubstr("input s: f32[2, 2, 64]"));
  EXPECT_EQ(verify(*program, *program)->verdict, Verdict::Equivalent);
}

TEST(Shrink, RebuildsGroupsAndReshapes) {
  const GraphPtr program = graph_of("input x: f32[16, 512];y = sum(x, dim=1);output y");
  const GraphPtr grouped = graph_of("input x: f32[16, 512];a = sum(x, dim=1, every=32);y = sum(a, dim=1);output y");
  const auto small = shrink(*program, *grouped);
  ASSERT_TRUE(small) << small.error().to_string();
  EXPECT_THAT(print(*small->second), testing::HasSubstr("every=2"));
  EXPECT_TRUE(Screen(program, 1).passes(*grouped));
}

TEST(Degrees, AreThoseOfTheProgram) {
  const auto degree = [](const char* text) {
    const GraphPtr graph = graph_of(text);
    return output_degrees(*graph, std::vector<double>(graph->inputs().size(), 1)).front();
  };
  const auto cubic = degree("input x: f32[4];input y: f32[4];a = sqr(x);b = mul(a, y);c = scale(b, factor=3);output c");
  EXPECT_EQ(cubic.num, 3);
  EXPECT_EQ(cubic.den, 0);
  // Σ of 8 quotients x / y: eight denominators.
  const auto sum = degree("input x: f32[2, 8];input y: f32[2, 8];a = div(x, y);b = sum(a, dim=1);output b");
  EXPECT_EQ(sum.num, 8);
  EXPECT_EQ(sum.den, 8);
  // softmax of x · y over 8 columns: each numerator one exponential, the denominator 8 of them.
  const auto softmax = degree(
      "input x: f32[2, 3];input y: f32[3, 8];a = matmul(x, y);e = exp(a);s = sum(e, dim=1);d = div(e, s);output d");
  EXPECT_EQ(softmax.num, 0);
  EXPECT_EQ(softmax.exp_num, 1);
  EXPECT_EQ(softmax.exp_den, 1);
  EXPECT_EQ(softmax.terms_den, 8);
  EXPECT_EQ(softmax.exponents, 9);
  EXPECT_EQ(softmax.argument_num, 2);
  const auto looped = degree(
      "input x: f32[4, 64];y = block(x, grid=[2], loop=8) {;a = in_iter(x, imap=[0], fmap=1);b = sqr(a);"
      "c = sum(b, dim=1);d = accum(c, kind=sum);e = rsqrt(d);y = out_saver(e, omap=[0]);};output y");
  EXPECT_EQ(looped.num, 0);
  EXPECT_EQ(looped.den, 1);
  EXPECT_TRUE(looped.root);
}

TEST(Shrink, LooselyCutsWhatMayBeAFactor) {
  const GraphPtr softmax = graph_of("input x: f32[4, 64];m = reduce_max(x, dim=1);y = sub(x, m);output y");
  const auto sound = shrink(*softmax, *softmax);
  const auto loose = shrink(*softmax, *softmax, Shrinking::Loose);
  ASSERT_TRUE(sound && loose);
  EXPECT_EQ(sound->first->type(0).shape, (Shape{2, 64}));
  EXPECT_EQ(loose->first->type(0).shape, (Shape{2, 2}));
}

TEST(Bounds, NeedIndependentExponentsToBeSharp) {
  const GraphPtr program = load_program("gqa");
  const TestBound sharp = test_bound(*program, *program, {.independent = true});
  const TestBound general = test_bound(*program, *program);
  EXPECT_LE(sharp.per_test, 1e-10);
  EXPECT_EQ(general.per_test, 1);
  EXPECT_THAT(sharp.argument, testing::HasSubstr("independent exponents"));
  // e^x · e^y has two exponentials that are independent; e^x, e^{x²} depend on one input alone.
  const GraphPtr dependent = graph_of("input x: f32[1];a = sqr(x);b = exp(a);c = exp(x);d = add(b, c);output d");
  const auto result = verify(*dependent, *dependent, {.max_tests = 128});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->argument, testing::HasSubstr("random root of unity"));
  EXPECT_EQ(result->verdict, Verdict::Equivalent);
  EXPECT_GT(result->tests, 20);
  EXPECT_LE(result->error_bound, 1e-12);
}

}  // namespace
}  // namespace strata
