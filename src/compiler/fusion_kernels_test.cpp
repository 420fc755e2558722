#include "compiler/fusion_kernels.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <set>

#include "compiler/test_programs.h"
#include "runtime/compile.h"
#include "runtime/storage.h"
#include "superopt/codegen/generate.h"
#include "superopt/codegen/test_host.h"
#include "superopt/superoptimize.h"

namespace strata::compiler {
namespace {

using testing::ElementsAre;

/// Rotary embedding, an append to a cache, and two products.
constexpr const char* kRotary = R"(graph g {
  input Q: bf16[8, 256]
  input Cos: bf16[8, 1, 64]
  input Sin: bf16[8, 1, 64]
  input Past: bf16[4, 64, 120]
  input Mask: bf16[64, 8]
  input Up: bf16[4, 128, 8]
  input Down: bf16[4, 64, 8]
  Heads = reshape(Q, shape=[8, 4, 64])
  Low = slice(Heads, dim=2, start=0, size=32)
  High = slice(Heads, dim=2, start=32, size=32)
  Minus = scale(High, factor=-1)
  Half = concat(Minus, Low, dim=2)
  A = mul(Heads, Cos)
  B = mul(Half, Sin)
  Rotated = add(A, B)
  New = transpose(Rotated, perm=[1, 2, 0])
  All = concat(Past, New, dim=2)
  First = matmul(All, Up)
  Rows = repeat(Mask, dim=1, times=2)
  Tail = transpose(Rows, perm=[1, 0])
  Both = reshape(Tail, shape=[4, 4, 64])
  Second = matmul(Both, Down)
  S = sqr(First)
  output S, Second
})";

TEST(FusionKernels, OperatorsBetweenOthersShareOneLaunch) {
  const GraphPtr graph = parsed(kRotary);
  const Target& target = **find_target("sm_90a");
  Passes passes = with_emitters();
  passes.libraries = false;  // products are kernels of their own
  const auto program = generate_cuda(*graph, target, {}, passes);
  ASSERT_TRUE(program) << program.error().to_string();
  // What the products read, the products, and what reads them.
  EXPECT_THAT(launches(*program),
              ElementsAre("g_All_emitted_kernel", "g_10_kernel", "g_14_kernel", "g_S_emitted_kernel"));
  EXPECT_THAT(program->launches[0].arguments,
              testing::UnorderedElementsAre("Past", "Q", "Cos", "Sin", "All", "Mask", "Both"));
  EXPECT_TRUE(program->launches[1].overlaps_previous);
  const auto plain = generate_cuda(*graph, target);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->launches.size(), 15U);
  const CostEstimate cost = scheduled_cost(*graph, target);
  const CostEstimate less = generated_cost(cost, *graph, target, *program);
  EXPECT_EQ(cost.kernels, 15);
  EXPECT_EQ(less.kernels, 4);
  EXPECT_LT(less.seconds, cost.seconds);
}

/// The emitters' functions on the host's threads, beside generated ones: in every order of threads, where a barrier
/// that is missing shows.
TEST(FusionKernels, ComputeOnTheHostWhatTheGraphMeans) {
  const GraphPtr graph = parsed(kRotary);
  for (const Target& target : targets()) {
    const auto program = generate_cuda(*graph, target, {}, with_emitters());
    ASSERT_TRUE(program) << program.error().to_string();
    const HostOutputs outputs = host_outputs(*graph, *program, uniform_inputs(*graph, -1, 1, 7), kPlainHost);
    for (size_t i = 0; i < outputs.expected.size(); ++i)
      EXPECT_LT(relative_error(outputs.found[i], outputs.expected[i]), 2e-2) << target.name;
    EXPECT_EQ(outputs.expected.size(), 2U);
  }
}

