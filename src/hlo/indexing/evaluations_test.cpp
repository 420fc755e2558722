#include "hlo/indexing/evaluations.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hlo/text.h"

namespace strata::indexing {
namespace {

/// Each level has x · 2 at even places and x · 3 at odd ones, of the level before: as gradients of scans have them.
hlo::ModulePtr interleaved(int levels) {
  std::string text = "HloModule m\nENTRY e {\n  zero = f32[] constant(0)\n  x0 = f32[256] parameter(0)\n";
  text += "  y0 = f32[256] negate(x0)\n";
  int64_t n = 256;
  for (int level = 1; level <= levels; ++level, n *= 2) {
    text += fmt::format(
        "  a{0} = f32[{1}] add(y{2}, y{2})\n  b{0} = f32[{1}] multiply(y{2}, y{2})\n"
        "  even{0} = f32[{3}] pad(a{0}, zero), padding=0_1_1\n  odd{0} = f32[{3}] pad(b{0}, zero), padding=1_0_1\n"
        "  {4}y{0} = f32[{3}] add(even{0}, odd{0})\n",
        level, n, level - 1, 2 * n, level == levels ? "ROOT " : "");
  }
  auto module = hlo::parse_module(text + "}\n");
  EXPECT_TRUE(module) << module.error().to_string();
  return module ? *module : nullptr;
}

hlo::InstructionId id_of(const hlo::Computation& computation, const std::string& name) {
  for (hlo::InstructionId id = 0; id <= computation.root; ++id) {
    if (computation[id].name == name) return id;
  }
  ADD_FAILURE() << name;
  return 0;
}

TEST(EvaluationCounts, UsersInDifferentBranchesShareNothing) {
  constexpr int kLevels = 4;
  const hlo::ModulePtr module = interleaved(kLevels);
  ASSERT_TRUE(module);
  const hlo::Computation& entry = module->entry_computation();
  const EvaluationCounts counts(*module, module->entry, {});
  const Evaluations whole = counts.whole();
  const std::vector<double> copies = counts.code_copies();
  // Each element of the result goes through one of two branches on each level.
  for (int level = 0; level <= kLevels; ++level) {
    const auto id = static_cast<size_t>(id_of(entry, fmt::format("y{}", level)));
    EXPECT_EQ(whole[id], 256 << kLevels) << level;
    EXPECT_EQ(copies[id], 1 << (kLevels - level)) << level;
  }
  EXPECT_GT(counts.nested_branches(), 0);
  EXPECT_EQ(EvaluationCounts(*interleaved(1), module->entry, {}).nested_branches(), 0);
}

TEST(EvaluationCounts, UsersInOneBranchShare) {
  const auto module = hlo::parse_module(R"(HloModule m
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] negate(x)
  a = f32[8] add(y, x)
  b = f32[8] multiply(y, a)
  zero = f32[] constant(0)
  ROOT p = f32[24] pad(b, zero), padding=8_8
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const EvaluationCounts counts(**module, (*module)->entry, {});
  EXPECT_EQ(counts.whole()[static_cast<size_t>(id_of((*module)->entry_computation(), "y"))], 8);
  EXPECT_EQ(counts.code_copies()[static_cast<size_t>(id_of((*module)->entry_computation(), "y"))], 1);
  EXPECT_EQ(counts.nested_branches(), 0);
}

}  // namespace
}  // namespace strata::indexing
