// Kernels of the emitters, run on the CPU, against the interpreter.
#include "emitters/program.h"

#include <gtest/gtest.h>

#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/random_fusion.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

using hlo::Literal;

/// How the module's kernels differ from the interpreter; empty if they do not.
std::string checked(const hlo::Module& module, uint64_t seed, const EmitOptions& options = {}) {
  const auto arguments = hlo::typical_arguments(module.entry_computation(), seed);
  const auto expected = hlo::evaluate(module, arguments);
  if (!expected) return "";  // the interpreter refuses it: nothing to compare with
  const auto program = emit_program(module, options);
  if (!program) return program.error().to_string();
  const auto actual = run_on_cpu(*program, arguments);
  if (!actual) return actual.error().to_string();
  return hlo::difference(*actual, *expected, 4).value_or("");
}

/// Which instructions have values that depend on how functions are rounded: comparisons and casts would show it.
bool is_exact(hlo::Opcode opcode) {
  switch (hlo::family(opcode)) {
    case hlo::Family::Unary:
      return opcode == hlo::Opcode::Abs || opcode == hlo::Opcode::Negate || opcode == hlo::Opcode::Not ||
             opcode == hlo::Opcode::Sign || opcode == hlo::Opcode::Floor || opcode == hlo::Opcode::Ceil ||
             opcode == hlo::Opcode::Real || opcode == hlo::Opcode::Imag || opcode == hlo::Opcode::Popcnt;
    case hlo::Family::Binary:
      return opcode != hlo::Opcode::Atan2 && opcode != hlo::Opcode::Power;
    default:
      return true;
  }
}

TEST(Program, RandomModulesAgreeWithTheInterpreter) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    hlo::RandomFusionOptions options;
    options.allows = is_exact;
    const hlo::ModulePtr module = hlo::random_fusion(seed, options);
    const std::string wrong = checked(*module, seed);
    EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << (wrong.empty() ? "" : hlo::print(*module));
  }
}

TEST(Program, RandomModulesOfAllOperatorsAgree) {
  for (uint64_t seed = 1001; seed <= 1200; ++seed) {
    hlo::RandomFusionOptions options;
    options.max_instructions = 5;  // so that rounding does not grow
    const hlo::ModulePtr module = hlo::random_fusion(seed, options);
    const std::string wrong = checked(*module, seed);
    EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << (wrong.empty() ? "" : hlo::print(*module));
  }
}

}  // namespace
}  // namespace strata::emitters
