// Factors, solves and random bits as kernels and loops, run on the CPU, against the interpreter.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

int interpreted_steps(const EmittedProgram& program) {
  int count = 0;
  for (const ProgramStep& step : program.steps) {
    if (step.loop) {
      count += interpreted_steps(*step.loop->body);
      if (step.loop->condition) count += interpreted_steps(*step.loop->condition);
    } else {
      count += !step.fusion && !step.library;
    }
  }
  return count;
}

/// How the module's kernels differ from the interpreter; no step may be the interpreter's.
std::string checked(const std::string& text, hlo::Unit unit) {
  const auto module = hlo::parse_module(text);
  if (!module) return module.error().to_string() + text;
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 5);
  const auto expected = hlo::evaluate(**module, arguments);
  if (!expected) return expected.error().to_string();
  const auto program = emit_program(**module);
  if (!program) return program.error().to_string();
  if (const int count = interpreted_steps(*program); count > 0)
    return fmt::format("{} steps are the interpreter's:\n{}", count, explain(*program));
  const auto actual = run_on_cpu(*program, arguments);
  if (!actual) return actual.error().to_string();
  return hlo::difference(*actual, *expected, 16, unit).value_or("");
}

/// Instructions that make p + n · 1 of p: far from singular, whatever is random in it.
std::string dominant(const std::string& type, int64_t batch, int64_t n) {
  return fmt::format(R"(
  p = {0}[{1},{2},{2}] parameter(0)
  i = s32[{1},{2},{2}] iota(), iota_dimension=1
  j = s32[{1},{2},{2}] iota(), iota_dimension=2
  same = pred[{1},{2},{2}] compare(i, j), direction=EQ
  one = {0}[{1},{2},{2}] convert(same)
  n = {0}[] constant({2})
  ns = {0}[{1},{2},{2}] broadcast(n), dimensions={{}}
  d = {0}[{1},{2},{2}] multiply(one, ns)
  a = {0}[{1},{2},{2}] add(p, d)
)",
                     type, batch, n);
}

TEST(LinearAlgebra, FactorsAreKernels) {
  for (const auto& [batch, n] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {2, 33}, {1, 130}}) {
    for (const std::string lower : {"true", "false"}) {
      const std::string shape = fmt::format("f32[{},{},{}]", batch, n, n);
      EXPECT_EQ(checked(fmt::format("HloModule m\nENTRY e {{{0}  q = {1} dot(a, a), lhs_batch_dims={{0}}, "
                                    "rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}\n  "
                                    "l = {1} cholesky(q), lower={2}\n  ROOT r = {1} negate(l)\n}}\n",
                                    dominant("f32", batch, n), shape, lower),
                        hlo::Unit::Array),
                "")
          << shape << lower;
    }
  }
}

TEST(LinearAlgebra, SolutionsAreKernels) {
  for (const auto& [batch, n] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {1, 150}}) {
    for (const std::string how : {"left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
                                  "left_side=true, lower=false, transpose_a=ADJOINT, unit_diagonal=false",
                                  "left_side=false, lower=true, transpose_a=TRANSPOSE"}) {
      const bool left = how.starts_with("left_side=true");
      const std::string shape = fmt::format("f64[{},{},{}]", batch, left ? n : 4, left ? 4 : n);
      EXPECT_EQ(checked(fmt::format("HloModule m\nENTRY e {{{}  b = {} parameter(1)\n  ROOT x = {} "
                                    "triangular-solve(a, b), {}\n}}\n",
                                    dominant("f64", batch, n), shape, shape, how),
                        hlo::Unit::Array),
                "")
          << shape << how;
    }
  }
}

TEST(LinearAlgebra, CallsOfCusolverAreKernels) {
  for (const auto& [batch, n] : {std::pair<int64_t, int64_t>{1, 1}, {3, 6}, {1, 131}}) {
    const std::string shape = fmt::format("f32[{},{},{}]", batch, n, n);
    EXPECT_EQ(
        checked(fmt::format("HloModule m\nENTRY e {{\n  a = {0} parameter(0)\n  t = ({0}, s32[{1},{2}], s32[{1}]) "
                            "custom-call(a), custom_call_target=\"cusolver_getrf_ffi\"\n  u = s32[{1},{2}] "
                            "get-tuple-element(t), index=1\n  c = s32[] constant(1)\n  o = s32[{1},{2}] broadcast(c), "
                            "dimensions={{}}\n  v = s32[{1},{2}] subtract(u, o)\n  q = s32[{1},{2}] custom-call(v), "
                            "custom_call_target=\"cu_lu_pivots_to_permutation\"\n  l = {0} get-tuple-element(t), "
                            "index=0\n  ROOT r = ({0}, s32[{1},{2}], s32[{1},{2}]) tuple(l, u, q)\n}}\n",
                            shape, batch, n),
                hlo::Unit::Array),
        "")
        << shape;
  }
}

TEST(LinearAlgebra, RandomBitsAreKernels) {
  for (const std::string algorithm : {"rng_default", "rng_three_fry"}) {
    for (const std::string bits : {"u32[7,9]", "u64[5,3]", "u8[33]", "s16[3,5]"}) {
      EXPECT_EQ(checked(fmt::format("HloModule m\nENTRY e {{\n  s = u64[2] parameter(0)\n  ROOT r = (u64[2], {}) "
                                    "rng-bit-generator(s), algorithm={}\n}}\n",
                                    bits, algorithm),
                        hlo::Unit::Element),
                "")
          << bits << algorithm;
    }
  }
}

}  // namespace
}  // namespace strata::emitters
