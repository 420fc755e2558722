// A program as one persistent kernel: functions that are called again and again, with rings that go on.
#include "superopt/codegen/one_kernel.h"

#include <gmock/gmock.h>

#include "runtime/compile.h"
#include "runtime/storage.h"
#include "superopt/codegen/test_host.h"

namespace strata {
namespace {

constexpr const char* kChain = R"(graph chain {
  input X: f16[64, 256]
  input W: f16[256, 128]
  input V: f16[128, 128]
  P = block(X, W, grid=[2, 4], loop=8) {
    x = in_iter(X, imap=[0, _], fmap=1) : f16[32, 32]
    w = in_iter(W, imap=[_, 1], fmap=0) : f16[32, 32]
    p = matmul(x, w) : f16[32, 32]
    s = accum(p, kind=sum) : f16[32, 32]
    P = out_saver(s, omap=[0, 1]) : f16[64, 128]
  }
  Q = block(P, grid=[16]) {
    q = in_iter(P, imap=[0]) : f16[4, 128]
    r = sqr(q) : f16[4, 128]
    t = sum(r, dim=1) : f16[4, 1]
    u = sqrt(t) : f16[4, 1]
    v = div(q, u) : f16[4, 128]
    Q = out_saver(v, omap=[0]) : f16[64, 128]
  }
  O = block(Q, V, grid=[2, 4], loop=4) {
    x = in_iter(Q, imap=[0, _], fmap=1) : f16[32, 32]
    v = in_iter(V, imap=[_, 1], fmap=0) : f16[32, 32]
    p = matmul(x, v) : f16[32, 32]
    s = accum(p, kind=sum) : f16[32, 32]
    O = out_saver(s, omap=[0, 1]) : f16[64, 128]
  }
  output O
})";

/// A GPU of so few multiprocessors that each runs several blocks of each operator.
Target small_target() {
  Target target = **find_target("sm_90a");
  target.multiprocessors = 3;
  return target;
}

GraphPtr chain() {
  auto graph = parse_graph(kChain);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

Schedules schedules_of(const BlockSchedule& product) { return {product, std::nullopt, product}; }

class OneKernelOf : public testing::TestWithParam<BlockSchedule> {};

TEST_P(OneKernelOf, ComputesWhatTheGraphMeansInEveryOrderOfThreads) {
  const GraphPtr graph = chain();
  const Target target = small_target();
  const auto program = generate_cuda(*graph, target, schedules_of(GetParam()), {.one_kernel = true});
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->launches.size(), 1U);
  const HostOutputs outputs = host_outputs(*graph, *program, uniform_inputs(*graph, -1, 1, 3), kSanitizedHost);
  ASSERT_EQ(outputs.expected.size(), 1U);
  EXPECT_LT(relative_error(outputs.found[0], outputs.expected[0]), 5e-3);
}

INSTANTIATE_TEST_SUITE_P(Schedules, OneKernelOf,
                         testing::Values(BlockSchedule{.stages = 2}, BlockSchedule{.row_warps = 2, .stages = 3},
                                         BlockSchedule{.loop_warps = 2, .stages = 2},
                                         BlockSchedule{.stages = 2, .bulk = true},
                                         BlockSchedule{.loop_warps = 2, .stages = 2, .bulk = true},
                                         BlockSchedule{.row_warps = 2, .loop_warps = 2, .stages = 3, .bulk = true}));

TEST(OneKernel, BecomesACubinOfEachTarget) {
  if (!nvrtc_version()) GTEST_SKIP() << "no NVRTC";
  const GraphPtr graph = chain();
  for (const Target& target : targets()) {
    const BlockSchedule schedule{.loop_warps = 2, .stages = 2, .bulk = target.bulk_copies};
    const auto program = generate_cuda(*graph, target, schedules_of(schedule), {.one_kernel = true});
    ASSERT_TRUE(program) << program.error().to_string();
    const auto cubin = compile_cubin(program->source, target);
    EXPECT_TRUE(cubin) << target.name << cubin.error().to_string();
  }
}

/// Blocks that do not wait for a phase read what is not there yet; rings that start again get out of step.
TEST(OneKernel, WaitsAndRingsAreNeeded) {
  const GraphPtr graph = chain();
  const Target target = small_target();
  const std::pair<std::string, std::string> mutants[] = {{"  strata_device::end_phase<Team, 3>(phases, 1);\n", ""},
                                                         {"  strata_device::advance<6>(ring, 8);\n", ""}};
  for (const auto& [right, wrong] : mutants) {
    auto program =
        generate_cuda(*graph, target, schedules_of({.loop_warps = 2, .stages = 3, .bulk = true}), {.one_kernel = true});
    ASSERT_TRUE(program) << program.error().to_string();
    const size_t at = program->source.find(right, program->source.find("// The program:"));
    ASSERT_NE(at, std::string::npos) << right;
    program->source.replace(at, right.size(), wrong);
    const auto inputs = uniform_inputs(*graph, -1, 1, 3);
    Float64Arithmetic exact;
    const auto expected = execute(*graph, exact, inputs);
    const auto found = run_on_host(*program, inputs, kPlainHost);
    EXPECT_TRUE(!found || !(relative_error((*found)[0], (*expected)[0]) < 5e-3)) << right;
  }
}

TEST(OneKernel, SaysWhatCannotBePartOfIt) {
  const GraphPtr graph = chain();
  const Target& target = **find_target("sm_90a");
  const auto clusters = generate_cuda(*graph, target, schedules_of({.stages = 2, .cluster = 2}), {.one_kernel = true});
  ASSERT_FALSE(clusters);
  EXPECT_EQ(clusters.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(clusters.error().message, testing::HasSubstr("its blocks are in clusters"));
  Target tiny = small_target();
  tiny.shared_memory = 20 << 10;
  const auto rings = generate_cuda(*graph, tiny, schedules_of({.stages = 4, .bulk = true}), {.one_kernel = true});
  ASSERT_FALSE(rings);
  EXPECT_THAT(rings.error().message, testing::HasSubstr("beside each other"));
}

}  // namespace
}  // namespace strata