/// One kernel that calls functions of both back ends from a switch: a product with a ring, what the emitters make of a
/// transpose through shared memory, rows.
TEST(FusionKernels, AreTasksBesideGeneratedOnes) {
  const GraphPtr graph = parsed(R"(graph g {
  input X: bf16[64, 256]
  input W: bf16[256, 128]
  P = block(X, W, grid=[2, 4], loop=8) {
    x = in_iter(X, imap=[0, _], fmap=1) : bf16[32, 32]
    w = in_iter(W, imap=[_, 1], fmap=0) : bf16[32, 32]
    p = matmul(x, w) : bf16[32, 32]
    s = accum(p, kind=sum) : bf16[32, 32]
    P = out_saver(s, omap=[0, 1]) : bf16[64, 128]
  }
  T = transpose(P, perm=[1, 0])
  D = concat(T, T, dim=1)
  Q = block(D, grid=[32]) {
    q = in_iter(D, imap=[0]) : bf16[4, 128]
    r = sqr(q) : bf16[4, 128]
    t = sum(r, dim=1) : bf16[4, 1]
    v = div(q, t) : bf16[4, 128]
    Q = out_saver(v, omap=[0]) : bf16[128, 128]
  }
  output Q
})");
  Target few = **find_target("sm_90a");
  few.multiprocessors = 3;
  Passes passes = with_emitters();
  passes.one_kernel = true;
  const Schedules schedules{BlockSchedule{.loop_warps = 2, .stages = 2, .bulk = true}};
  const auto program = generate_cuda(*graph, few, schedules, passes);
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->launches.size(), 1U);
  const HostOutputs outputs = host_outputs(*graph, *program, uniform_inputs(*graph, -1, 1, 7), kPlainHost);
  ASSERT_EQ(outputs.expected.size(), 1U);
  EXPECT_LT(relative_error(outputs.found[0], outputs.expected[0]), 2e-2);
  if (!nvrtc_version()) return;
  const auto cubin = compile_cubin(program->source, few);
  EXPECT_TRUE(cubin) << cubin.error().to_string();
}

TEST(FusionKernels, BecomeCubins) {
  if (!nvrtc_version()) GTEST_SKIP() << "no NVRTC";
  const GraphPtr graph = parsed(kRotary);
  for (const Target& target : targets()) {
    const auto program = generate_cuda(*graph, target, {}, with_emitters());
    ASSERT_TRUE(program) << program.error().to_string();
    const auto cubin = compile_cubin(program->source, target);
    EXPECT_TRUE(cubin) << target.name << cubin.error().to_string();
  }
}

TEST(FusionKernels, AreMadeOnceForEqualOperators) {
  const GraphPtr graph = parsed(kRotary);
  const Target& target = **find_target("sm_90a");
  const Passes passes = with_emitters();
  const auto once = generate_cuda(*graph, target, {}, passes);
  const auto again = generate_cuda(*graph, target, {}, passes);
  ASSERT_TRUE(once && again);
  EXPECT_EQ(once->source, again->source);
}

/// Layers that are equal but for names: compiled once, a function for each.
TEST(FusionKernels, OfEqualLayersDifferByNames) {
  const GraphPtr graph = parsed(R"(graph g {
  input X: f32[64, 128]
  input W: f32[128, 128]
  A = sqr(X)
  B = add(A, X)
  P = matmul(B, W)
  C = sqr(P)
  D = add(C, P)
  Q = matmul(D, W)
  E = sqr(Q)
  F = add(E, Q)
  output F
})");
  Passes passes = with_emitters();
  passes.libraries = false;
  const auto program = generate_cuda(*graph, **find_target("sm_90a"), {}, passes);
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->emitted.size(), 3U);
  for (const char* name : {"g_B", "g_D", "g_F"}) {
    const std::string function = fmt::format("static STRATA_DEVICE void {}(", name);
    EXPECT_THAT(program->source, testing::HasSubstr(function));
  }
  EXPECT_THAT(program->source, testing::Not(testing::HasSubstr("strata_any_fusion")));
  const HostOutputs outputs = host_outputs(*graph, *program, uniform_inputs(*graph, -0.1, 0.1, 7), kPlainHost);
  ASSERT_EQ(outputs.expected.size(), 1U);
  EXPECT_LT(relative_error(outputs.found[0], outputs.expected[0]), 1e-5);
}

TEST(FusionKernels, AfterTheDeadlineOnlyWhatWasMadeBefore) {
  const GraphPtr graph = parsed(kRotary);
  const Target& target = **find_target("sm_90a");
  Passes passes;
  passes.libraries = false;
  const FusionKernels kernels;
  const auto launches_until = [&](const Deadline& deadline, bool runs_out) {
    const auto bounded = kernels.until(deadline);
    passes.emitter = bounded;
    const auto program = generate_cuda(*graph, target, {}, passes);
    EXPECT_TRUE(program) << program.error().to_string();
    EXPECT_EQ(bounded->ran_out(), runs_out);
    return program ? program->launches.size() : 0;
  };
  EXPECT_EQ(launches_until(Deadline(0), true), 15U);
  // A clock that passes the limit when it is looked at for the third time: between the kernels of a group.
  int looks = 0;
  const Deadline soon(1, {}, 0, [&looks] { return Deadline::TimePoint{} + std::chrono::seconds(++looks < 3 ? 0 : 9); });
  EXPECT_EQ(launches_until(soon, true), 15U);
  EXPECT_EQ(launches_until(Deadline(), false), 4U);
  EXPECT_EQ(launches_until(Deadline(0), false), 4U);
}

