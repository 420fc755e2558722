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
