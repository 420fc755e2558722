// What launches say of their blocks, against what these touch on the host: never less, and just that where it is exact.
#include "superopt/codegen/block_accesses.h"

#include <gmock/gmock.h>

#include "ir/text.h"
#include "runtime/launch_accesses.h"
#include "superopt/codegen/test_host.h"
#include "superopt/codegen/test_random_graphs.h"
#include "superopt/codegen/test_touched.h"
#include "test_paths.h"

namespace strata {
namespace {

using testing::HasSubstr;

const Target& target() { return targets().back(); }

GraphPtr parsed(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

GeneratedProgram generated(const Graph& graph, const Schedules& schedules, const Passes& passes,
                           const Target& of = target()) {
  auto program = generate_cuda(graph, of, schedules, passes);
  EXPECT_TRUE(program) << program.error().to_string();
  return program ? *std::move(program) : GeneratedProgram();
}

/// All launches say what they touch, which the order of steps allows, and which is what they touch on the host.
void expect_told(const Graph& graph, const GeneratedProgram& program) {
  const LaunchManifest manifest = manifest_of(program);
  for (const GpuStep& step : manifest.steps) EXPECT_FALSE(step.launch()->accesses.empty()) << step.launch()->kernel;
  const auto checked = check_accesses(manifest);
  EXPECT_TRUE(checked) << checked.error().to_string();
  const Touches found = touched_on_host(program, uniform_inputs(graph, 0.5, 1.5, 3));
  EXPECT_EQ(difference(said_touches(manifest), found), "") << *print(manifest);
}

/// Rows, in registers and in shared memory; kernels that share launches.
TEST(BlockAccesses, OfRandomBlockGraphs) {
  const std::pair<DType, Passes> ways[] = {
      {DType::F16, {}}, {DType::F32, {.grouping = false}}, {DType::F64, {.registers = false}}};
  uint64_t seed = 11;
  for (const auto& [type, passes] : ways) {
    const GraphPtr graph = random_program(++seed, type, 6);
    expect_told(*graph, generated(*graph, {}, passes));
  }
}

/// Two products with rows between them, on grids of two dimensions.
constexpr const char* kChain = R"(graph chain {
  input X: f16[64, 256]
  input W: f16[256, 128]
  input V: f16[128, 128]
  P = block(X, W, grid=[2, 4], loop=8) {
    x = in_iter(X, imap=[0, _], fmap=1)
    w = in_iter(W, imap=[_, 1], fmap=0)
    p = matmul(x, w)
    s = accum(p, kind=sum)
    P = out_saver(s, omap=[0, 1])
  }
  Q = block(P, grid=[16]) {
    q = in_iter(P, imap=[0])
    r = sqr(q)
    t = sum(r, dim=1)
    u = sqrt(t)
    v = div(q, u)
    Q = out_saver(v, omap=[0])
  }
  O = block(Q, V, grid=[2, 4], loop=4) {
    x = in_iter(Q, imap=[0, _], fmap=1)
    v = in_iter(V, imap=[_, 1], fmap=0)
    p = matmul(x, v)
    s = accum(p, kind=sum)
    O = out_saver(s, omap=[0, 1])
  }
  output O
})";

TEST(BlockAccesses, OfTilesInEverySchedule) {
  const GraphPtr graph = parsed(kChain);
  for (const BlockSchedule& schedule :
       {BlockSchedule{.row_warps = 2, .loop_warps = 2, .stages = 3}, BlockSchedule{.stages = 2, .cluster = 2},
        BlockSchedule{.stages = 2, .bulk = true, .sharers = 2},
        BlockSchedule{.stages = 2, .cluster = 2, .bulk = true, .sharers = 2}}) {
    SCOPED_TRACE(testing::Message() << schedule.cluster << " " << schedule.sharers);
    expect_told(*graph, generated(*graph, {schedule, std::nullopt, schedule}, {.merging = false, .grouping = false}));
  }
}

TEST(BlockAccesses, OfAProgramInOneKernel) {
  const GraphPtr graph = parsed(kChain);
  Target few = **find_target("sm_90a");
  few.multiprocessors = 3;
  const BlockSchedule schedule{.stages = 2, .bulk = true};
  const GeneratedProgram program = generated(*graph, {schedule, std::nullopt, schedule}, {.one_kernel = true}, few);
  ASSERT_EQ(program.launches.size(), 1U);
  expect_told(*graph, program);
}

/// A product whose sum is split in two, for 4 parts of the columns; each part's sums are needed by 2 blocks.
constexpr const char* kSplitProduct = R"(graph split {
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
  output O
})";

