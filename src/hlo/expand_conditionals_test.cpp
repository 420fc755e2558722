#include "hlo/expand_conditionals.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/random_fusion.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::hlo {
namespace {

ModulePtr parsed(const std::string& text) {
  auto module = parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  return module ? *module : nullptr;
}

int64_t count(const Module& module, Opcode opcode) {
  int64_t sum = 0;
  for (const Computation& computation : module.computations) {
    for (const Instruction& it : computation.instructions) sum += it.opcode == opcode ? 1 : 0;
  }
  return sum;
}

/// The expanded module, which is verified, prints as text that is read again, and has the same value.
ModulePtr checked(const Module& module, const std::vector<Literal>& arguments) {
  EXPECT_TRUE(has_conditionals(module));
  const auto expanded = expand_conditionals(module);
  EXPECT_TRUE(expanded) << expanded.error().to_string() << print(module);
  if (!expanded) return nullptr;
  EXPECT_FALSE(has_conditionals(*expanded));
  const auto verified = verify(*expanded);
  EXPECT_TRUE(verified) << verified.error().to_string() << print(*expanded);
  const ModulePtr again = parsed(print(*expanded));
  if (!again) return nullptr;
  const auto value = evaluate(module, arguments);
  const auto same = evaluate(*again, arguments);
  EXPECT_TRUE(value) << value.error().to_string();
  EXPECT_TRUE(same) << same.error().to_string();
  if (!value || !same) return nullptr;
  EXPECT_TRUE(identical(*value, *same)) << print(*again);
  return again;
}

/// Of the module's arguments the first, an s32 or a pred, is `selector`.
ModulePtr checked(const ModulePtr& module, int64_t selector) {
  if (!module) return nullptr;
  std::vector<Literal> arguments = typical_arguments(module->entry_computation(), 5);
  if (arguments[0].type() == ElementType::Pred) {
    arguments[0].set<uint64_t>(0, selector);
  } else {
    arguments[0].set<int64_t>(0, selector);
  }
  return checked(*module, arguments);
}

/// Three branches of f32[5], the second of which is `second`.
std::string of_three(const std::string& second) {
  return fmt::format(R"(HloModule m
less {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}}
first {{
  x = f32[5] parameter(0)
  ROOT r = f32[5] negate(x)
}}
second {{
  x = f32[5] parameter(0)
  ROOT r = f32[5] {}
}}
third {{
  x = f32[5] parameter(0)
  ROOT r = f32[5] exponential(x)
}}
ENTRY main {{
  i = s32[] parameter(0)
  x = f32[5] parameter(1)
  ROOT r = f32[5] conditional(i, x, x, x), branch_computations={{first, second, third}}
}}
)",
                     second);
}

TEST(ExpandConditionals, CheapBranchesAreSelects) {
  // Numbers that are no branch take the last one.
  for (const int64_t selector : {0, 1, 2, 3, -1, -7}) {
    const ModulePtr expanded = checked(parsed(of_three("sine(x)")), selector);
    ASSERT_TRUE(expanded);
    EXPECT_EQ(count(*expanded, Opcode::While), 0);
    EXPECT_EQ(count(*expanded, Opcode::Select), 2);
  }
}

TEST(ExpandConditionals, OthersAreLoopsOfOneIterationAtMost) {
  for (const int64_t selector : {0, 1, 2, 3, -1}) {
    const ModulePtr expanded = checked(parsed(of_three("sort(x), dimensions={0}, to_apply=less")), selector);
    ASSERT_TRUE(expanded);
    EXPECT_EQ(count(*expanded, Opcode::While), 1);
    EXPECT_EQ(count(*expanded, Opcode::Select), 1) << "of the two others";
    EXPECT_EQ(count(*expanded, Opcode::Broadcast), 1) << "of a flag: nothing has to be filled";
  }
}

