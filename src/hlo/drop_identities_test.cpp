#include "hlo/drop_identities.h"

#include <gtest/gtest.h>

#include "hlo/text.h"
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

}  // namespace
}  // namespace strata::hlo
