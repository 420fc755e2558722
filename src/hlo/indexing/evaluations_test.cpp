#include "hlo/indexing/evaluations.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hlo/random_fusion.h"
#include "hlo/text.h"

namespace strata::indexing {
namespace {

std::vector<double> some_operations(size_t count) {
  std::vector<double> operations;
  for (size_t i = 0; i < count; ++i) operations.push_back(static_cast<double>(1 + i * 7 % 5));
  return operations;
}

/// With one result more a thread has no less to do, and no more than that result alone takes besides.
TEST(Evaluations, AThreadComputesAllResults) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const hlo::ModulePtr module = hlo::random_fusion(seed);
    const CountedComputation counted(*module, module->entry);
    CountedGraph graph = counted.graph();
    const std::vector<double> operations = some_operations(graph.size());
    graph.roots.clear();
    double all = 0;
    for (size_t i = 0; i < graph.size(); ++i) {
      if (graph.instructions[i]->opcode == hlo::Opcode::Tuple) continue;
      CountedGraph alone = graph;
      alone.roots = {static_cast<hlo::InstructionId>(i)};
      graph.roots.push_back(static_cast<hlo::InstructionId>(i));
      const double one = EvaluationCounts(alone).of_longest_thread(operations);
      const double then = EvaluationCounts(graph).of_longest_thread(operations);
      ASSERT_GE(then, all * (1 - 1e-9)) << "seed " << seed << "\n" << hlo::print(*module);
      ASSERT_LE(then, (all + one) * (1 + 1e-9)) << "seed " << seed << "\n" << hlo::print(*module);
      all = then;
    }
  }
}

/// Levels of a tree: one that is half as long computes all below it again.
TEST(Evaluations, ResultsOfOtherSizesAreComputedAgain) {
  const auto module = hlo::parse_module(R"(HloModule m
ENTRY e {
  p = f32[64] parameter(0)
  a = f32[32] slice(p), slice={[0:64:2]}
  b = f32[32] slice(p), slice={[1:64:2]}
  one = f32[32] multiply(a, b)
  c = f32[16] slice(one), slice={[0:32:2]}
  d = f32[16] slice(one), slice={[1:32:2]}
  two = f32[16] multiply(c, d)
  other = f32[16] negate(two)
  ROOT t = (f32[32], f32[16], f32[16]) tuple(one, two, other)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const CountedComputation counted(**module, (*module)->entry);
  const hlo::Computation& entry = (*module)->entry_computation();
  std::vector<double> products(counted.graph().size(), 0);
  for (size_t i = 0; i < products.size(); ++i) products[i] = entry.instructions[i].opcode == hlo::Opcode::Multiply;
  EXPECT_EQ(EvaluationCounts(counted.graph()).of_longest_thread(products), 1 + 3);
}

}  // namespace
}  // namespace strata::indexing