/// The branches reduce f32[`rows`,64], or pass on what they are given.
std::string of_reductions(int64_t rows) {
  return fmt::format(R"(HloModule m
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}
centred {{
  p = (f32[{0},64], f32[2048,2049]) parameter(0)
  x = f32[{0},64] get-tuple-element(p), index=0
  zero = f32[] constant(0)
  s = f32[64] reduce(x, zero), dimensions={{0}}, to_apply=sum
  b = f32[{0},64] broadcast(s), dimensions={{1}}
  ROOT r = f32[{0},64] subtract(x, b)
}}
moved {{
  p = (f32[{0},64], f32[2048,2049]) parameter(0)
  x = f32[{0},64] get-tuple-element(p), index=0
  ROOT r = f32[{0},64] reverse(x), dimensions={{0}}
}}
kept {{
  p = (f32[{0},64], f32[2048,2049]) parameter(0)
  ROOT r = f32[{0},64] get-tuple-element(p), index=0
}}
ENTRY main {{
  i = s32[] parameter(0)
  x = f32[{0},64] parameter(1)
  w = f32[2048,2049] parameter(2)
  p = (f32[{0},64], f32[2048,2049]) tuple(x, w)
  ROOT r = f32[{0},64] conditional(i, p, p, p), branch_computations={{centred, moved, kept}}
}}
)",
                     rows);
}

TEST(ExpandConditionals, ReductionsOfFewElementsAreCheap) {
  // What a branch is given and does not read costs nothing.
  for (const int64_t selector : {0, 1, 2}) {
    const ModulePtr expanded = checked(parsed(of_reductions(5)), selector);
    ASSERT_TRUE(expanded);
    EXPECT_EQ(count(*expanded, Opcode::While), 0);
    EXPECT_EQ(count(*expanded, Opcode::Select), 2);
  }
  const auto large = expand_conditionals(*parsed(of_reductions(1 << 16)));
  ASSERT_TRUE(large) << large.error().to_string();
  EXPECT_EQ(count(*large, Opcode::While), 2) << "both but the one that passes on what it is given";
  EXPECT_EQ(count(*large, Opcode::Select), 0);
}

TEST(ExpandConditionals, ABranchThatMayNotEndIsNotComputedForNothing) {
  // The loop ends at once only where its branch is taken: evaluating it otherwise would take forever.
  constexpr const char* text = R"(HloModule m
goes_on {
  s = (s32[], pred[]) parameter(0)
  ROOT r = pred[] get-tuple-element(s), index=1
}
same {
  ROOT s = (s32[], pred[]) parameter(0)
}
endless {
  s = (s32[], pred[]) parameter(0)
  w = (s32[], pred[]) while(s), condition=goes_on, body=same
  ROOT r = s32[] get-tuple-element(w), index=0
}
number {
  ROOT x = s32[] parameter(0)
}
ENTRY main {
  p = pred[] parameter(0)
  x = s32[] parameter(1)
  s = (s32[], pred[]) tuple(x, p)
  ROOT r = s32[] conditional(p, x, s), true_computation=number, false_computation=endless
}
)";
  for (const int64_t selector : {0, 1}) {
    const ModulePtr expanded = checked(parsed(text), selector);
    ASSERT_TRUE(expanded);
    // The other branch is the number it begins with, and no loop.
    EXPECT_EQ(count(*expanded, Opcode::While), 2);
  }
}

