#include "hlo/random_fusion.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::hlo {
namespace {

constexpr uint64_t kSeeds = 600;

TEST(RandomFusion, VerifiesRoundTripsAndRuns) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const ModulePtr module = random_fusion(seed);
    const auto verified = verify(*module);
    ASSERT_TRUE(verified) << "seed " << seed << ": " << verified.error().to_string() << "\n" << print(*module);
    const std::string text = print(*module);
    const auto parsed = parse_module(text);
    ASSERT_TRUE(parsed) << "seed " << seed << ": " << parsed.error().to_string() << "\n" << text;
    ASSERT_EQ(print(**parsed), text) << "seed " << seed;
    const auto arguments = typical_arguments(module->entry_computation(), seed);
    const auto value = evaluate(*module, arguments);
    ASSERT_TRUE(value) << "seed " << seed << ": " << value.error().to_string() << "\n" << text;
    ASSERT_TRUE(same_shape(value->shape(), module->entry_computation().root_instruction().shape)) << text;
    const auto again = evaluate(**parsed, arguments);
    ASSERT_TRUE(again && identical(*value, *again)) << "seed " << seed << ": the parsed module has another value\n"
                                                    << text;
  }
}

TEST(RandomFusion, IsTheSameForTheSameSeed) {
  EXPECT_EQ(print(*random_fusion(7)), print(*random_fusion(7)));
  EXPECT_NE(print(*random_fusion(7)), print(*random_fusion(8)));
}

TEST(RandomFusion, ReachesEveryOperatorAndType) {
  std::set<Opcode> opcodes;
  std::set<ElementType> types;
  int empty = 0;
  int scalars = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const ModulePtr module = random_fusion(seed);
    for (const Computation& computation : module->computations) {
      for (const Instruction& instruction : computation.instructions) {
        opcodes.insert(instruction.opcode);
        types.insert(instruction.shape.type);
        empty += instruction.shape.is_array() && instruction.shape.element_count() == 0;
        scalars += instruction.shape.is_array() && instruction.shape.rank() == 0;
      }
    }
  }
  for (Opcode opcode : all_opcodes()) {
    const bool has_value = opcode != Opcode::AfterAll && opcode != Opcode::AddDependency;
    const bool expected = random_fusions_have(opcode) && has_value;
    EXPECT_TRUE(!expected || opcodes.contains(opcode)) << name(opcode);
  }
  for (int type = 0; type < static_cast<int>(ElementType::Token); ++type) {
    EXPECT_TRUE(types.contains(static_cast<ElementType>(type))) << name(static_cast<ElementType>(type));
  }
  EXPECT_GT(empty, 50);
  EXPECT_GT(scalars, 50);
}

TEST(RandomFusion, KeepsToWhatIsAllowed) {
  RandomFusionOptions options;
  options.control = false;
  options.allows = [](Opcode opcode) { return opcode == Opcode::Transpose || opcode == Opcode::Add; };
  options.allows_type = [](ElementType type) { return type == ElementType::F32; };
  int transposes = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const ModulePtr module = random_fusion(seed, options);
    for (const Instruction& instruction : module->entry_computation().instructions) {
      const Opcode opcode = instruction.opcode;
      transposes += opcode == Opcode::Transpose;
      const bool supplies = opcode == Opcode::Parameter || opcode == Opcode::Constant || opcode == Opcode::Broadcast ||
                            opcode == Opcode::Tuple;
      EXPECT_TRUE(supplies || options.allows(opcode)) << name(opcode);
      EXPECT_TRUE(!instruction.shape.is_array() || instruction.shape.type == ElementType::F32);
    }
  }
  EXPECT_GT(transposes, 20);
}

}  // namespace
}  // namespace strata::hlo
