#include "emitters/fusion/group_kernels.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "emitters/fusion/instruction_roles.h"
#include "hlo/text.h"
#include "machine/target.h"

namespace strata::emitters {
namespace {

/// Whether all of an entry but parameters and constants is a group that is refused for its outputs, and whether its
/// time as a kernel is infinite.
std::pair<bool, bool> refused_and_infinite(const hlo::Module& module) {
  const hlo::Computation& entry = module.entry_computation();
  const std::vector<bool> used(entry.instructions.size(), true);
  std::vector<bool> everywhere = known_values(entry);
  Group group;
  for (hlo::InstructionId id = 0; id <= entry.root; ++id) {
    const hlo::Opcode opcode = entry[id].opcode;
    everywhere[static_cast<size_t>(id)] = everywhere[static_cast<size_t>(id)] || is_name(opcode);
    const bool computed = opcode != hlo::Opcode::Parameter && !everywhere[static_cast<size_t>(id)];
    if (computed) group = Group(group, Group(id));
  }
  std::vector<ArrayValue> outputs;
  for (const hlo::InstructionId id : entry.root_instruction().operands) outputs.push_back({id, 0});
  Ratings ratings(default_target());
  GroupKernels kernels(module, used, everywhere, ratings);
  return {kernels.writes_apart(group, outputs), std::isinf(estimated_microseconds(module, default_target()))};
}

/// `beside`: the definition of `out` and what it needs, in an entry that sums rows of x; `o` has the same shape as out.
void expect_refused(bool refused, const std::string& of_out, const std::string& beside,
                    const std::string& rows = "f32[64]", const std::string& reduced = "1") {
  const std::string text = fmt::format(
      "HloModule m\nadd {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}\n"
      "ENTRY e {{\n  x = f32[64,512] parameter(0)\n  o = {0} parameter(1)\n  zero = f32[] constant(0)\n"
      "  y = f32[64,512] exponential(x)\n  s = {1} reduce(y, zero), dimensions={{{2}}}, to_apply=add\n  {3}\n"
      "  ROOT t = ({1}, {0}) tuple(s, out)\n}}\n",
      of_out, rows, reduced, beside);
  SCOPED_TRACE(text);
  const auto module = hlo::parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(refused_and_infinite(**module), (std::pair(refused, refused)));
}

TEST(GroupKernels, RefuseOutputsOfOtherSizesBesideLongReductions) {
  for (const char* fits : {"f32[64,512]", "f32[512,64]", "f32[32768]", "f32[64]", "f32[8,8]"})
    expect_refused(false, fits, fmt::format("out = {} negate(o)", fits));
  for (const char* other : {"f32[512]", "f32[65]", "f32[64,2]", "f32[63,512]"})
    expect_refused(true, other, fmt::format("out = {} negate(o)", other));
}

TEST(GroupKernels, LeaveWhatNeedsReductionsToTheirEmitters) {
  expect_refused(false, "f32[64,2]", "b = f32[64,2] broadcast(s), dimensions={0}\n  out = f32[64,2] multiply(b, o)");
  expect_refused(false, "f32[4,2]", "b = f32[4,2] broadcast(s), dimensions={}\n  out = f32[4,2] multiply(b, o)",
                 "f32[]", "0,1");
}

/// Whether the groups of two slices and what is computed of each are one thing to be priced.
bool are_alike(const std::string& one, const std::string& other) {
  const auto module = hlo::parse_module(
      fmt::format("ENTRY e {{\n  x = f32[8,64] parameter(0)\n  a = f32[2,64] slice(x), slice={{{}}}\n"
                  "  b = f32[2,64] slice(x), slice={{{}}}\n  c = f32[2,64] negate(a)\n  d = f32[2,64] negate(b)\n"
                  "  ROOT t = (f32[2,64], f32[2,64]) tuple(c, d)\n}}\n",
                  one, other));
  EXPECT_TRUE(module) << module.error().to_string();
  const hlo::Computation& entry = (*module)->entry_computation();
  const std::vector<bool> used(entry.instructions.size(), true), everywhere(entry.instructions.size(), false);
  Ratings ratings(default_target());
  GroupKernels kernels(**module, used, everywhere, ratings);
  const auto described = [&](hlo::InstructionId slice, hlo::InstructionId result) {
    return std::vector<int32_t>(kernels.describe(Group(Group(slice), Group(result)), {{result, 0}}, false));
  };
  return described(1, 3) == described(2, 4);
}

TEST(GroupKernels, AreAlikeForSlicesThatDoNotOverlap) {
  EXPECT_TRUE(are_alike("[0:2], [0:64]", "[2:4], [0:64]"));
  EXPECT_TRUE(are_alike("[6:8], [0:64]", "[0:2], [0:64]"));
  EXPECT_FALSE(are_alike("[0:2], [0:64]", "[1:3], [0:64]"));
  EXPECT_FALSE(are_alike("[0:4:2], [0:64]", "[4:6], [0:64]"));
}

}  // namespace
}  // namespace strata::emitters
