// Kernels that do not need each other in one launch: which ones, in what order, and that their code is right.
#include "superopt/codegen/grouping.h"

#include <gmock/gmock.h>

#include <numeric>

#include "runtime/compile.h"
#include "runtime/storage.h"
#include "superopt/codegen/test_host.h"

namespace strata {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

const Target& hopper() { return **find_target("sm_90a"); }

/// Three products of one input, of different sizes, norms of another input, and what needs some of them.
constexpr const char* kProjections = R"(graph projections {
  input X: f16[16, 128]
  input Wq: f16[128, 128]
  input Wk: f16[128, 64]
  input Wv: f16[128, 32]
  input Y: f16[24, 64]
  Q = block(X, Wq, grid=[4], loop=4) {
    x = in_iter(X, imap=[_], fmap=1) : f16[16, 32]
    w = in_iter(Wq, imap=[1], fmap=0) : f16[32, 32]
    p = matmul(x, w) : f16[16, 32]
    s = accum(p, kind=sum) : f16[16, 32]
    Q = out_saver(s, omap=[1]) : f16[16, 128]
  }
  K = block(X, Wk, grid=[2], loop=4) {
    x = in_iter(X, imap=[_], fmap=1) : f16[16, 32]
    w = in_iter(Wk, imap=[1], fmap=0) : f16[32, 32]
    p = matmul(x, w) : f16[16, 32]
    s = accum(p, kind=sum) : f16[16, 32]
    K = out_saver(s, omap=[1]) : f16[16, 64]
  }
  R = block(K, grid=[16]) {
    k = in_iter(K, imap=[0]) : f16[1, 64]
    r = sqr(k) : f16[1, 64]
    t = sum(r, dim=1) : f16[1, 1]
    R = out_saver(t, omap=[0]) : f16[16, 1]
  }
  V = block(X, Wv, grid=[1, 2], loop=4) {
    x = in_iter(X, imap=[_, _], fmap=1) : f16[16, 32]
    w = in_iter(Wv, imap=[_, 1], fmap=0) : f16[32, 16]
    p = matmul(x, w) : f16[16, 16]
    s = accum(p, kind=sum) : f16[16, 16]
    V = out_saver(s, omap=[_, 1]) : f16[16, 32]
  }
  N = block(Y, grid=[2, 3]) {
    y = in_iter(Y, imap=[1, 0]) : f16[8, 32]
    z = mul(y, y) : f16[8, 32]
    N = out_saver(z, omap=[1, 0]) : f16[24, 64]
  }
  output Q, R, V, N
})";

