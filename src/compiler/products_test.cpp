// Products that no µGraph and no call of a library as they are computes well: as HLO against the interpreter of graphs,
// on the host, and what becomes of them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "compiler/test_glue.h"
#include "compiler/test_programs.h"
#include "interpret/interpret.h"
#include "runtime/storage.h"
#include "superopt/codegen/test_host.h"
#include "superopt/superoptimize.h"
#include "support/random.h"

namespace strata::compiler {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// A product whose operands have some of the dimensions of the batch each, one of them transposed or not, with
/// elementwise operators before and after.
std::string random_product(Random& random) {
  const auto one_of = [&](std::vector<int64_t> sizes) { return sizes[random.below(sizes.size())]; };
  const int64_t m = one_of({1, 3, 8}), n = one_of({1, 5, 8}), k = one_of({1, 7, 16});
  Shape left, right;
  for (size_t d = random.below(4); d-- > 0;) {
    const int64_t size = one_of({1, 2, 3});
    const size_t has = random.below(3);
    left.push_back(has == 0 ? 1 : size);
    right.push_back(has == 1 ? 1 : size);
  }
  if (random.below(3) == 0) right.erase(right.begin(), right.begin() + static_cast<std::ptrdiff_t>(right.size() / 2));
  left.insert(left.end(), {m, k});
  const bool transposed = random.below(2) == 0;
  std::vector<size_t> perm;
  for (size_t d = 0; d < right.size() + 2; ++d) perm.push_back(d);
  if (transposed) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  right.insert(right.end(), {transposed ? n : k, transposed ? k : n});
  return fmt::format(R"(graph g {{
  input X: f32[{}]
  input W: f32[{}]
  A = relu(X)
  B = transpose(W, perm=[{}])
  C = matmul(A, B)
  D = sqr(C)
  output C, D
}})",
                     fmt::join(left, ", "), fmt::join(right, ", "), fmt::join(perm, ", "));
}

TEST(Products, RandomOnesComputeAsHloWhatTheGraphMeans) {
  Random random(3);
  for (int round = 0; round < 60; ++round) {
    const std::string text = random_product(random);
    const GraphPtr graph = parsed(text);
    ASSERT_TRUE(graph) << text;
    const auto made = glue(*graph, {0, 1, 2, 3}, std::vector<bool>(4));
    ASSERT_TRUE(made) << made.error().to_string();
    const std::vector<Tensor<double>> inputs = uniform_inputs(*graph, -1, 1, static_cast<uint64_t>(round));
    Float64Arithmetic arithmetic;
    const auto expected = execute_all(*graph, arithmetic, inputs);
    ASSERT_TRUE(expected);
    const auto results = evaluate_glue(*made, *expected);
    ASSERT_TRUE(results) << results.error().to_string() << made->module;
    ASSERT_EQ(made->outputs.size(), 2U);
    for (size_t o = 0; o < made->outputs.size(); ++o) {
      const Tensor<double>& value = (*expected)[static_cast<size_t>(made->outputs[o])];
      for (size_t i = 0; i < value.data.size(); ++i)
        ASSERT_NEAR(results->elements()[o].get<float>(static_cast<int64_t>(i)), value.data[i], 1e-3) << text;
    }
  }
}

TEST(Products, SmallOnesAreKernelsWithWhatIsAroundThem) {
  Random random(8);
  int emitted = 0;
  for (int round = 0; round < 6; ++round) {
    const std::string text = random_product(random);
    const GraphPtr graph = parsed(text);
    ASSERT_TRUE(graph) << text;
    const auto program = generate_cuda(*graph, hopper(), {}, with_emitters());
    ASSERT_TRUE(program) << program.error().to_string() << text;
    emitted += static_cast<int>(program->emitted.size());
    for (const KernelLaunch& launch : program->launches) ASSERT_FALSE(launch.library) << text;
    const HostOutputs outputs = host_outputs(*graph, *program, uniform_inputs(*graph, -1, 1, 7), kPlainHost);
    ASSERT_EQ(outputs.found.size(), 2U);
    for (size_t i = 0; i < outputs.expected.size(); ++i)
      EXPECT_LT(relative_error(outputs.found[i], outputs.expected[i]), 1e-4) << text;
  }
  EXPECT_GE(emitted, 5);
}

