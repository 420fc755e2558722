// Some hundreds of random programs through the whole of superoptimize: each result is proved, means the same, and is no
// slower by the model than the program as given. tests/random_programs takes any number of them by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "superopt/test_optimized.h"

namespace strata {
namespace {

constexpr int kPrograms = 20;  ///< of one test
constexpr int kTests = 16;

TEST(RandomProgram, AreOfEveryOperatorTypeAndRank) {
  std::set<std::string_view> kinds;
  std::set<std::string_view> types;
  std::set<size_t> ranks;
  int several_outputs = 0;
  int outputs_of_inputs = 0;
  int chains = 0;
  for (uint64_t seed = 0; seed < uint64_t{kPrograms} * kTests; ++seed) {
    const RandomProgram program = random_program(seed);
    const Graph& graph = *program.graph;
    ASSERT_TRUE(validate(graph, targets().back())) << print(graph);
    EXPECT_EQ(print(*random_program(seed).graph), print(graph));
    int products = 0;
    for (const Operation& op : graph.operations()) {
      kinds.insert(op.name());
      products += op.kind == OpKind::Matmul ? 1 : 0;
    }
    for (const TensorInfo& tensor : graph.tensors()) {
      types.insert(name_of(tensor.type.dtype));
      ranks.insert(tensor.type.shape.size());
    }
    several_outputs += graph.outputs().size() > 1 ? 1 : 0;
    outputs_of_inputs += std::any_of(graph.outputs().begin(), graph.outputs().end(),
                                     [&](TensorId id) { return graph.tensor(id).producer < 0; })
                             ? 1
                             : 0;
    chains += products > 1 ? 1 : 0;
  }
  for (const OpDef* op : all_ops()) {
    EXPECT_TRUE(!op->traits.levels.kernel || kinds.count(op->traits.name) != 0) << op->traits.name;
  }
  EXPECT_EQ(types.size(), 4U);
  EXPECT_EQ(ranks.size(), size_t{kMaxRank} + 1);
  EXPECT_GT(several_outputs, 50);
  EXPECT_GT(outputs_of_inputs, 5);
  EXPECT_GT(chains, 50);
}

class RandomPrograms : public testing::TestWithParam<int> {};

TEST_P(RandomPrograms, BecomeProgramsThatMeanTheSame) {
  for (int i = 0; i < kPrograms; ++i) {
    const RandomProgram program = random_program(static_cast<uint64_t>(GetParam() * kPrograms + i));
    const auto result = superoptimize(program.graph, hasty_options(0.1));
    ASSERT_TRUE(result) << result.error().to_string() << "\n" << print(*program.graph);
    EXPECT_EQ(mistake(program, *result), "") << print(*program.graph);
  }
}

/// Outputs that are an input as it is, read by others and not, beside names that a search gives to what it adds.
TEST(RandomProgram, OutputsKeepTheirNames) {
  for (const uint64_t seed : {1003272, 1003947, 1007705}) {
    const RandomProgram program = random_program(seed);
    const auto result = superoptimize(program.graph, hasty_options(0.2));
    ASSERT_TRUE(result) << result.error().to_string() << "\n" << print(*program.graph);
    EXPECT_EQ(mistake(program, *result), "") << print(*program.graph);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, testing::Range(0, kTests));

}  // namespace
}  // namespace strata