/// A thread that adds up a row of 65,536 elements takes thousands of times as long as a kernel's launch.
TEST(FusionKernels, LongSumsHaveKernelsEvenAfterTheDeadline) {
  const GraphPtr graph = parsed(R"(graph g {
  input X: f32[2, 65536]
  S = sum(X, dim=1)
  output S
})");
  const Target& target = **find_target("sm_90a");
  Passes passes;
  const auto emitted_until = [&](const Deadline& deadline) {
    passes.emitter = FusionKernels().until(deadline);
    const auto program = generate_cuda(*graph, target, {}, passes);
    EXPECT_TRUE(program) << program.error().to_string();
    return program ? program->emitted.size() : 0;
  };
  EXPECT_EQ(emitted_until(Deadline(0)), 1U);
  std::stop_source user;
  user.request_stop();
  EXPECT_EQ(emitted_until(Deadline(Deadline::kNever, user.get_token())), 0U);
}

TEST(FusionKernels, WithoutTimeAResultSaysThatTheyAreMissing) {
  SuperoptimizeOptions options;
  options.search.target = *find_target("sm_90a");
  options.search.threads = 1;
  options.compile = false;
  options.passes = with_emitters();
  options.deadline = Deadline(0);
  const auto result = superoptimize(parsed(kRotary), options);
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_THAT(result->left_out, testing::HasSubstr("there was no time to write"));
  EXPECT_TRUE(result->code.emitted.empty());
}

TEST(FusionKernels, WhatLiesBetweenKernelsIsOfOneGroup) {
  // Values that are read very often are computed once, in f32, before and after the product.
  const GraphPtr graph = parsed(R"(graph g {
  input X: bf16[64, 512]
  input W: bf16[512, 64]
  A = gelu(X)
  B = gelu(A)
  C = repeat(B, dim=0, times=512)
  S = matmul(C, W)
  D = gelu(S)
  E = gelu(D)
  F = repeat(E, dim=0, times=64)
  output F
})");
  Passes passes = with_emitters();
  passes.libraries = false;  // the product is a kernel of its own
  const auto program = generate_cuda(*graph, **find_target("sm_90a"), {}, passes);
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->emitted.size(), 2U);
  std::set<std::string> names;
  size_t count = 0;
  for (const EmittedGroup& group : program->emitted) {
    EXPECT_FALSE(group.buffers.empty());
    for (const EmittedGroup::Buffer& buffer : group.buffers) names.insert(buffer.name);
    for (const EmittedKernel& kernel : group.kernels) names.insert(kernel.name);
    count += group.buffers.size() + group.kernels.size();
  }
  EXPECT_EQ(names.size(), count);
}

TEST(FusionKernels, PartsWithoutProductsAreNotSearched) {
  const GraphPtr graph = parsed(R"(graph g {
  input X: f32[64, 512]
  input W: f32[512, 512]
  P = matmul(X, W)
  R = reshape(P, shape=[64, 2, 256])
  T = transpose(R, perm=[1, 0, 2])
  C = concat(T, T, dim=2)
  E = exp(C)
  F = sqr(E)
  output F
})");
  SuperoptimizeOptions options;
  options.search.target = *find_target("sm_90a");
  options.search.time_limit = 0;
  options.search.max_kernel_ops = 1;
  options.search.max_block_ops = 5;
  options.search.threads = 1;
  options.compile = false;
  options.passes = with_emitters();
  const auto result = superoptimize(graph, options);
  ASSERT_TRUE(result) << result.error().to_string();
  ASSERT_EQ(result->code.launches.size(), 2U);
  EXPECT_EQ(result->code.launches[1].kernel, "g_F_emitted_kernel");
  EXPECT_EQ(result->candidates.front().cost.kernels, 2);
}

}  // namespace
}  // namespace strata::compiler