TEST(ExpandConditionals, TuplesOfManyTypesAndNestedOnes) {
  constexpr const char* text = R"(HloModule m
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}
swapped {
  p = (f32[3]{0}, (c64[2], f8e8m0fnu[2], pred[4]), f32[3]) parameter(0)
  a = f32[3] get-tuple-element(p), index=0
  b = (c64[2], f8e8m0fnu[2], pred[4]) get-tuple-element(p), index=1
  c = f32[3] get-tuple-element(p), index=2
  sorted = f32[3] sort(a), dimensions={0}, to_apply=less
  ROOT r = ((c64[2], f8e8m0fnu[2], pred[4]), f32[3], f32[3]) tuple(b, c, sorted)
}
twice {
  x = f32[3] parameter(0)
  i = c64[2] constant({(0, 1), (2, 3)})
  e = f8e8m0fnu[2] constant({1, 4})
  q = pred[4] constant({1, 0, 1, 0})
  b = (c64[2], f8e8m0fnu[2], pred[4]) tuple(i, e, q)
  ROOT r = ((c64[2], f8e8m0fnu[2], pred[4]), f32[3], f32[3]) tuple(b, x, x)
}
ENTRY main {
  p = pred[] parameter(0)
  x = f32[3] parameter(1)
  i = c64[2] parameter(2)
  e = f8e8m0fnu[2] parameter(3)
  q = pred[4] parameter(4)
  b = (c64[2], f8e8m0fnu[2], pred[4]) tuple(i, e, q)
  t = (f32[3], (c64[2], f8e8m0fnu[2], pred[4]), f32[3]) tuple(x, b, x)
  ROOT r = ((c64[2], f8e8m0fnu[2], pred[4]), f32[3], f32[3]) conditional(p, t, x), true_computation=swapped,
    false_computation=twice
}
)";
  for (const int64_t selector : {0, 1}) EXPECT_TRUE(checked(parsed(text), selector));
}

TEST(ExpandConditionals, PassedElementsAreWhatTheOtherBranchBeginsWith) {
  constexpr const char* text = R"(HloModule m
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}
ordered {
  p = (f32[7], s32[2]) parameter(0)
  a = f32[7] get-tuple-element(p), index=0
  b = s32[2] get-tuple-element(p), index=1
  sorted = f32[7] sort(a), dimensions={0}, to_apply=less
  ROOT r = (s32[2], f32[7]) tuple(b, sorted)
}
kept {
  p = (f32[7], s32[2]) parameter(0)
  a = f32[7] get-tuple-element(p), index=0
  b = s32[2] get-tuple-element(p), index=1
  ROOT r = (s32[2], f32[7]) tuple(b, a)
}
ENTRY main {
  p = pred[] parameter(0)
  x = f32[7] parameter(1)
  n = s32[2] parameter(2)
  t = (f32[7], s32[2]) tuple(x, n)
  ROOT r = (s32[2], f32[7]) conditional(p, t, t), true_computation=kept, false_computation=ordered
}
)";
  for (const int64_t selector : {0, 1}) {
    const ModulePtr expanded = checked(parsed(text), selector);
    ASSERT_TRUE(expanded);
    EXPECT_EQ(count(*expanded, Opcode::While), 1);
    EXPECT_EQ(count(*expanded, Opcode::Broadcast), 0) << "nothing has to be filled";
  }
}

/// Whether the conditional of a module becomes selects alone.
bool are_selects(const std::string& text, const InputOutputAliases& given = {}) {
  const auto expanded = expand_conditionals(*parsed(text), given);
  EXPECT_TRUE(expanded) << expanded.error().to_string();
  return expanded && count(*expanded, Opcode::Select) > 0;
}

/// Two branches, of f32[`rows`,2048] each.
std::string of_two(int64_t rows, const std::string& second_operand) {
  return fmt::format(R"(HloModule m
first {{
  x = f32[{0},2048] parameter(0)
  ROOT r = f32[{0},2048] negate(x)
}}
second {{
  x = f32[{0},2048] parameter(0)
  ROOT r = f32[{0},2048] sine(x)
}}
ENTRY main {{
  p = pred[] parameter(0)
  x = f32[{0},2048] parameter(1)
  y = f32[{0},2048] parameter(2)
  ROOT r = f32[{0},2048] conditional(p, x, {1}), true_computation=first, false_computation=second
}}
)",
                     rows, second_operand);
}

