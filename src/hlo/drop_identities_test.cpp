#include "hlo/drop_identities.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::hlo {
namespace {

int count(const Module& module, Opcode opcode) {
  int found = 0;
  for (const Instruction& it : module.entry_computation().instructions) found += it.opcode == opcode ? 1 : 0;
  return found;
}

TEST(DropIdentities, WhatChangesNothingGoes) {
  const auto module = parse_module(R"(HloModule m
ENTRY e {
  p = f32[1,5,5]{2,1,0} parameter(0)
  same = f32[1,5,5]{2,1,0} broadcast(p), dimensions={0,1,2}
  again = f32[1,5,5]{2,1,0} reshape(same)
  turned = f32[1,5,5]{2,1,0} transpose(again), dimensions={0,1,2}
  kept = f32[1,5,5]{2,1,0} convert(turned)
  fenced = f32[1,5,5]{2,1,0} opt-barrier(kept)
  n = f32[1,5,5]{2,1,0} negate(fenced)
  ROOT r = f32[1,5,5]{2,1,0} broadcast(n), dimensions={0,1,2}
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const Module changed = drop_identities(**module);
  ASSERT_TRUE(verify(changed));
  EXPECT_EQ(changed.entry_computation().instructions.size(), 3U) << print(changed);
  EXPECT_EQ(changed.entry_computation().root_instruction().opcode, Opcode::Broadcast);
}

TEST(DropIdentities, WhatMovesOrConvertsStays) {
  const auto module = parse_module(R"(HloModule m
ENTRY e {
  p = f32[5,5]{1,0} parameter(0)
  turned = f32[5,5]{1,0} transpose(p), dimensions={1,0}
  other = f32[5,5]{1,0} broadcast(turned), dimensions={1,0}
  narrow = bf16[5,5]{1,0} convert(other)
  wide = f32[5,5]{1,0} convert(narrow)
  flat = f32[25]{0} reshape(wide)
  ROOT r = f32[25]{0} negate(flat)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const Module changed = drop_identities(**module);
  EXPECT_EQ(print(changed), print(**module));
  EXPECT_EQ(count(changed, Opcode::Convert), 2);
}

TEST(DropIdentities, ReshapesOfReductionsThatLeadBackGo) {
  const auto module = parse_module(R"(HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  p = f32[9,6]{1,0} parameter(0)
  z = f32[] constant(0)
  n = f32[6]{0} reduce(p, z), dimensions={0}, to_apply=add
  row = f32[1,6]{1,0} reshape(n)
  table = f32[2,3]{1,0} reshape(row)
  back = f32[6]{0} reshape(table)
  columns = f32[3,2]{1,0} reshape(table)
  ROOT r = (f32[6]{0}, f32[3,2]{1,0}) tuple(back, columns)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const Module changed = drop_identities(**module);
  ASSERT_TRUE(verify(changed));
  EXPECT_EQ(count(changed, Opcode::Reshape), 3) << print(changed);
  const Instruction& root = changed.entry_computation().root_instruction();
  EXPECT_EQ(changed.entry_computation()[root.operands[0]].opcode, Opcode::Reduce);
}

TEST(DropIdentities, TwoTransposesAreOne) {
  const auto module = parse_module(R"(HloModule m
ENTRY e {
  p = f32[2,3,5]{2,1,0} parameter(0)
  t = f32[3,5,2]{2,1,0} transpose(p), dimensions={1,2,0}
  u = f32[5,2,3]{2,1,0} transpose(t), dimensions={1,2,0}
  n = f32[5,2,3]{2,1,0} negate(u)
  back = f32[2,3,5]{2,1,0} transpose(u), dimensions={1,2,0}
  columns = f32[2,3,5]{0,1,2} transpose(u), dimensions={1,2,0}
  m = f32[2,3,5]{2,1,0} negate(back)
  c = f32[2,3,5]{0,1,2} negate(columns)
  ROOT r = (f32[5,2,3]{2,1,0}, f32[2,3,5]{2,1,0}, f32[2,3,5]{0,1,2}) tuple(n, m, c)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const Module changed = drop_identities(**module);
  ASSERT_TRUE(verify(changed));
  const auto arguments = typical_arguments((*module)->entry_computation(), 3);
  const auto expected = evaluate(**module, arguments), actual = evaluate(changed, arguments);
  ASSERT_TRUE(expected && actual);
  EXPECT_TRUE(identical(*actual, *expected));
  const Computation& entry = changed.entry_computation();
  const auto operand = [&](std::string_view name) -> const Instruction& {
    const auto found = std::ranges::find(entry.instructions, name, &Instruction::name);
    return entry[found->operands[0]];
  };
  EXPECT_EQ(operand("n").dimensions(), (std::vector<int64_t>{2, 0, 1}));
  EXPECT_EQ(entry[operand("n").operands[0]].opcode, Opcode::Parameter);
  EXPECT_EQ(operand("m").opcode, Opcode::Parameter);
  EXPECT_EQ(operand("c").opcode, Opcode::Transpose);  // to another layout
}

}  // namespace
}  // namespace strata::hlo