TEST(BlockAccesses, OfTwoKernelsInOneLaunch) {
  const GraphPtr graph = parsed(kSplitProduct);
  for (BlockSchedule schedule : {BlockSchedule{.stages = 2}, BlockSchedule{.stages = 2, .cluster = 2}}) {
    for (const Handover handover : {Handover::Last, Handover::Wait}) {
      if (schedule.cluster > 1 && handover == Handover::Last) continue;
      schedule.handover = handover;
      const GeneratedProgram program = generated(*graph, {schedule, std::nullopt}, {});
      ASSERT_EQ(program.launches.size(), 1U);
      expect_told(*graph, program);
    }
  }
}

TEST(BlockAccesses, OfPackedConstants) {
  const GraphPtr graph = parsed(R"(graph down {
  input R: bf16[16, 32]
  input X: bf16[16, 256]
  input W: bf16[32, 256]
  Wt = transpose(W, perm=[1, 0])
  Y = block(R, X, Wt, grid=[2], loop=8) {
    r = in_iter(R, imap=[1])
    same = accum(r, kind=max)
    x = in_iter(X, imap=[_], fmap=1)
    w = in_iter(Wt, imap=[1], fmap=0)
    p = matmul(x, w)
    a = accum(p, kind=sum)
    y = add(same, a)
    Y = out_saver(y, omap=[1])
  }
  output Y
})");
  const GeneratedProgram program =
      generated(*graph, {std::nullopt, BlockSchedule{.loop_warps = 2, .stages = 2, .packed = 0b100}}, {});
  ASSERT_EQ(program.launches.size(), 2U);
  expect_told(*graph, program);
}

/// One thread an element: moved, combined, reduced and multiplied ones; of views, and of heads side by side in a block.
TEST(BlockAccesses, OfPredefinedOperatorsAndViews) {
  const GraphPtr graph = parsed(R"(graph moves {
  input A: f32[6, 70]
  input B: f32[6, 130]
  input C: f32[2, 3, 8, 8]
  input D: f32[4, 3, 3, 3]
  input E: bf16[4, 3, 32]
  S = concat(A, B, dim=1)
  T = slice(S, dim=1, start=35, size=100)
  U = transpose(T, perm=[1, 0])
  V = matmul(U, A)
  W = repeat(V, dim=0, times=2)
  X = sum(W, dim=1)
  Y = reduce_max(W, dim=0)
  Z = add(W, X)
  F = conv2d(C, D, padding=1)
  G = transpose(E, perm=[1, 0, 2])
  H = reshape(G, shape=[3, 128])
  R = block(H, grid=[3], loop=4) {
    h = in_iter(H, imap=[0], fmap=1)
    q = sqr(h)
    u = sum(q, dim=1)
    v = accum(u, kind=sum)
    R = out_saver(v, omap=[0])
  }
  output Y, Z, F, R
})");
  expect_told(*graph, generated(*graph, {}, {.emission = false}));
}

/// Blocks take elements in turn where these are many.
TEST(BlockAccesses, BlocksTakeTurns) {
  for (const auto& [blocks, grid] : {std::pair<int64_t, std::array<int64_t, 3>>{4, {10, 1, 1}}, {5, {2, 3, 2}}}) {
    const indexing::IndexingMap map = blocks_in_turn(blocks, grid);
    std::set<std::vector<int64_t>> met;
    for (int64_t x = 0; x < blocks; ++x) {
      for (int64_t turn = 0; turn <= map.ranges[0].hi; ++turn) {
        const std::vector<int64_t> dims{x, 0, 0}, ranges{turn};
        const indexing::Point point{dims, ranges, {}};
        if (!indexing::in_domain(map, point)) continue;
        const int64_t number = turn * blocks + x;
        EXPECT_EQ(*indexing::evaluate(map, point),
                  (std::vector<int64_t>{number % grid[0], number / grid[0] % grid[1], number / grid[0] / grid[1]}));
        EXPECT_TRUE(met.insert({number}).second);
      }
    }
    EXPECT_EQ(std::ssize(met), grid[0] * grid[1] * grid[2]);
  }
}

