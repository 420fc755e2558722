#include "emitters/fusion/followers.h"

#include <gtest/gtest.h>

#include "hlo/text.h"

namespace strata::emitters {
namespace {

using hlo::Opcode;

/// How many instructions follow their readers, of those that one other group alone reads.
int followers_of(const std::string& text) {
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  if (!module) return -1;
  const hlo::Computation& entry = (*module)->entry_computation();
  const size_t count = entry.instructions.size();
  std::vector<bool> transparent(count, false);
  std::vector<int> group_of(count, -1);
  std::vector<Group> groups;
  for (size_t i = 0; i < count; ++i) {
    const Opcode opcode = entry.instructions[i].opcode;
    transparent[i] = opcode == Opcode::Parameter || opcode == Opcode::Tuple || opcode == Opcode::Constant ||
                     opcode == Opcode::Broadcast;  // here of constants
    if (transparent[i]) continue;
    group_of[i] = static_cast<int>(groups.size());
    groups.emplace_back(static_cast<hlo::InstructionId>(i));
  }
  const ArrayUses uses(entry, transparent, std::vector<bool>(count, false));
  const Followers followers(entry, uses, groups);
  int found = 0;
  for (int group = 0; group < static_cast<int>(groups.size()); ++group) {
    const auto& users = uses.users(*groups[static_cast<size_t>(group)].begin());
    if (users.size() != 1) continue;
    const int reader = group_of[static_cast<size_t>(users[0].second)];
    if (followers.follows(group, reader, groups[static_cast<size_t>(group)], group_of)) ++found;
  }
  return found;
}

/// So many operators of an array that a slice, and nothing else, reads.
std::string chain(int count, const std::string& suffix,
                  const std::string& last = "f32[99] slice({}), slice={{[1:100]}}") {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format("  x{1}{0} = f32[100] negate({2})\n", suffix, i + 1,
                        i == 0 ? "p" : fmt::format("x{}{}", i, suffix));
  return text +
         fmt::format("  r{} = {}\n", suffix, fmt::format(fmt::runtime(last), fmt::format("x{}{}", count, suffix)));
}

TEST(Followers, AreOperatorsOfLongRuns) {
  const std::string head = "ENTRY e {\n  p = f32[100] parameter(0)\n";
  const std::string tail = "  ROOT t = tuple(ra, rb)\n}\n";
  // All but the one that the slice reads elsewhere.
  EXPECT_EQ(followers_of(head + chain(100, "a") + chain(90, "b") + tail), 99 + 89);
  // Many short runs are no long one.
  EXPECT_EQ(followers_of(head + chain(60, "a") + chain(64, "b") + tail), 0);
  EXPECT_EQ(followers_of(head + chain(60, "a") + chain(65, "b") + tail), 64);
}

/// What all kernels have at hand connects no runs.
TEST(Followers, AreNoRunByAConstant) {
  const std::string head =
      "ENTRY e {\n  p = f32[100] parameter(0)\n  one = f32[] constant(1)\n"
      "  c = f32[100] broadcast(one), dimensions={}\n";
  const std::string tail = "  ROOT t = tuple(ra, rb)\n}\n", sum = "f32[100] add({}, c)";
  EXPECT_EQ(followers_of(head + chain(60, "a", sum) + chain(60, "b", sum) + tail), 0);
  EXPECT_EQ(followers_of(head + chain(70, "a", sum) + chain(60, "b", sum) + tail), 70);
}

TEST(Followers, KeepNarrowResultsNarrow) {
  const std::string head = "ENTRY e {\n  p = f32[100] parameter(0)\n";
  const std::string wider = "f64[100] convert({})", narrower = "bf16[100] convert({})";
  EXPECT_EQ(followers_of(head + chain(100, "a", wider) + "}\n"), 99);
  EXPECT_EQ(followers_of(head + chain(100, "a", narrower) + "}\n"), 100);
}

}  // namespace
}  // namespace strata::emitters
