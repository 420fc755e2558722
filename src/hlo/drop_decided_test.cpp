#include "hlo/drop_decided.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hlo/evaluate.h"
#include "hlo/random_fusion.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::hlo {
namespace {

int64_t count(const Module& module, Opcode opcode) {
  const Computation& entry = module.entry_computation();
  return std::count_if(entry.instructions.begin(), entry.instructions.end(),
                       [&](const Instruction& it) { return it.opcode == opcode; });
}

/// The module after it, which is verified and computes the same bits.
Module decided(const Module& module, uint64_t seed) {
  Module result = drop_decided(module);
  const auto verified = verify(result);
  EXPECT_TRUE(verified) << verified.error().to_string() << print(result);
  const auto arguments = typical_arguments(module.entry_computation(), seed);
  const auto expected = evaluate(module, arguments), actual = evaluate(result, arguments);
  EXPECT_TRUE(expected && actual && identical(*expected, *actual)) << print(module) << print(result);
  return result;
}

TEST(DropDecided, RemaindersOfUnsignedNumbers) {
  // As JAX writes x % 19997.
  const auto module = parse_module(R"(HloModule m
ENTRY e {
  x = u32[100] parameter(0)
  zero = u32[] constant(0)
  zeros = u32[100] broadcast(zero), dimensions={}
  by = u32[] constant(19997)
  bys = u32[100] broadcast(by), dimensions={}
  rest = u32[100] remainder(x, bys)
  below = pred[100] compare(rest, zeros), direction=LT
  no = pred[] constant(false)
  nos = pred[100] broadcast(no), dimensions={}
  differ = pred[100] compare(below, nos), direction=NE
  some = pred[100] compare(rest, zeros), direction=NE
  both = pred[100] and(differ, some)
  more = u32[100] add(rest, bys)
  right = u32[100] select(both, more, rest)
  ROOT r = s32[100] convert(right)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const Module result = decided(**module, 1);
  EXPECT_EQ(count(result, Opcode::Select), 0) << print(result);
  EXPECT_EQ(count(result, Opcode::And), 0);
}

TEST(DropDecided, WhatIsNotDecidedStays) {
  const auto module = parse_module(R"(HloModule m
ENTRY e {
  x = s32[100] parameter(0)
  y = u32[100] parameter(1)
  p = pred[100] parameter(2)
  zero = s32[] constant(0)
  zeros = s32[100] broadcast(zero), dimensions={}
  none = u32[] constant(0)
  nones = u32[100] broadcast(none), dimensions={}
  signed = pred[100] compare(x, zeros), direction=LT
  above = pred[100] compare(y, nones), direction=GT
  at_least = pred[100] compare(y, nones), direction=GE
  yes = pred[] constant(true)
  yeses = pred[100] broadcast(yes), dimensions={}
  a = pred[100] and(signed, yeses)
  b = pred[100] or(above, yeses)
  c = pred[100] and(p, at_least)
  t = s32[100] select(a, x, zeros)
  u = s32[100] select(b, t, x)
  v = s32[100] select(c, u, zeros)
  ROOT r = (s32[100], pred[100]) tuple(v, above)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const Module result = decided(**module, 1);
  EXPECT_EQ(count(result, Opcode::Compare), 2) << print(result);
  EXPECT_EQ(count(result, Opcode::Select), 2) << "the one by b is t";
}

TEST(DropDecided, NumbersEverywhere) {
  const auto module = parse_module(R"(HloModule m
ENTRY e {
  x = f32[7,100] parameter(0)
  two = f32[] constant(2)
  twos = f32[7,100] broadcast(two), dimensions={}
  root = f32[7,100] sqrt(twos)
  both = f32[7,100] add(root, twos)
  ROOT r = f32[7,100] multiply(x, both)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const Module result = decided(**module, 1);
  EXPECT_EQ(count(result, Opcode::Sqrt), 0) << print(result);
  EXPECT_EQ(count(result, Opcode::Add), 0);
}

TEST(DropDecided, RandomModulesComputeTheSame) {
  // Parameters become one number everywhere at random, of which some are 0.
  int shorter = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Module module = *random_fusion(seed);
    Computation& entry = module.computations[static_cast<size_t>(module.entry)];
    for (size_t i = 0; i < entry.parameters.size(); ++i) {
      const InstructionId id = entry.parameters[i];
      const Shape shape = entry[id].shape;
      if ((seed + i) % 3 == 0 || !shape.is_array()) continue;
      Instruction& it = entry.instructions[static_cast<size_t>(id)];
      Literal value(shape);
      if (shape.element_count() > 0 && (seed + i) % 3 == 1) {
        const Literal some = typical_arguments(entry, seed)[i];
        const auto width = static_cast<size_t>(byte_width(shape.type));
        for (size_t k = 0; k < value.byte_size(); ++k) value.mutable_bytes()[k] = some.bytes()[k % width];
      }
      it.opcode = Opcode::Constant;
      it.attributes = ConstantAttributes{value, false};
    }
    std::vector<InstructionId> kept;
    for (const InstructionId id : entry.parameters) {
      Instruction& it = entry.instructions[static_cast<size_t>(id)];
      if (it.opcode != Opcode::Parameter) continue;
      it.attributes = ParameterAttributes{std::ssize(kept)};
      kept.push_back(id);
    }
    entry.parameters = kept;
    const size_t before = module.entry_computation().instructions.size();
    shorter += decided(module, seed).entry_computation().instructions.size() < before ? 1 : 0;
  }
  EXPECT_GT(shorter, 10);
}

}  // namespace
}  // namespace strata::hlo
