#include "hlo/fold_constants.h"

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

/// The folded module, which is verified and computes the same bits.
Module folded(const Module& module, uint64_t seed) {
  Module result = fold_constants(module);
  const auto verified = verify(result);
  EXPECT_TRUE(verified) << verified.error().to_string() << print(result);
  const auto arguments = typical_arguments(module.entry_computation(), seed);
  const auto expected = evaluate(module, arguments), actual = evaluate(result, arguments);
  EXPECT_TRUE(expected && actual && identical(*expected, *actual)) << print(module) << print(result);
  return result;
}

TEST(FoldConstants, BoundsOfRandomNumbers) {
  const auto module = parse_module(R"(HloModule m
ENTRY e {
  x = f32[100] parameter(0)
  low = f32[] constant(-2)
  high = f32[] constant(3)
  low.1 = f32[1,1] reshape(low)
  high.1 = f32[1,1] reshape(high)
  size.1 = f32[1,1] subtract(high.1, low.1)
  size.2 = f32[1,1] broadcast(size.1), dimensions={0,1}
  size = f32[] reshape(size.2)
  sizes = f32[100] broadcast(size), dimensions={}
  scaled = f32[100] multiply(x, sizes)
  rotations = u32[4] constant({13, 15, 26, 6})
  one = u32[1] slice(rotations), slice={[2:3]}
  by = u32[] reshape(one)
  number = f32[] convert(by)
  numbers = f32[100] broadcast(number), dimensions={}
  ROOT y = f32[100] add(scaled, numbers)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const Module result = folded(**module, 1);
  EXPECT_EQ(count(result, Opcode::Constant), 2);
  EXPECT_EQ(result.entry_computation().instructions.size(), 7U) << print(result);
}

TEST(FoldConstants, ResultsAndLargeArraysStay) {
  const auto module = parse_module(R"(HloModule m
ENTRY e {
  one = f32[] constant(1)
  two = f32[] add(one, one)
  many = f32[65] broadcast(two), dimensions={}
  three = f32[] add(two, one)
  ROOT r = (f32[], f32[65]) tuple(three, many)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const Module result = folded(**module, 1);
  EXPECT_EQ(count(result, Opcode::Broadcast), 1);
  EXPECT_EQ(count(result, Opcode::Add), 1) << "two is folded, three is a result";
}

TEST(FoldConstants, FrequenciesAreATable) {
  // Of rotary embeddings: a power of each pair's number. What is cheap, and masks of iotas, stay what they are.
  const auto module = parse_module(R"(HloModule m
ENTRY e {
  x = f32[100,32] parameter(0)
  number = s32[32] iota(), iota_dimension=0
  pair = f32[32] convert(number)
  size = f32[] constant(32)
  sizes = f32[32] broadcast(size), dimensions={}
  exponent = f32[32] divide(pair, sizes)
  base = f32[] constant(10000)
  bases = f32[32] broadcast(base), dimensions={}
  frequency = f32[32] power(bases, exponent)
  two = f32[] constant(2)
  twos = f32[32] broadcast(two), dimensions={}
  doubled = f32[32] multiply(frequency, twos)
  frequencies = f32[100,32] broadcast(doubled), dimensions={1}
  scaled = f32[100,32] multiply(x, frequencies)
  half = s32[] constant(16)
  halves = s32[32] broadcast(half), dimensions={}
  first = pred[32] compare(number, halves), direction=LT
  mask = pred[100,32] broadcast(first), dimensions={1}
  ROOT y = f32[100,32] select(mask, scaled, x)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const Module result = folded(**module, 1);
  EXPECT_EQ(count(result, Opcode::Power), 0) << print(result);
  EXPECT_EQ(count(result, Opcode::Multiply), 1) << "the table is doubled already";
  EXPECT_EQ(count(result, Opcode::Compare), 1) << "a mask is known by its iota";
  EXPECT_EQ(count(result, Opcode::Iota), 1);
}

TEST(FoldConstants, PiecesOfIotasAreATable) {
  const auto module = parse_module(R"(HloModule m
ENTRY e {
  x = u32[1000,2,2,2] parameter(0)
  bit = u32[2] iota(), iota_dimension=0
  low = u32[2,2,1] broadcast(bit), dimensions={1}
  high = u32[2,2,1] broadcast(bit), dimensions={0}
  corners = u32[2,2,2] concatenate(low, high), dimensions={2}
  all = u32[1000,2,2,2] broadcast(corners), dimensions={1,2,3}
  ROOT y = u32[1000,2,2,2] add(x, all)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const Module result = folded(**module, 1);
  EXPECT_EQ(count(result, Opcode::Concatenate), 0) << print(result);
  EXPECT_EQ(count(result, Opcode::Constant), 1);
}

TEST(FoldConstants, RandomModulesComputeTheSame) {
  // Parameters become constants at random.
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Module module = *random_fusion(seed);
    Computation& entry = module.computations[static_cast<size_t>(module.entry)];
    const auto values = typical_arguments(entry, seed);
    std::vector<InstructionId> kept;
    for (size_t i = 0; i < entry.parameters.size(); ++i) {
      Instruction& it = entry.instructions[static_cast<size_t>(entry.parameters[i])];
      if ((seed + i) % 3 == 0 || !it.shape.is_array()) {
        it.attributes = ParameterAttributes{std::ssize(kept)};
        kept.push_back(entry.parameters[i]);
      } else {
        it.opcode = Opcode::Constant;
        it.attributes = ConstantAttributes{values[i].with_shape(it.shape), false};
      }
    }
    entry.parameters = kept;
    folded(module, seed);
  }
}

}  // namespace
}  // namespace strata::hlo
