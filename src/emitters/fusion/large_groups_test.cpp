#include <gtest/gtest.h>

#include "emitters/fusion/pass.h"
#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

/// Weights of the neighbours at `taps` by `taps` places, with channels that a weight sums over; the weighted mean.
std::string bilateral(int taps, int rows, int columns, int channels) {
  const std::string all = fmt::format("f32[{},{},{}]", rows, columns, channels);
  const std::string one = fmt::format("f32[{},{}]", rows, columns);
  std::string text = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n";
  text += fmt::format("ENTRY e {{\n  zero = f32[] constant(0)\n  p = f32[{},{},{}] parameter(0)\n", rows + taps - 1,
                      columns + taps - 1, channels);
  const int middle = taps / 2;
  text += fmt::format("  x = {} slice(p), slice={{[{}:{}], [{}:{}], [0:{}]}}\n", all, middle, middle + rows, middle,
                      middle + columns, channels);
  for (int i = 0, n = 0; i < taps; ++i) {
    for (int j = 0; j < taps; ++j, ++n) {
      text += fmt::format("  y{} = {} slice(p), slice={{[{}:{}], [{}:{}], [0:{}]}}\n", n, all, i, i + rows, j,
                          j + columns, channels);
      text += fmt::format("  d{0} = {1} subtract(y{0}, x)\n  q{0} = {1} multiply(d{0}, d{0})\n", n, all);
      text += fmt::format("  s{0} = {1} reduce(q{0}, zero), dimensions={{2}}, to_apply=add\n", n, one);
      text += fmt::format("  m{0} = {1} negate(s{0})\n  w{0} = {1} exponential(m{0})\n", n, one);
      text += fmt::format("  v{0} = {1} broadcast(w{0}), dimensions={{0,1}}\n", n, all);
      text += fmt::format("  t{0} = {1} multiply(v{0}, y{0})\n", n, all);
      text += n == 0 ? fmt::format("  e0 = {} copy(w0)\n  u0 = {} copy(t0)\n", one, all)
                     : fmt::format("  e{0} = {2} add(e{1}, w{0})\n  u{0} = {3} add(u{1}, t{0})\n", n, n - 1, one, all);
    }
  }
  const int last = taps * taps - 1;
  return text +
         fmt::format("  f = {1} broadcast(e{0}), dimensions={{0,1}}\n  ROOT r = {1} divide(u{0}, f)\n}}\n", last, all);
}

/// Steps of three values that all depend on each other.
std::string unrolled_steps(int steps) {
  std::string text = "ENTRY e {\n";
  for (const char* name : {"x", "y", "z"})
    text += fmt::format("  {}0 = f32[100003] parameter({})\n", name, name[0] - 'x');
  for (int t = 0; t < steps; ++t) {
    text += fmt::format("  a{0} = f32[100003] subtract(y{0}, x{0})\n  b{0} = f32[100003] multiply(x{0}, z{0})\n", t);
    text += fmt::format("  c{0} = f32[100003] multiply(x{0}, y{0})\n  x{1} = f32[100003] add(x{0}, a{0})\n", t, t + 1);
    text +=
        fmt::format("  y{1} = f32[100003] subtract(y{0}, b{0})\n  z{1} = f32[100003] subtract(c{0}, z{0})\n", t, t + 1);
  }
  return text + fmt::format("  ROOT t = tuple(x{0}, y{0}, z{0})\n}}\n", steps);
}

/// Sums and differences of elements 1, 2, 4 and so on apart (a Walsh-Hadamard transform of rows).
std::string butterflies(int levels) {
  std::string text = fmt::format("ENTRY e {{\n  x0 = f32[1000,{}] parameter(0)\n", 1 << levels);
  for (int level = 0; level < levels; ++level) {
    const int step = 1 << level, groups = 1 << (levels - level - 1);
    text += fmt::format("  r{0} = f32[1000,{1},2,{2}] reshape(x{0})\n", level, groups, step);
    for (const int side : {0, 1}) {
      text +=
          fmt::format("  s{0}{1} = f32[1000,{2},1,{3}] slice(r{0}), slice={{[0:1000], [0:{2}], [{1}:{4}], [0:{3}]}}\n",
                      level, side, groups, step, side + 1);
    }
    text += fmt::format("  a{0} = f32[1000,{1},1,{2}] add(s{0}0, s{0}1)\n", level, groups, step);
    text += fmt::format("  d{0} = f32[1000,{1},1,{2}] subtract(s{0}0, s{0}1)\n", level, groups, step);
    text +=
        fmt::format("  c{0} = f32[1000,{1},2,{2}] concatenate(a{0}, d{0}), dimensions={{2}}\n", level, groups, step);
    text += fmt::format("  x{} = f32[1000,{}] reshape(c{})\n", level + 1, 1 << levels, level);
  }
  return text + fmt::format("  ROOT r = f32[1000,{}] negate(x{})\n}}\n", 1 << levels, levels);
}