/// What libraries are called for, in order.
std::vector<std::string> library_work(const GeneratedProgram& program) {
  std::vector<std::string> work;
  for (const KernelLaunch& launch : program.launches) {
    if (launch.library) work.push_back(describe(*launch.library));
  }
  return work;
}

SuperoptimizeOptions without_time() {
  SuperoptimizeOptions options;
  options.search.target = &hopper();
  options.search.time_limit = 1e-3;
  options.search.threads = 1;
  options.compile = false;
  options.passes = with_emitters();
  return options;
}

/// Query heads that share keys are rows of one product for each head of the keys.
TEST(Products, BatchesThatOneOperandLacksAreRows) {
  const auto result = superoptimize(parsed(R"(graph g {
  input Q: f16[8, 4, 64, 128]
  input K: f16[8, 1, 128, 1024]
  S = matmul(Q, K)
  output S
})"),
                                    without_time());
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_THAT(library_work(result->code), ElementsAre(HasSubstr("8 of f16 256×1024×128")));
  EXPECT_EQ(result->code.launches.size(), 1U);
  EXPECT_LT(result->candidates.front().cost.seconds, result->program_cost.seconds / 8);
}

/// Where both operands lack some, no strides of a call say so: operands or results change their order.
TEST(Products, BatchesOfBothOperandsTakeTheTimeOfTheirBytes) {
  for (const auto& [x, w] : {std::pair("6, 9, 77, 130", "9, 130, 91"), {"7, 1, 100, 64", "5, 64, 96"}}) {
    const auto result = superoptimize(parsed(fmt::format(R"(graph g {{
  input X: f16[{}]
  input W: f16[{}]
  Y = matmul(X, W)
  output Y
}})",
                                                         x, w)),
                                      without_time());
    ASSERT_TRUE(result) << result.error().to_string();
    EXPECT_EQ(library_work(result->code).size(), 1U);
    EXPECT_LT(result->candidates.front().cost.seconds, 15e-6);
    EXPECT_LT(result->candidates.front().cost.seconds, result->program_cost.seconds);
  }
}

/// Rows that are no whole vectors are filled up where the library is slow otherwise.
TEST(Products, RowsAreFilledUpToWholeVectors) {
  const GraphPtr graph = parsed(R"(graph g {
  input X: f16[335, 1001]
  input W: f16[1001, 771]
  Y = matmul(X, W)
  output Y
})");
  const auto result = superoptimize(graph, without_time());
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_THAT(library_work(result->code), ElementsAre(AllOf(HasSubstr("×1008"), HasSubstr("f16 335×776"))));
  EXPECT_LT(result->candidates.front().cost.seconds, result->program_cost.seconds / 2);
}

/// Without libraries a product is a kernel of its own, and what is around it is emitted all the same.
TEST(Products, AreLeftWhereNoLibraryMayBeCalled) {
  const GraphPtr graph = parsed(R"(graph g {
  input X: f16[8, 64, 64]
  input W: f16[1, 64, 64]
  A = relu(X)
  B = matmul(A, W)
  C = sqr(B)
  D = exp(C)
  output D
})");
  Passes passes = with_emitters();
  passes.libraries = false;
  const auto program = generate_cuda(*graph, hopper(), {}, passes);
  ASSERT_TRUE(program) << program.error().to_string();
  EXPECT_THAT(launches(*program), ElementsAre("g_A_emitted_kernel", "g_1_kernel", "g_D_emitted_kernel"));
}

}  // namespace
}  // namespace strata::compiler
