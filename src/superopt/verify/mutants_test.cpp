// Mutated programs and µGraphs: each is rejected by the verifier, or a second method, the interpreter in float64, finds
// it equivalent too; and nothing that the second method finds equivalent is refuted.
#include "../tests/mutants/mutate.h"
#include "superopt/verify/floats.h"
#include "superopt/verify/inputs.h"
#include "superopt/verify/shrink.h"
#include "superopt/verify/test_graphs.h"
#include "superopt/verify/verify.h"
#include "support/test_rounds.h"

namespace strata {
namespace {

/// Largest error of five random inputs, relative; infinite where a value is not finite.
double real_error(const Graph& reference, const Graph& candidate) {
  double worst = 0;
  for (uint64_t seed = 100; seed < 105; ++seed) {
    Float64Arithmetic arithmetic;
    auto inputs = random_inputs(reference, seed);
    const auto expected = execute(reference, arithmetic, inputs);
    const auto found = execute(candidate, arithmetic, reordered(std::move(inputs), input_order(reference, candidate)));
    if (!expected || !found) return HUGE_VAL;
    worst = std::max(worst, relative_error(*expected, *found));
  }
  return worst;
}

struct Counts {
  int mutants = 0;
  int equivalent = 0;
  int different = 0;
  int undecided = 0;
  int refused = 0;
};

/// Every mutant of `graph` against `reference`: verifier, screen and float64 agree.
void check(const std::string& name, const GraphPtr& reference, const Graph& graph, Counts& counts) {
  Screen screen(reference, 1);
  for (const Mutant& mutant : all_mutants(graph)) {
    const auto result = verify(*reference, *mutant.graph, {.seed = 5});
    ASSERT_TRUE(result) << result.error().to_string();
    const bool passes = screen.passes(*mutant.graph);
    const double error = real_error(*reference, *mutant.graph);
    ++counts.mutants;
    counts.refused += !passes;
    const std::string text = fmt::format("{}, {}: {} (error {})", name, mutant.what, result->reason, error);
    switch (result->verdict) {
      case Verdict::Equivalent:
        ++counts.equivalent;
        EXPECT_LE(error, 1e-9) << text;
        EXPECT_TRUE(passes) << text;
        EXPECT_LE(result->error_bound, 1e-12) << text;
        break;
      case Verdict::Different:
        ++counts.different;
        EXPECT_GT(error, 1e-9) << text;
        break;
      case Verdict::Undecided:  // rejected, but with a reason
        ++counts.undecided;
        EXPECT_FALSE(result->reason.empty());
        break;
    }
  }
}

TEST(Mutants, OfSixProgramsAndTheirGraphsAreRejectedOrEquivalent) {
  Counts counts;
  for (const KnownPair& pair : kKnownPairs) {
    // At shrunk shapes, so that all can be proved; AtFullShape holds some against their full shapes.
    const auto small = shrink(*load_program(pair.program), *load_data(pair.graph));
    ASSERT_TRUE(small) << small.error().to_string();
    check(pair.graph, small->first, *small->second, counts);
    check(pair.program, small->first, *small->first, counts);
  }
  RecordProperty("mutants", counts.mutants);
  fmt::print("{} mutants: {} different, {} equivalent, {} undecided; the screen refuses {}\n", counts.mutants,
             counts.different, counts.equivalent, counts.undecided, counts.refused);
  EXPECT_GE(counts.mutants, 1000);
  EXPECT_GE(counts.different, counts.mutants * 3 / 4);
  EXPECT_GE(counts.equivalent, 10);  // swapped operands of products
  EXPECT_GE(counts.refused, counts.different * 95 / 100);
}

TEST(Mutants, ScreenAgreesWithFullShape) {
  int compared = 0;
  const size_t apart = rounds(4) == 4 ? 1 : 4;  // a part of them is one from all over the list
  for (const KnownPair& pair :
       {KnownPair{"ntrans", "ntrans_fused"}, KnownPair{"lora", "lora_fused"}, KnownPair{"rmsnorm", "rmsnorm_fused"}}) {
    const GraphPtr program = load_program(pair.program);
    Screen screen(program, 3);
    const std::vector<Mutant> mutants = all_mutants(*load_data(pair.graph));
    const size_t step = std::string(pair.program) == "rmsnorm" ? 40 : 2;
    for (size_t i = 0; i < mutants.size(); i += step * apart) {
      const auto result = verify(*program, *mutants[i].graph, {.seed = 9});
      ASSERT_TRUE(result) << result.error().to_string();
      const bool passes = screen.passes(*mutants[i].graph);
      ++compared;
      const std::string text = pair.graph + (": " + mutants[i].what) + ": " + result->reason;
      if (result->verdict != Verdict::Undecided) {
        EXPECT_EQ(passes, result->verdict == Verdict::Equivalent) << text;
      }
    }
  }
  EXPECT_GE(compared, rounds(60));
}

}  // namespace
}  // namespace strata