/// As users read it: a kernel of predefined operators, and a block graph on a grid of two dimensions behind it.
TEST(BlockAccesses, AreInThePrintedManifest) {
  const GraphPtr graph = parsed(R"(graph product {
  input A: f16[16, 32]
  input B: f16[16, 32]
  input W: f16[64, 64]
  X = concat(A, B, dim=1)
  O = block(X, W, grid=[1, 2], loop=4) {
    x = in_iter(X, imap=[0, _], fmap=1)
    w = in_iter(W, imap=[_, 1], fmap=0)
    p = matmul(x, w)
    s = accum(p, kind=sum)
    O = out_saver(s, omap=[0, 1])
  }
  output O
})");
  const GeneratedProgram program =
      generated(*graph, {std::nullopt, BlockSchedule{.stages = 2}}, {.spreading = false, .emission = false});
  const auto golden = read_file(STRATA_SOURCE_DIR "/tests/data/product_accesses.launch.json");
  EXPECT_EQ(launch_manifest(program), golden.value_or(""));
}

/// Programs as they are given and optimised ones: what is no library's says what it touches.
TEST(BlockAccesses, OfWholePrograms) {
  for (const char* name : {"programs/causal",
                           "programs/gated_mlp",
                           "programs/gqa",
                           "programs/llama_block",
                           "programs/lora",
                           "programs/ntrans",
                           "programs/qknorm",
                           "programs/rmsnorm",
                           "tests/data/causal_online",
                           "tests/data/gated_mlp_fused",
                           "tests/data/gqa_fused",
                           "tests/data/gqa_online",
                           "tests/data/gqa_online_split",
                           "tests/data/gqa_split",
                           "tests/data/lora_fused",
                           "tests/data/lora_low_rank",
                           "tests/data/ntrans_fused",
                           "tests/data/qknorm_fused",
                           "tests/data/relu_mlp_fused",
                           "tests/data/rmsnorm_fused"}) {
    const auto graph = load_graph(fmt::format(STRATA_SOURCE_DIR "/{}.strata", name));
    ASSERT_TRUE(graph) << graph.error().to_string();
    for (const bool registers : {true, false}) {
      const LaunchManifest manifest = manifest_of(generated(**graph, {}, {.registers = registers}));
      for (const GpuStep& step : manifest.steps)
        EXPECT_TRUE(step.launch()->library || !step.launch()->accesses.empty()) << step.launch()->kernel;
      const auto checked = check_accesses(manifest);
      EXPECT_TRUE(checked) << name << ": " << checked.error().to_string();
      // What is printed is read back.
      const auto again = parse_launch_manifest(*print(manifest));
      ASSERT_TRUE(again) << again.error().to_string();
      EXPECT_TRUE(check_accesses(*again));
    }
  }
}

/// The comparison on the host finds a map that says too little by one step of a range.
TEST(BlockAccesses, ThatSayTooLittleAreFound) {
  const GraphPtr graph = parsed(kChain);
  const BlockSchedule schedule{.stages = 2};
  const GeneratedProgram program =
      generated(*graph, {schedule, std::nullopt, schedule}, {.merging = false, .grouping = false});
  const LaunchManifest manifest = manifest_of(program);
  const Touches found = touched_on_host(program, uniform_inputs(*graph, 0.5, 1.5, 3));
  ASSERT_EQ(difference(said_touches(manifest), found), "");
  size_t shrunk = 0;
  for (size_t i = 0; i < manifest.steps.size(); ++i) {
    const GpuLaunch& launch = *manifest.steps[i].launch();
    for (size_t n = 0; n < launch.accesses.size(); ++n) {
      EXPECT_TRUE(launch.accesses[n].exact);
      for (size_t r = 0; r < launch.accesses[n].map.ranges.size(); ++r) {
        const auto& results = launch.accesses[n].map.results;
        const auto uses = [&](const indexing::Expr& e) {
          return e.uses(indexing::ExprKind::Range, static_cast<int>(r));
        };
        if (std::none_of(results.begin(), results.end(), uses)) continue;  // a number of blocks that touch the same
        LaunchManifest less = manifest;
        --less.steps[i].launch()->accesses[n].map.ranges[r].hi;
        EXPECT_THAT(difference(said_touches(less), found), HasSubstr("its accesses do not say"));
        ++shrunk;
      }
    }
  }
  EXPECT_GE(shrunk, 15U);
}

}  // namespace
}  // namespace strata
