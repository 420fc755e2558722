#include "superopt/superoptimize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "interpret/interpret.h"
#include "ir/text.h"
#include "superopt/verify/floats.h"

namespace strata {
namespace {

GraphPtr parse(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return *graph;
}

SuperoptimizeOptions quick() {
  SuperoptimizeOptions options;
  options.search.target = &targets().back();
  options.search.threads = 2;
  options.search.time_limit = 20;
  options.candidates = 2;
  return options;
}

Superoptimized run(const GraphPtr& program, const SuperoptimizeOptions& options) {
  auto result = superoptimize(program, options);
  EXPECT_TRUE(result) << result.error().to_string();
  return std::move(*result);
}

/// Two equal layers with other names, statement orders and a softmax's maximum between them.
constexpr const char* kTwoLayers = R"(
graph layers {
  input X: f16[16, 256]
  input G: f16[256]
  input W: f16[256, 256]
  input H: f16[256]
  input V: f16[256, 256]
  A2 = sqr(X)
  AS = sum(A2, dim=1)
  AM = scale(AS, factor=1/256)
  AR = rsqrt(AM)
  AN = mul(X, AR)
  AG = mul(AN, G)
  A = matmul(AG, W)
  M = relu(A)
  B2 = sqr(M)
  BS = sum(B2, dim=1)
  BM = scale(BS, factor=1/256)
  BR = rsqrt(BM)
  BN = mul(BR, M)
  BG = mul(H, BN)
  B = matmul(BG, V)
  output B, M
}
)";

TEST(Superoptimize, EqualPartsAreSearchedOnce) {
  const GraphPtr program = parse(kTwoLayers);
  int searches = 0;
  SuperoptimizeOptions options = quick();
  options.stage_done = [&](std::string_view stage, double, const Graph&) { searches += stage == "search"; };
  const Superoptimized result = run(program, options);
  EXPECT_EQ(searches, 1);
  ASSERT_EQ(result.parts.size(), 3U);
  EXPECT_EQ(result.parts[0].equal_to, -1);
  EXPECT_EQ(result.parts[2].equal_to, 0);
  EXPECT_FALSE(result.partition.parts[1].searchable());
  const Candidate& best = result.candidates.front();
  EXPECT_EQ(best.cost.kernels, 3);  // a kernel a layer, and relu
  EXPECT_LT(best.cost.seconds, result.program_cost.seconds);
  EXPECT_EQ(result.whole_check, "agrees in float64 at full shapes");
  EXPECT_THAT(best.verification.argument, testing::HasSubstr("2 of 3 parts are replaced"));
  EXPECT_GT(best.verification.error_bound, 0);
  EXPECT_LE(best.verification.error_bound, 2 * options.delta);
  EXPECT_FALSE(result.compile_error);
  // The second layer has its own names.
  for (const char* name : {"X", "M", "B", "V", "H"}) EXPECT_TRUE(best.graph->find_tensor(name)) << name;
  auto errors = float_errors(*program, *best.graph, 3);
  ASSERT_TRUE(errors);
  EXPECT_TRUE(errors->acceptable);
}

TEST(Superoptimize, PartsWithSeveralOutputsKeepTheirOrder) {
  const GraphPtr program = parse(
      "graph g {\n input X: f16[64, 128]\n input W: f16[128, 64]\n N = sqr(X)\n B = matmul(N, W)\n A = exp(N)\n"
      " R = relu(A)\n S = relu(B)\n output S, R, A\n}");
  const Superoptimized result = run(program, quick());
  const Candidate& best = result.candidates.front();
  ASSERT_EQ(best.graph->outputs().size(), 3U);
  EXPECT_EQ(best.graph->types(best.graph->outputs()), program->types(program->outputs()));
  EXPECT_EQ(result.whole_check, "agrees in float64 at full shapes");
}

TEST(Superoptimize, LargeProgramsAreProvedAtShrunkShapes) {
  SuperoptimizeOptions options = quick();
  options.largest_full_proof = 1e6;
  const Superoptimized result = run(parse(kTwoLayers), options);
  EXPECT_LT(result.candidates.front().cost.seconds, result.program_cost.seconds);
  EXPECT_EQ(result.whole_check, "agrees in float64 at shrunk shapes");
  EXPECT_THAT(result.parts[0].optimized.candidates.front().verification.argument,
              testing::StartsWith("proved at shrunk shapes ["));
}

TEST(Superoptimize, ProgramsOutsideTheFragmentComeBackAsTheyAre) {
  const GraphPtr program = parse("graph g {\n input A: f16[64, 64]\n B = relu(A)\n output B\n}");
  const Superoptimized result = run(program, quick());
  EXPECT_EQ(result.candidates.front().graph, program);
  EXPECT_EQ(result.stop_reason, StopReason::Exhausted);
}

/// Softmax as it is written in practice: the maximum is subtracted, which only the exponentials see.
TEST(Superoptimize, SoftmaxWithItsMaximum) {
  const GraphPtr program = parse(
      "graph g {\n input S: f16[4, 16, 64]\n input M: f16[4, 16, 1]\n input V: f16[4, 64, 16]\n D = sub(S, M)\n"
      " E = exp(D)\n Z = sum(E, dim=2)\n P = div(E, Z)\n O = matmul(P, V)\n output O\n}");
  SuperoptimizeOptions options = quick();
  options.search.time_limit = 3;
  const Superoptimized result = run(program, options);
  EXPECT_LT(result.candidates.front().cost.kernels, 5) << result.unproved_reason;
}

}  // namespace
}  // namespace strata