GraphPtr projections() {
  auto graph = parse_graph(kProjections);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

std::vector<std::string> kernels(const GeneratedProgram& program) {
  std::vector<std::string> names;
  for (const KernelLaunch& launch : program.launches) names.push_back(launch.kernel);
  return names;
}

Schedules of_products(const BlockSchedule& q, const BlockSchedule& k, const BlockSchedule& v) {
  return {q, k, std::nullopt, v, std::nullopt};
}

class GroupingOf : public testing::TestWithParam<Schedules> {};

TEST_P(GroupingOf, ComputesWhatTheInterpreterDoesInEveryOrderOfThreads) {
  const GraphPtr graph = projections();
  const auto program = generate_cuda(*graph, hopper(), GetParam());
  ASSERT_TRUE(program) << program.error().to_string();
  EXPECT_EQ(program->launches.size(), 2U) << testing::PrintToString(kernels(*program));
  const HostOutputs outputs = host_outputs(*graph, *program, uniform_inputs(*graph, -1, 1, 3), kSanitizedHost);
  ASSERT_EQ(outputs.expected.size(), 4U);
  for (size_t i = 0; i < outputs.expected.size(); ++i)
    EXPECT_LT(relative_error(outputs.found[i], outputs.expected[i]), 5e-3) << program->outputs[i].name;
}

// Of as many threads, and of others; with rings of their own, and without.
INSTANTIATE_TEST_SUITE_P(
    Schedules, GroupingOf,
    testing::Values(
        of_products({.stages = 2}, {.stages = 2}, {.stages = 2}),
        of_products({.stages = 2, .cluster = 2}, {.loop_warps = 2, .stages = 2}, {.stages = 2, .cluster = 2}),
        of_products({.stages = 2}, {.stages = 2, .cluster = 2, .bulk = true}, {.stages = 2, .bulk = true}),
        of_products({.loop_warps = 4, .stages = 2}, {.stages = 2}, {.loop_warps = 2, .stages = 2}),
        of_products({.loop_warps = 2, .stages = 2, .bulk = true}, {.stages = 3, .bulk = true},
                    {.loop_warps = 2, .stages = 2}),
        of_products({.stages = 2}, {.loop_warps = 2, .stages = 2, .bulk = true}, {.stages = 2, .bulk = true})));

TEST(Grouping, TakesWhatDoesNotNeedEachOther) {
  const GraphPtr graph = projections();
  const auto apart = generate_cuda(*graph, hopper(), {}, {.grouping = false});
  ASSERT_TRUE(apart);
  EXPECT_EQ(apart->launches.size(), 5U);
  EXPECT_EQ(apart->saved.kernels, 0);
  const auto program = generate_cuda(*graph, hopper());
  ASSERT_TRUE(program);
  ASSERT_EQ(program->launches.size(), 2U);
  EXPECT_THAT(program->launches[0].arguments, UnorderedElementsAre("X", "Wq", "Q", "Wk", "K", "Wv", "V", "Y", "N"));
  EXPECT_THAT(program->launches[1].arguments, ElementsAre("K", "R"));
  EXPECT_EQ(program->launches[0].grid, (std::array<int64_t, 3>{4 + 2 + 2 + 6, 1, 1}));
  EXPECT_TRUE(program->launches[1].overlaps_previous);
  // Its parts have no kernels of their own.
  EXPECT_THAT(program->source, testing::Not(testing::HasSubstr(apart->launches[0].kernel + "(")));

  const CostEstimate cost = generated_cost(scheduled_cost(*graph, hopper()), *graph, hopper(), *apart);
  const CostEstimate less = generated_cost(scheduled_cost(*graph, hopper()), *graph, hopper(), *program);
  EXPECT_EQ(cost.kernels, 5);
  EXPECT_EQ(less.kernels, 2);
  EXPECT_LT(less.seconds, cost.seconds);
}

TEST(Grouping, BlocksThatDoTheWorkOfOthersShow) {
  const GraphPtr graph = projections();
  const auto inputs = uniform_inputs(*graph, -1, 1, 3);
  Float64Arithmetic exact;
  const auto expected = execute(*graph, exact, inputs);
  auto program = generate_cuda(*graph, hopper());
  ASSERT_TRUE(expected && program);
  const std::string begin = "const auto at = ";
  const size_t at = program->source.find(begin) + begin.size();
  program->source.replace(at, program->source.find(';', at) - at, "0 * block");
  const auto found = run_on_host(*program, inputs, kPlainHost);
  bool differs = !found;
  for (size_t i = 0; found && i < found->size(); ++i) differs |= !(relative_error((*found)[i], (*expected)[i]) < 5e-3);
  EXPECT_TRUE(differs);
}

/// Two kernels in one launch are one part of a group, also beside blocks of more threads.
TEST(Grouping, TakesTwoKernelsThatHandOver) {
  const auto graph = parse_graph(R"(graph g {
  input X: f16[16, 256]
  input W: f16[256, 128]
  P = block(X, W, grid=[2, 4], loop=4) {
    x = in_iter(X, imap=[1, _], fmap=1)
    w = in_iter(W, imap=[0, 1], fmap=0)
    p = matmul(x, w)
    s = accum(p, kind=sum)
    P = out_saver(s, omap=[0, 1], dtype=f32)
  }
  O = block(P, grid=[8], loop=2) {
    q = in_iter(P, imap=[1], fmap=0)
    t = accum(q, kind=sum)
    O = out_saver(t, omap=[1], dtype=f16)
  }
  Q = block(X, W, grid=[2], loop=8) {
    x = in_iter(X, imap=[_], fmap=1)
    w = in_iter(W, imap=[1], fmap=0)
    p = matmul(x, w)
    s = accum(p, kind=sum)
    Q = out_saver(s, omap=[1])
  }
  output O, Q
})");
  ASSERT_TRUE(graph) << graph.error().to_string();
  for (const bool bulk : {false, true}) {
    const BlockSchedule first{.stages = 2, .bulk = bulk, .handover = Handover::Last};
    const auto program =
        generate_cuda(**graph, hopper(), {first, std::nullopt, BlockSchedule{.loop_warps = 4, .stages = 2}});
    ASSERT_TRUE(program) << program.error().to_string();
    ASSERT_EQ(program->launches.size(), 1U);
    const HostOutputs outputs = host_outputs(**graph, *program, uniform_inputs(**graph, -1, 1, 3), kSanitizedHost);
    ASSERT_EQ(outputs.expected.size(), 2U);
    for (size_t i = 0; i < outputs.expected.size(); ++i)
      EXPECT_LT(relative_error(outputs.found[i], outputs.expected[i]), 5e-3) << bulk;
  }
}