struct Cut {
  size_t kernels = 0;
  size_t instructions = 0;
  FusionWork work;
};

Cut cut(const std::string& text) {
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  Cut result;
  if (!module) return result;
  result.instructions = (*module)->entry_computation().instructions.size();
  result.kernels = fuse(**module, default_target(), Parameters::Kept, &result.work).size();
  return result;
}

TEST(LargeGroups, StencilsOfManyTapsAreOneKernel) {
  for (const int taps : {5, 7}) {
    const Cut found = cut(bilateral(taps, 271, 483, 3));
    EXPECT_EQ(found.kernels, 1U) << taps;
    // Beyond 100 times the pass joins small groups only.
    EXPECT_LE(found.work.instructions_built, 100 * found.instructions) << taps;
  }
}

TEST(LargeGroups, UnrolledStepsAreOneKernel) {
  const Cut found = cut(unrolled_steps(200));
  EXPECT_EQ(found.kernels, 1U);
  EXPECT_LE(found.work.instructions_rated, 300 * found.instructions);
}

/// Each level reads two elements for one, so a kernel of all levels would read all of a row for each of its elements.
TEST(LargeGroups, ButterfliesAreCutBeforeTheyRepeatTheirWork) {
  for (const int levels : {4, 7, 10}) {
    const auto module = hlo::parse_module(butterflies(levels));
    ASSERT_TRUE(module) << module.error().to_string();
    const double elements = 1000.0 * (1 << levels);
    const double as_one_kernel = kernel_work(**module, default_target()).operations / elements;
    double sum = 0;
    for (const ProgramPart& part : fuse(**module, default_target()))
      sum += kernel_work(part.module, default_target()).operations / elements;
    EXPECT_LE(sum, 64 * levels);
    if (levels >= 7) {
      EXPECT_GT(as_one_kernel, 10 * sum);
    }
  }
}

/// No kernel has more code than caches of instructions hold, whatever an operator takes.
TEST(LargeGroups, AreCutWhereTheirCodeIsLong) {
  for (const int count : {300, 900}) {
    std::string text = "ENTRY e {\n  x0 = f32[100003] parameter(0)\n";
    for (int i = 0; i < count; ++i) text += fmt::format("  x{} = f32[100003] atan2(x{}, x0)\n", i + 1, i);
    const auto module = hlo::parse_module(text + "}\n");
    ASSERT_TRUE(module) << module.error().to_string();
    const auto parts = fuse(**module, default_target());
    double code = 0;
    for (const ProgramPart& part : parts) {
      const KernelWork work = kernel_work(part.module, default_target());
      EXPECT_LE(work.code, kMostCode);
      code += work.code;
    }
    EXPECT_LE(static_cast<double>(parts.size()), 2 * code / kMostCode + 2) << count;
  }
}

TEST(LargeGroups, ComputeTheSame) {
  for (const std::string& text : {butterflies(7), bilateral(5, 9, 13, 3), bilateral(6, 7, 5, 5)}) {
    const auto module = hlo::parse_module("HloModule m\n" + text);
    ASSERT_TRUE(module) << module.error().to_string();
    const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 1);
    const auto expected = hlo::evaluate(**module, arguments);
    ASSERT_TRUE(expected) << expected.error().to_string();
    const auto program = emit_program(**module, {});
    ASSERT_TRUE(program) << program.error().to_string();
    const auto run = run_on_cpu(*program, arguments);
    ASSERT_TRUE(run) << run.error().to_string();
    EXPECT_EQ(hlo::difference(*run, *expected, 64).value_or(""), "");
  }
}

}  // namespace
}  // namespace strata::emitters
