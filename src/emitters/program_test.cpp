// Kernels of the emitters, run on the CPU, against the interpreter.
#include "emitters/program.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>

#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/random_fusion.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

using hlo::Literal;

/// What programs that were compared are made of.
struct Made {
  int programs = 0;
  int kernels = 0;
  int interpreted = 0;            ///< steps that the interpreter runs, which compare it with itself
  std::map<std::string, int> by;  ///< kernels by emitter
};

/// How the module's kernels differ from the interpreter; empty if they do not.
std::string checked(const hlo::Module& module, uint64_t seed, Made& made) {
  const auto arguments = hlo::typical_arguments(module.entry_computation(), seed);
  const auto expected = hlo::evaluate(module, arguments);
  if (!expected) return "";  // the interpreter refuses it: nothing to compare with
  const auto program = emit_program(module);
  if (!program) return program.error().to_string();
  ++made.programs;
  for (const ProgramStep& step : program->steps) {
    if (step.fusion) ++made.by[std::string(step.fusion->decision().emitter)];
    made.kernels += step.fusion ? 1 : 0;
    made.interpreted += !step.fusion && !step.library ? 1 : 0;
  }
  const auto actual = run_on_cpu(*program, arguments);
  if (!actual) return actual.error().to_string();
  return hlo::difference(*actual, *expected, 4).value_or("");
}

void print(const Made& made) {
  fmt::print("{} programs of {} kernels and {} steps of the interpreter's: {}\n", made.programs, made.kernels,
             made.interpreted, made.by);
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
  Made made;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    hlo::RandomFusionOptions options;
    options.allows = is_exact;
    const hlo::ModulePtr module = hlo::random_fusion(seed, options);
    SCOPED_TRACE(seed);
    const std::string wrong = checked(*module, seed, made);
    EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << (wrong.empty() ? "" : hlo::print(*module));
  }
  print(made);
}

TEST(Program, RandomModulesOfAllOperatorsAgree) {
  Made made;
  for (uint64_t seed = 1001; seed <= 1200; ++seed) {
    hlo::RandomFusionOptions options;
    options.max_instructions = 5;  // so that rounding does not grow
    const hlo::ModulePtr module = hlo::random_fusion(seed, options);
    SCOPED_TRACE(seed);
    const std::string wrong = checked(*module, seed, made);
    EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << (wrong.empty() ? "" : hlo::print(*module));
  }
  print(made);
}

/// How many steps of a module's program the interpreter runs; the program has the interpreter's value.
int interpreted_steps(const std::string& text) {
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return -1;
  Made made;
  EXPECT_EQ(checked(**module, 1, made), "");
  const auto program = emit_program(**module);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program) return -1;
  int count = 0;
  for (const ProgramStep& step : program->steps) count += !step.fusion && !step.library;
  return count;
}

TEST(Program, LinearAlgebraIsStepsBetweenKernels) {
  EXPECT_EQ(interpreted_steps(R"(HloModule m
ENTRY main {
  b = f64[2,4,4] parameter(0)
  x = f64[2,4,3] parameter(1)
  p = f64[2,4,4] dot(b, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  i = s32[2,4,4] iota(), iota_dimension=1
  j = s32[2,4,4] iota(), iota_dimension=2
  same = pred[2,4,4] compare(i, j), direction=EQ
  one = f64[2,4,4] convert(same)
  a = f64[2,4,4] add(p, one)
  l = f64[2,4,4] cholesky(a), lower=true
  s = f64[2,4,3] negate(x)
  y = f64[2,4,3] triangular-solve(l, s), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
  z = f64[2,4,3] triangular-solve(l, y), left_side=true, lower=true, transpose_a=TRANSPOSE
  f = c128[2,4,2] fft(z), fft_type=RFFT, fft_length={3}
  m = f64[2,4,2] abs(f)
  ROOT r = f64[2,4,2] add(m, m)
}
)"),
            4);
}

TEST(Program, BatchNormsAreKernels) {
  EXPECT_EQ(interpreted_steps(R"(HloModule m
ENTRY main {
  x = f32[4,6,3,5] parameter(0)
  s = f32[6] parameter(1)
  o = f32[6] parameter(2)
  t = (f32[4,6,3,5], f32[6], f32[6]) batch-norm-training(x, s, o), epsilon=0.001, feature_index=1
  y = f32[4,6,3,5] get-tuple-element(t), index=0
  mean = f32[6] get-tuple-element(t), index=1
  variance = f32[6] get-tuple-element(t), index=2
  z = f32[4,6,3,5] batch-norm-inference(y, s, o, mean, variance), epsilon=0.001, feature_index=1
  w = f32[4,6,3,5] tanh(z)
  ROOT g = (f32[4,6,3,5], f32[6], f32[6]) batch-norm-grad(x, s, mean, variance, w), epsilon=0.001, feature_index=1
}
)"),
            0);
}

TEST(Program, ScattersOfSeveralArraysAreKernels) {
  EXPECT_EQ(interpreted_steps(R"(HloModule m
larger {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  keep = pred[] compare(a, b), direction=GE
  x = f32[] select(keep, a, b)
  y = s32[] select(keep, i, j)
  ROOT t = (f32[], s32[]) tuple(x, y)
}
ENTRY main {
  a = f32[31,3] parameter(0)
  n = s32[31,3] parameter(1)
  rows = s32[57,1] parameter(2)
  b = f32[57,3] parameter(3)
  m = s32[57,3] parameter(4)
  ROOT r = (f32[31,3], s32[31,3]) scatter(a, n, rows, b, m), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=larger
}
)"),
            0);
}

}  // namespace
}  // namespace strata::emitters