TEST(ExpandConditionals, LargeElementwiseBranchesOfOtherArraysRunOnlyWhereTaken) {
  EXPECT_FALSE(are_selects(of_two(4096, "y"))) << "y would be read for nothing";
  EXPECT_TRUE(are_selects(of_two(4096, "x"))) << "no more is read than by each alone";
  for (const int64_t selector : {0, 1}) EXPECT_TRUE(checked(parsed(of_two(3, "x")), selector));
}

/// A step of an optimizer: where p, what it has made and weights beside it move to each other, else both stay. As
/// the entry, or as the body of a loop.
std::string of_weights(int64_t rows, bool in_loop) {
  const std::string array = fmt::format("f32[{},2048]", rows);
  const std::string both = fmt::format("({0}, {0})", array);
  std::string text = fmt::format(R"(HloModule m
kept {{
  ROOT s = {1} parameter(0)
}}
moved {{
  s = {1} parameter(0)
  a = {0} get-tuple-element(s), index=0
  b = {0} get-tuple-element(s), index=1
  d = {0} subtract(a, b)
  half = f32[] constant(0.5)
  halves = {0} broadcast(half), dimensions={{}}
  e = {0} multiply(d, halves)
  m = {0} add(b, e)
  ROOT r = {1} tuple(m, m)
}}
)",
                                 array, both);
  const std::string step = fmt::format(R"(  x = {0} exponential(w)
  t = {1} tuple(x, slow)
  ROOT r = {1} conditional(p, t, t), true_computation=moved, false_computation=kept
}}
)",
                                       array, both);
  if (!in_loop) {
    return text + fmt::format(
                      "ENTRY main {{\n  p = pred[] parameter(0)\n  w = {0} parameter(1)\n"
                      "  slow = {0} parameter(2)\n{1}",
                      array, step);
  }
  return text + fmt::format(R"(body {{
  s = {1} parameter(0)
  w = {0} get-tuple-element(s), index=0
  slow = {0} get-tuple-element(s), index=1
  corner = f32[1,1] slice(w), slice={{[0:1], [0:1]}}
  number = f32[] reshape(corner)
  p = pred[] compare(number, number), direction=EQ
{2}goes {{
  s = {1} parameter(0)
  w = {0} get-tuple-element(s), index=0
  corner = f32[1,1] slice(w), slice={{[0:1], [0:1]}}
  number = f32[] reshape(corner)
  much = f32[] constant(1000)
  ROOT r = pred[] compare(number, much), direction=LT
}}
ENTRY main {{
  w = {0} parameter(0)
  slow = {0} parameter(1)
  s = {1} tuple(w, slow)
  ROOT r = {1} while(s), condition=goes, body=body
}}
)",
                            array, both, step);
}

TEST(ExpandConditionals, WhatMustBeCopiedAnywayIsChosenOnTheWay) {
  EXPECT_TRUE(are_selects(of_weights(4096, false)));
  for (const int64_t selector : {0, 1}) EXPECT_TRUE(checked(parsed(of_weights(3, false)), selector));
  // Where the weights may stay where they are, nothing of them is read or written if they do not move.
  EXPECT_FALSE(are_selects(of_weights(4096, false), {{{1}, 2, {}, false}}));
  EXPECT_TRUE(are_selects(of_weights(4096, false), {{{0}, 1, {}, false}})) << "what is given away is another array";
  EXPECT_FALSE(are_selects(of_weights(4096, true)));
}

TEST(ExpandConditionals, RandomFusionsKeepTheirValues) {
  int64_t seen = 0;
  for (uint64_t seed = 1; seed <= 4000 && seen < 60; ++seed) {
    const ModulePtr module = random_fusion(seed);
    if (!has_conditionals(*module)) continue;
    ++seen;
    EXPECT_TRUE(checked(*module, typical_arguments(module->entry_computation(), seed))) << "seed " << seed;
  }
  EXPECT_GE(seen, 20);
}

}  // namespace
}  // namespace strata::hlo
