// Sums that are each short enough for one thread, inside each other.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "emitters/fusion/pass.h"
#include "emitters/kinds/plan.h"
#include "hlo/text.h"
#include "support/random.h"

namespace strata::emitters {
namespace {

/// Sums over one dimension each of the sums before, of few terms, with functions of them on their way; some of all that
/// is computed are results beside the last.
std::string random_short_sums(uint64_t seed) {
  Random random(seed);
  std::vector<int64_t> dims(2 + random.below(3));
  for (int64_t& d : dims) d = 2 + static_cast<int64_t>(random.below(62));
  std::string text =
      "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"
      "ENTRY e {\n  zero = f32[] constant(0)\n" +
      fmt::format("  x0 = f32[{}] parameter(0)\n", fmt::join(dims, ","));
  std::string results, shapes;
  const auto add_result = [&](const std::string& name) {
    results += (results.empty() ? "" : ", ") + name;
    shapes += fmt::format("{}f32[{}]", shapes.empty() ? "" : ", ", fmt::join(dims, ","));
  };
  for (int i = 0; !dims.empty(); ++i) {
    text +=
        fmt::format("  y{} = f32[{}] {}(x{})\n", i, fmt::join(dims, ","), random.below(2) == 0 ? "negate" : "tanh", i);
    if (random.below(2) == 0) add_result(fmt::format("y{}", i));
    const size_t over = random.below(dims.size());
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(over));
    text += fmt::format("  x{} = f32[{}] reduce(y{}, zero), dimensions={{{}}}, to_apply=sum\n", i + 1,
                        fmt::join(dims, ","), i, over);
    if (dims.empty() || random.below(4) == 0) add_result(fmt::format("x{}", i + 1));
  }
  return text + fmt::format("  ROOT r = ({}) tuple({})\n}}\n", shapes, results);
}

/// The terms of sums inside each other that a kernel's threads go through by themselves: along each path from a result,
/// beside what is computed together.
int64_t longest_chain(const hlo::Computation& computation, hlo::InstructionId id,
                      const std::vector<hlo::InstructionId>& together) {
  const hlo::Instruction& it = computation[id];
  if (std::find(together.begin(), together.end(), id) != together.end()) return 1;
  int64_t longest = 1;
  for (const hlo::InstructionId operand : it.operands)
    longest = std::max(longest, longest_chain(computation, operand, together));
  if (it.opcode != hlo::Opcode::Reduce) return longest;
  return longest * computation.operand_shape(it, 0).element_count() / it.shape.element_count();
}

TEST(Fusion, NoThreadGoesThroughManyTermsOfShortSums) {
  int loops = 0, chains = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const std::string text = random_short_sums(seed);
    const auto module = hlo::parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string() << text;
    for (const ProgramPart& part : fuse(**module, default_target())) {
      const hlo::Computation& computation = part.module.entry_computation();
      const auto plan = choose_plan({part.module, part.module.entry, default_target(), /*explained=*/false}, "");
      ASSERT_TRUE(plan) << plan.error().to_string();
      const int64_t terms = longest_chain(computation, computation.root, plan->decision.heroes);
      EXPECT_LE(terms, 63) << "seed " << seed << "\n" << hlo::print(part.module) << text;
      ++loops;
      if (terms > 1) ++chains;
    }
  }
  EXPECT_GE(loops, 150);
  EXPECT_GE(chains, 20);  // short ones are still taken in
}

}  // namespace
}  // namespace strata::emitters