TEST(Grouping, BecomesACubinOfEachTarget) {
  if (!nvrtc_version()) GTEST_SKIP() << "no NVRTC";
  const GraphPtr graph = projections();
  for (const Target& target : targets()) {
    const auto program = generate_cuda(*graph, target);
    ASSERT_TRUE(program) << program.error().to_string();
    const auto cubin = compile_cubin(program->source, target);
    EXPECT_TRUE(cubin) << target.name << cubin.error().to_string();
  }
}

TEST(Grouping, AroundALibraryKernelsWaitInStreamOrder) {
  const auto graph = parse_graph(R"(graph g {
  input X: f16[64, 64]
  input W: f16[64, 64]
  A = block(X, grid=[8]) {
    x = in_iter(X, imap=[0]) : f16[8, 64]
    y = sqr(x) : f16[8, 64]
    A = out_saver(y, omap=[0]) : f16[64, 64]
  }
  P = matmul(A, W)
  B = block(W, grid=[8]) {
    x = in_iter(W, imap=[0]) : f16[8, 64]
    y = sqr(x) : f16[8, 64]
    B = out_saver(y, omap=[0]) : f16[64, 64]
  }
  C = block(P, grid=[8]) {
    x = in_iter(P, imap=[0]) : f16[8, 64]
    y = sqr(x) : f16[8, 64]
    C = out_saver(y, omap=[0]) : f16[64, 64]
  }
  output B, C
})");
  ASSERT_TRUE(graph) << graph.error().to_string();
  const Schedules schedules{std::nullopt, BlockSchedule{.algorithm = 0}, std::nullopt, std::nullopt};
  const auto program = generate_cuda(**graph, hopper(), schedules);
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->launches.size(), 3U);
  EXPECT_THAT(program->launches[0].arguments, UnorderedElementsAre("X", "A", "W", "B"));
  EXPECT_TRUE(program->launches[0].overlaps_previous);
  EXPECT_TRUE(program->launches[1].library);
  EXPECT_FALSE(program->launches[2].overlaps_previous);
}

/// A launch of one block function, as far as grouping looks at it.
KernelLaunch launch_of(std::vector<std::string> reads, std::vector<std::string> written, int64_t blocks,
                       double microseconds) {
  KernelLaunch launch;
  launch.kernel = written.front() + "_kernel";
  for (std::string& name : reads) {
    launch.arguments.push_back(std::move(name));
    launch.types.emplace_back("const float*");
  }
  for (std::string& name : written) {
    launch.arguments.push_back(std::move(name));
    launch.types.emplace_back("float*");
  }
  launch.grid[0] = blocks;
  launch.threads = 128;
  launch.seconds = microseconds * 1e-6;
  launch.part_function = launch.kernel;
  return launch;
}

