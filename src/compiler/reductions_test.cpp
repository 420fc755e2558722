// Reductions that no µGraph computes: the emitters' kernels against the interpreter of graphs, and what they cost.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "compiler/test_programs.h"
#include "runtime/storage.h"
#include "superopt/codegen/test_host.h"
#include "superopt/superoptimize.h"
#include "support/random.h"

namespace strata::compiler {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

/// Reductions of a random array along random dimensions, with what is before, between and after them.
std::string random_reductions(Random& random) {
  const char* types[] = {"f16", "bf16", "f32", "f64"};
  const char* type = types[random.below(4)];
  const int64_t sizes[] = {1, 3, 8, 24, 64, 200, 1000};
  Shape shape;
  int64_t elements = 1;
  for (size_t d = 1 + random.below(4); d-- > 0 && elements < 5000;) {
    shape.push_back(sizes[random.below(7)]);
    elements *= shape.back();
  }
  std::string text = fmt::format("graph g {{\n  input X: {}[{}]\n", type, fmt::join(shape, ", "));
  std::string last = "X";
  int count = 0;
  const auto put = [&](const std::string& operation) {
    last = fmt::format("v{}", count++);
    text += fmt::format("  {} = {}\n", last, operation);
  };
  std::string outputs;
  Shape now = shape;
  for (size_t step = 1 + random.below(3); step-- > 0;) {
    if (random.below(2) == 0) put(fmt::format("sqr({})", last));
    const std::string whole = last;
    const size_t dim = random.below(now.size());
    const bool groups = now[dim] % 8 == 0 && random.below(3) == 0;
    const char* name = random.below(2) == 0 ? "sum" : "reduce_max";
    put(fmt::format("{}({}, dim={}{})", name, last, dim, groups ? ", every=8" : ""));
    const int64_t terms = groups ? 8 : now[dim];
    if (name == std::string_view("sum")) put(fmt::format("scale({}, factor=1/{})", last, terms));
    if (random.below(3) == 0) outputs += last + ", ";
    if (!groups && random.below(2) == 0) {  // a norm: in the shape of what is reduced
      put(fmt::format("sub({}, {})", whole, last));
    } else {
      now[dim] /= terms;
    }
  }
  put(fmt::format("add_constant({}, value=1/3)", last));
  return text + fmt::format("  output {}{}\n}}\n", outputs, last);
}

TEST(Reductions, RandomOnesComputeOnTheHostWhatTheGraphMeans) {
  Random random(5);
  const Passes passes = with_emitters();
  int emitted = 0;
  for (int round = 0; round < 16; ++round) {
    const std::string text = random_reductions(random);
    const GraphPtr graph = parsed(text);
    ASSERT_TRUE(graph) << text;
    const auto program = generate_cuda(*graph, hopper(), {}, passes);
    ASSERT_TRUE(program) << program.error().to_string() << text;
    emitted += static_cast<int>(program->emitted.size());
    const CostEstimate apart = scheduled_cost(*graph, hopper());
    EXPECT_LE(generated_cost(apart, *graph, hopper(), *program).seconds, apart.seconds * (1 + 1e-9)) << text;
    const HostOutputs outputs = host_outputs(*graph, *program, uniform_inputs(*graph, -1, 1, 7), kPlainHost);
    ASSERT_EQ(outputs.found.size(), outputs.expected.size()) << text;
    for (size_t i = 0; i < outputs.expected.size(); ++i)
      EXPECT_LT(relative_error(outputs.found[i], outputs.expected[i]), 1e-2) << text;
  }
  EXPECT_GE(emitted, 12);
}

/// Sums of 16 bits are kept in f32: 4096 of 1 are 4096, where each step rounded to bf16 would stop at 256.
TEST(Reductions, NarrowSumsAreWide) {
  const GraphPtr graph = parsed(R"(graph g {
  input X: bf16[4, 4096]
  S = sum(X, dim=1)
  M = reduce_max(X, dim=0)
  output S, M
})");
  const auto program = generate_cuda(*graph, hopper(), {}, with_emitters());
  ASSERT_TRUE(program) << program.error().to_string();
  EXPECT_EQ(program->emitted.size(), 1U);
  const HostOutputs outputs = host_outputs(*graph, *program, uniform_inputs(*graph, 1, 1, 7), kPlainHost);
  ASSERT_EQ(outputs.found.size(), 2U);
  EXPECT_EQ(outputs.found[0].data, std::vector<double>(4, 4096.0));
  EXPECT_EQ(outputs.found[1].data, std::vector<double>(4096, 1.0));
}

