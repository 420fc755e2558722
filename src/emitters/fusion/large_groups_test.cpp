#include <gtest/gtest.h>

#include "emitters/flatten_module.h"
#include "emitters/fusion/cut_entry.h"
#include "emitters/fusion/pass.h"
#include "emitters/library/calls.h"
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

/// The forward algorithm of a chain: states summed over states before, and the score of given states, which every step
/// adds to. Masks keep what is beyond a length.
std::string forward_algorithm(int steps) {
  std::string text = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n";
  text += fmt::format(
      "ENTRY e {{\n  zero = f32[] constant(0)\n  x = f32[33,{0},23] parameter(0)\n"
      "  w = f32[23,23] parameter(1)\n  m = pred[33,{0}] parameter(2)\n  k = s32[33,{0}] parameter(3)\n"
      "  v = f32[23] parameter(4)\n  s0 = f32[33] parameter(5)\n  a0 = f32[33,23] parameter(6)\n"
      "  y = f32[33,23,23] broadcast(w), dimensions={{1,2}}\n",
      steps);
  for (int t = 0; t < steps; ++t) {
    const std::string at = fmt::format("slice={{[0:33], [{}:{}]", t, t + 1);
    text += fmt::format(
        "  xs{0} = f32[33,1,23] slice(x), {1}, [0:23]}}\n  x{0} = f32[33,23] reshape(xs{0})\n"
        "  ms{0} = pred[33,1] slice(m), {1}}}\n  m{0} = pred[33] reshape(ms{0})\n"
        "  k{0} = s32[33,1] slice(k), {1}}}\n",
        t, at);
    text += fmt::format(
        "  g{0} = f32[33] gather(v, k{0}), offset_dims={{}}, collapsed_slice_dims={{0}}, "
        "start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}\n"
        "  z{0} = f32[33] broadcast(zero), dimensions={{}}\n"
        "  h{0} = f32[33] select(m{0}, g{0}, z{0})\n  s{1} = f32[33] add(s{0}, h{0})\n",
        t, t + 1);
    text += fmt::format(
        "  b{0} = f32[33,23,23] broadcast(a{0}), dimensions={{0,1}}\n"
        "  c{0} = f32[33,23,23] add(b{0}, y)\n  e{0} = f32[33,23,23] exponential(c{0})\n"
        "  r{0} = f32[33,23] reduce(e{0}, zero), dimensions={{1}}, to_apply=add\n"
        "  l{0} = f32[33,23] log(r{0})\n  p{0} = f32[33,23] add(l{0}, x{0})\n"
        "  n{0} = pred[33,23] broadcast(m{0}), dimensions={{0}}\n"
        "  a{1} = f32[33,23] select(n{0}, p{0}, a{0})\n",
        t, t + 1);
  }
  return text + fmt::format("  ROOT t = tuple(s{0}, a{0})\n}}\n", steps);
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

/// A state that goes through chunks of a delta rule: each is multiplied by an inverse, which is made by squaring.
std::string delta_rule(int chunks, int size) {
  const std::string all = fmt::format("bf16[3,{},{}]", size * chunks, size), dims = fmt::format("[3,{0},{0}]", size);
  std::string text = fmt::format("ENTRY e {{\n  k = {0} parameter(0)\n  v = {0} parameter(1)\n", all);
  text += fmt::format("  zero = bf16[] constant(0)\n  s0 = bf16{0} broadcast(zero), dimensions={{}}\n", dims);
  text += fmt::format("  i = s32{0} iota(), iota_dimension=1\n  j = s32{0} iota(), iota_dimension=2\n", dims);
  text +=
      fmt::format("  below = pred{0} compare(j, i), direction=LT\n  on = pred{0} compare(j, i), direction=EQ\n", dims);
  text += fmt::format("  one = bf16{} convert(on)\n", dims);
  const auto add = [&](const std::string& name, int chunk, const std::string& what) {
    text += fmt::format("  {}{} = bf16{} {}\n", name, chunk, dims, what);
  };
  const auto dot = [&](const std::string& name, int chunk, const std::string& a, const std::string& b) {
    add(name, chunk,
        fmt::format("dot({}, {}), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, "
                    "rhs_contracting_dims={{1}}",
                    a, b));
  };
  for (int c = 0; c < chunks; ++c) {
    const auto of = [&](const char* name) { return name + std::to_string(c); };
    const std::string part = fmt::format("slice={{[0:3], [{}:{}], [0:{}]}}", c * size, (c + 1) * size, size);
    add("x", c, fmt::format("slice(k), {}", part));
    add("y", c, fmt::format("slice(v), {}", part));
    add("xt", c, fmt::format("transpose({}), dimensions={{0,2,1}}", of("x")));
    dot("xx", c, of("x"), of("xt"));
    add("a", c, fmt::format("select(below, {}, s0)", of("xx")));
    add("b", c, fmt::format("subtract(one, {})", of("a")));
    dot("p", c, of("a"), of("a"));
    dot("q", c, of("b"), of("p"));
    add("d", c, fmt::format("add({}, {})", of("b"), of("q")));
    dot("pp", c, of("p"), of("p"));
    dot("dp", c, of("d"), of("pp"));
    add("f", c, fmt::format("add({}, {})", of("d"), of("dp")));
    dot("xs", c, of("x"), of("s"));
    add("w", c, fmt::format("subtract({}, {})", of("y"), of("xs")));
    dot("fw", c, of("f"), of("w"));
    dot("u", c, of("xt"), of("fw"));
    add("s", c + 1, fmt::format("add({}, {})", of("s"), of("u")));
  }
  return text + fmt::format("  ROOT out = bf16{} copy(s{})\n}}\n", dims, chunks);
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

/// Kernels are about as many times more as steps; rating each neighbour of a group whenever it grows would make both
/// grow with the square and the third power.
TEST(LargeGroups, MoreStepsAreRatedAboutAsMuchMore) {
  const Cut few = cut(forward_algorithm(40)), many = cut(forward_algorithm(120));
  EXPECT_LE(many.work.kernels_rated, 4 * few.work.kernels_rated);
  EXPECT_LE(many.work.instructions_rated, 12 * few.work.instructions_rated);
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

/// A product that reads sums of another one computes each of them again: 13 times as much for each product in a chain.
TEST(LargeGroups, ChainedProductsAreCutBeforeTheyRepeatTheirWork) {
  for (const int chunks : {2, 3, 5}) {
    const auto module = hlo::parse_module("HloModule m\n" + delta_rule(chunks, 13));
    ASSERT_TRUE(module) << module.error().to_string();
    const hlo::Module sums = prepare_for_libraries(flatten_module(**module, /*one_kernel=*/false), default_target(),
                                                   LibraryUse::WhereFaster);
    double sum = 0;
    for (const ProgramPart& part : cut_entry(sums, default_target(), Parameters::Kept).parts)
      sum += kernel_work(part.module, default_target()).operations;
    const double terms = 8.0 * chunks * 3 * 13 * 13 * 13;
    EXPECT_LE(sum / terms, 64);
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
  for (const std::string& text : {butterflies(7), bilateral(5, 9, 13, 3), bilateral(6, 7, 5, 5), delta_rule(3, 4)}) {
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
