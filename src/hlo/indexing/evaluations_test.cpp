#include "hlo/indexing/evaluations.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hlo/random_fusion.h"
#include "hlo/text.h"

namespace strata::indexing {
namespace {

/// Results that others need are not looked at by themselves: the longest one is that of each result alone.
TEST(Evaluations, TheLongestElementIsThatOfSomeResultAlone) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const hlo::ModulePtr module = hlo::random_fusion(seed);
    const CountedComputation counted(*module, module->entry);
    CountedGraph graph = counted.graph();
    const size_t count = graph.size();
    std::vector<double> operations;
    for (size_t i = 0; i < count; ++i) operations.push_back(static_cast<double>(1 + i * 7 % 5));
    graph.roots.clear();
    for (size_t i = 0; i < count; ++i) {
      if (graph.instructions[i]->opcode != hlo::Opcode::Tuple)
        graph.roots.push_back(static_cast<hlo::InstructionId>(i));
    }
    double longest = 0;
    for (const hlo::InstructionId root : graph.roots) {
      CountedGraph alone = graph;
      alone.roots = {root};
      longest = std::max(longest, EvaluationCounts(alone).of_longest_element(operations));
    }
    const double all = EvaluationCounts(graph).of_longest_element(operations);
    ASSERT_DOUBLE_EQ(all, longest) << "seed " << seed << "\n" << hlo::print(*module);
  }
}

}  // namespace
}  // namespace strata::indexing