/// Few long rows are shared by blocks, which add to what a launch before them has filled in.
TEST(Reductions, LongRowsAreSharedByBlocks) {
  const GraphPtr graph = parsed(R"(graph g {
  input X: f32[2, 262144]
  S = sum(X, dim=1)
  output S
})");
  const auto program = generate_cuda(*graph, hopper(), {}, with_emitters());
  ASSERT_TRUE(program) << program.error().to_string();
  EXPECT_THAT(launches(*program), ElementsAre("g_S_before0_emitted_kernel", "g_S_emitted_kernel"));
  EXPECT_GE(program->launches[1].grid[0], 32);
  const CostEstimate apart = scheduled_cost(*graph, hopper());
  const CostEstimate cost = generated_cost(apart, *graph, hopper(), *program);
  EXPECT_EQ(cost.kernels, 2);
  EXPECT_LT(cost.seconds, apart.seconds / 100);
  const HostOutputs outputs = host_outputs(*graph, *program, uniform_inputs(*graph, -1, 1, 7), kPlainHost);
  ASSERT_EQ(outputs.found.size(), 1U);
  EXPECT_LT(relative_error(outputs.found[0], outputs.expected[0]), 1e-4);
}

/// Softmax and a norm of rows are one kernel each, without another shape or a copy between reductions.
TEST(Reductions, AreOneKernelWithWhatIsAroundThem) {
  const GraphPtr softmax = parsed(R"(graph g {
  input X: bf16[512, 4096]
  M = reduce_max(X, dim=1)
  C = sub(X, M)
  E = exp(C)
  S = sum(E, dim=1)
  D = div(E, S)
  output D
})");
  const auto program = generate_cuda(*softmax, hopper(), {}, with_emitters());
  ASSERT_TRUE(program) << program.error().to_string();
  EXPECT_THAT(launches(*program), ElementsAre("g_D_emitted_kernel"));
  const GraphPtr sums = parsed(R"(graph g {
  input X: f32[512, 64, 128]
  A = sum(X, dim=2)
  B = sum(A, dim=1)
  R = rsqrt(B)
  output A, R
})");
  const auto two = generate_cuda(*sums, hopper(), {}, with_emitters());
  ASSERT_TRUE(two) << two.error().to_string();
  ASSERT_FALSE(two->launches.empty());
  for (const KernelLaunch& launch : two->launches) EXPECT_THAT(launch.kernel, EndsWith("_emitted_kernel"));
}

SuperoptimizeOptions options_with(double seconds) {
  SuperoptimizeOptions options;
  options.search.target = &hopper();
  options.search.time_limit = seconds;
  options.search.max_kernel_ops = 1;
  options.search.max_block_ops = 5;
  options.search.threads = 1;
  options.compile = false;
  options.passes = with_emitters();
  return options;
}

TEST(Reductions, ThatAreNotSearchedAreEmitted) {
  const GraphPtr graph = parsed(R"(graph g {
  input X: bf16[64, 65536]
  input W: bf16[65536]
  Q = sqr(X)
  S = sum(Q, dim=1)
  M = scale(S, factor=1/65536)
  R = rsqrt(M)
  N = mul(X, R)
  O = mul(N, W)
  output O
})");
  const auto result = superoptimize(graph, options_with(1e-3));
  ASSERT_TRUE(result) << result.error().to_string();
  for (const std::string& kernel : launches(result->code)) EXPECT_THAT(kernel, HasSubstr("emitted"));
  EXPECT_LT(result->candidates.front().cost.seconds, result->program_cost.seconds / 50);
}

/// What the search finds is taken where its price is less than that of the emitters' kernels, and only there.
TEST(Reductions, AreChosenByTheirPrice) {
  for (const char* shape : {"bf16[4096, 512]", "bf16[8, 65536]", "bf16[64, 256]"}) {
    const GraphPtr graph = parsed(fmt::format(R"(graph g {{
  input X: {}
  Q = sqr(X)
  S = sum(Q, dim=1)
  output S
}})",
                                              shape));
    const auto result = superoptimize(graph, options_with(0));
    ASSERT_TRUE(result) << result.error().to_string();
    const auto itself = generate_cuda(*graph, hopper(), {}, with_emitters());
    ASSERT_TRUE(itself);
    const double emitted = generated_cost(scheduled_cost(*graph, hopper()), *graph, hopper(), *itself).seconds;
    EXPECT_LE(result->candidates.front().cost.seconds, emitted * 1.02) << shape;
    for (const Candidate& candidate : result->candidates)
      EXPECT_LE(result->candidates.front().cost.seconds, candidate.cost.seconds * 1.02) << shape;
  }
}

}  // namespace
}  // namespace strata::compiler
