// Changes of one operator in known programs: what the solver proves, float64 does not tell apart on other inputs
// than the solver's, and the solver never contradicts the finite fields.
#include <cmath>

#include "../tests/mutants/mutate.h"
#include "interpret/interpret.h"
#include "superopt/solver/solver.h"
#include "superopt/solver/test_pairs.h"
#include "superopt/verify/inputs.h"
#include "superopt/verify/shrink.h"
#include "support/random.h"

namespace strata {
namespace {

/// Largest relative difference where both are defined, on inputs of several sizes and near small integers, but not on
/// them: ties of comparisons have no volume.
double real_error(const Graph& reference, const Graph& candidate) {
  double worst = 0;
  for (int test = 0; test < 40; ++test) {
    Random random(1000 + static_cast<uint64_t>(test));
    const double scale = test % 4 == 0 ? 20 : test % 4 == 1 ? 0.05 : 1;
    std::vector<Tensor<double>> inputs;
    for (TensorId id : reference.inputs()) {
      for (double& x : inputs.emplace_back(reference.type(id).shape).data) {
        const double step = 2 * random.uniform() - 1;
        x = test % 4 == 3 ? static_cast<double>(random.below(7)) - 3 + 1e-3 * step : scale * step;
      }
    }
    Float64Arithmetic arithmetic;
    const auto expected = execute(reference, arithmetic, inputs);
    const auto found = execute(candidate, arithmetic, reordered(inputs, input_order(reference, candidate)));
    if (!expected || !found) return HUGE_VAL;
    for (size_t o = 0; o < expected->size(); ++o) {
      double largest = 1e-3;
      for (const double x : (*expected)[o].data) largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
      for (int64_t i = 0; i < (*expected)[o].size(); ++i) {
        const double error = std::fabs((*expected)[o][i] - (*found)[o][i]) / largest;
        if (std::isfinite(error)) worst = std::max(worst, error);
      }
    }
  }
  return worst;
}

struct Counts {
  int mutants = 0;
  int equivalent = 0;
  int different = 0;
  int undecided = 0;
};

void check(const std::string& name, const Graph& reference, const Graph& graph, bool inside, Counts& counts) {
  const std::vector<Mutant> mutants = all_mutants(graph);
  for (size_t i = 0; i < mutants.size(); i += inside ? 3 : 1) {
    const Mutant& mutant = mutants[i];
    const auto result = prove_with_solver(reference, *mutant.graph, {.time_limit = 5});
    ASSERT_TRUE(result) << result.error().to_string();
    const std::string text = fmt::format("{}, {}: {}{}", name, mutant.what, result->reason, result->argument);
    ++counts.mutants;
    counts.equivalent += result->verdict == Verdict::Equivalent;
    counts.different += result->verdict == Verdict::Different;
    counts.undecided += result->verdict == Verdict::Undecided;
    if (result->verdict == Verdict::Equivalent) {
      EXPECT_LE(real_error(reference, *mutant.graph), 1e-9) << text;
    }
    if (!inside) continue;
    const auto fields = verify(reference, *mutant.graph);
    ASSERT_TRUE(fields);
    const bool contradiction = result->verdict != Verdict::Undecided && fields->verdict != Verdict::Undecided &&
                               result->verdict != fields->verdict;
    EXPECT_FALSE(contradiction) << text << "; the fields: " << fields->reason;
  }
}

void print(const Counts& counts) {
  fmt::print("{} mutants: {} different, {} equivalent, {} undecided\n", counts.mutants, counts.different,
             counts.equivalent, counts.undecided);
}

TEST(SolverMutants, OfIdentities) {
  Counts counts;
  for (const Pair& pair : kEquivalent) {
    if (std::string_view(pair.name) == "RoundingDecidesSteps") continue;  // which float64 does not survive
    const std::string inputs = expanded(pair.inputs);
    const GraphPtr reference = graph_of(inputs + pair.reference);
    check(pair.name, *reference, *graph_of(inputs + pair.candidate), false, counts);
  }
  print(counts);
  EXPECT_GE(counts.mutants, 500);
  EXPECT_LE(counts.undecided, counts.mutants / 20);
}

TEST(SolverMutants, OfProgramsInsideTheFragment) {
  Counts counts;
  for (const KnownPair& pair : kKnownPairs) {
    const auto small = shrink(*load_program(pair.program), *load_data(pair.graph));
    ASSERT_TRUE(small) << small.error().to_string();
    check(pair.graph, *small->first, *small->second, true, counts);
  }
  print(counts);
  EXPECT_GE(counts.mutants, 200);
}

}  // namespace
}  // namespace strata