TEST(GroupPlan, TakesNoPlaceThatBlocksOfOthersNeed) {
  // Eight blocks of the first run on each multiprocessor at a time; beside blocks of the second it would be one.
  const int64_t many = 8 * hopper().multiprocessors;
  std::vector<KernelLaunch> launches{launch_of({"X"}, {"A"}, many, 10), launch_of({"X"}, {"B"}, 64, 10)};
  EXPECT_EQ(plan_groups(launches, hopper()).size(), 1U);
  launches[1].own_shared_bytes = hopper().shared_memory;
  EXPECT_EQ(plan_groups(launches, hopper()).size(), 2U);
  EXPECT_GT(seconds_together({&launches[0], &launches[1]}, hopper()), 20e-6);
  launches[0].grid[0] = hopper().multiprocessors / 2;
  EXPECT_EQ(plan_groups(launches, hopper()).size(), 1U);
}

TEST(GroupPlan, LeavesWhatHasToBeALaunchOfItsOwn) {
  const auto lists = [&](const std::function<void(KernelLaunch&)>& change) {
    std::vector<KernelLaunch> launches{launch_of({"X"}, {"A"}, 8, 5), launch_of({"X"}, {"B"}, 8, 5)};
    change(launches[1]);
    return plan_groups(launches, hopper()).size();
  };
  EXPECT_EQ(lists([](KernelLaunch&) {}), 1U);
  EXPECT_EQ(lists([](KernelLaunch& launch) { launch.part_function.clear(); }), 2U);
  EXPECT_EQ(lists([](KernelLaunch& launch) { launch.cluster = 2; }), 1U);
  EXPECT_EQ(lists([](KernelLaunch& launch) { launch.cluster = 16; }), 2U);  // the other's blocks fill none
  EXPECT_EQ(lists([](KernelLaunch& launch) { launch.resident = true; }), 2U);
  EXPECT_EQ(lists([](KernelLaunch& launch) { launch.threads = 40; }), 2U);
  // Both write it.
  EXPECT_EQ(lists([](KernelLaunch& launch) { launch.arguments.back() = "A"; }), 2U);
}

TEST(GroupPlan, OfRandomProgramsHoldsEachLaunchOnceBehindWhatItNeeds) {
  Random random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<KernelLaunch> launches;
    const auto count = static_cast<size_t>(1 + random.below(12));
    double apart = 0;
    for (size_t i = 0; i < count; ++i) {
      std::vector<std::string> reads{"input"};
      for (size_t j = 0; j < i; ++j) {
        if (random.below(4) == 0) reads.push_back(fmt::format("t{}", j));
      }
      const auto blocks = static_cast<int64_t>(1 + random.below(600));
      launches.push_back(
          launch_of(reads, {fmt::format("t{}", i)}, blocks, 1.5 + static_cast<double>(random.below(20))));
      launches.back().own_shared_bytes = static_cast<int64_t>(random.below(200)) << 10;
      if (random.below(6) == 0) launches.back().cluster = 2;
      apart += launches.back().seconds;
    }
    const auto plan = plan_groups(launches, hopper());
    std::vector<size_t> place(count, count);
    double together = 0;
    for (size_t g = 0; g < plan.size(); ++g) {
      std::vector<const KernelLaunch*> parts;
      for (size_t i : plan[g]) {
        EXPECT_EQ(place[i], count) << "twice";
        place[i] = g;
        parts.push_back(&launches[i]);
      }
      EXPECT_TRUE(plan[g].size() == 1 || can_share_launch(parts));
      together += seconds_together(parts, hopper());
    }
    EXPECT_LE(together, apart * (1 + 1e-9));
    for (size_t i = 0; i < count; ++i) {
      EXPECT_LT(place[i], count) << "left out";
      for (size_t j = 0; j < i; ++j) {
        const auto& reads = launches[i].arguments;
        if (std::count(reads.begin(), reads.end(), fmt::format("t{}", j)) > 0) {
          EXPECT_LT(place[j], place[i]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata
