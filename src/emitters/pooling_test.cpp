// Gradients of pooling by maxima: kernels of their own, on the CPU, against the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "support/random.h"

namespace strata::emitters {
namespace {

struct Pooling {
  std::string type = "f32", combiner = "add(a, b)";
  std::vector<int64_t> dims, sizes, strides, low, high;
};

std::string text_of(const Pooling& of) {
  std::vector<int64_t> windows;
  std::vector<std::string> pads;
  for (size_t d = 0; d < of.dims.size(); ++d) {
    windows.push_back((of.dims[d] + of.low[d] + of.high[d] - of.sizes[d]) / of.strides[d] + 1);
    pads.push_back(fmt::format("{}_{}", of.low[d], of.high[d]));
  }
  return fmt::format(
      "HloModule m\nselect {{ a = {0}[] parameter(0) b = {0}[] parameter(1) ROOT r = pred[] compare(a, b), "
      "direction=GE }}\nscatter {{ a = {0}[] parameter(0) b = {0}[] parameter(1) ROOT r = {0}[] {1} }}\nENTRY e {{\n  "
      "x = {0}[{2}] parameter(0)\n  s = {0}[{3}] parameter(1)\n  z = {0}[] constant(0)\n  w = {0}[{2}] multiply(x, "
      "x)\n  ROOT r = {0}[{2}] select-and-scatter(w, s, z), window={{size={4} stride={5} pad={6}}}, select=select, "
      "scatter=scatter\n}}\n",
      of.type, of.combiner, fmt::join(of.dims, ","), fmt::join(windows, ","), fmt::join(of.sizes, "x"),
      fmt::join(of.strides, "x"), fmt::join(pads, "x"));
}

/// How the kernels differ from the interpreter; empty if they do not. None may be the interpreter's.
std::string checked(const std::string& text, uint64_t seed, size_t* steps = nullptr) {
  const auto module = hlo::parse_module(text);
  if (!module) return module.error().to_string();
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), seed);
  const auto expected = hlo::evaluate(**module, arguments);
  if (!expected) return expected.error().to_string();
  const auto program = emit_program(**module);
  if (!program) return program.error().to_string();
  for (const ProgramStep& step : program->steps) {
    if (!step.fusion) return "a step is the interpreter's: " + step.why_interpreted;
  }
  if (steps != nullptr) *steps = program->steps.size();
  const auto actual = run_on_cpu(*program, arguments);
  if (!actual) return actual.error().to_string();
  return hlo::difference(*actual, *expected, 4).value_or("");
}

TEST(Pooling, GradientsAreKernels) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
    const char* types[] = {"f32", "bf16", "f64", "s32"};
    const char* combiners[] = {"add(a, b)", "add(b, a)", "maximum(a, b)", "multiply(a, b)"};
    Pooling it{types[below(4)], combiners[below(4)]};
    for (int64_t d = 0; d < 1 + below(4); ++d) {
      it.dims.push_back(4 + below(9));
      it.sizes.push_back(1 + below(4));
      it.strides.push_back(1 + below(3));
      it.low.push_back(below(it.sizes.back()));
      it.high.push_back(below(it.sizes.back()));
    }
    SCOPED_TRACE(text_of(it));
    EXPECT_EQ(checked(text_of(it), seed), "");
  }
}

/// The gradient of a pooling by powers: what a window gives is computed once, not again for each of its 9 elements.
TEST(Pooling, GradientsOfPowersComputeEachWindowOnce) {
  const auto text = [](int64_t images, int64_t windows) {
    const int64_t size = 2 * windows + 1;
    return fmt::format(R"(HloModule m
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
ENTRY e {{
  x = f32[{0},{2},{2},61] parameter(0)
  g = f32[{0},{1},{1},61] parameter(1)
  zero = f32[] constant(0)
  exponent = f32[] constant(-0.6)
  cube = f32[{0},{2},{2},61] multiply(x, x)
  w = f32[{0},{1},{1},61] reduce-window(cube, zero), window={{size=1x3x3x1 stride=1x2x2x1}}, to_apply=add
  exponents = f32[{0},{1},{1},61] broadcast(exponent), dimensions={{}}
  root = f32[{0},{1},{1},61] power(w, exponents)
  scaled = f32[{0},{1},{1},61] multiply(g, root)
  apart = f32[{0},{3},{3},61] pad(scaled, zero), padding=0_0_0x2_2_1x2_2_1x0_0_0
  sums = f32[{0},{2},{2},61] reduce-window(apart, zero), window={{size=1x3x3x1}}, to_apply=add
  ROOT r = f32[{0},{2},{2},61] multiply(sums, x)
}})",
                       images, windows, size, 2 * windows - 1 + 4);
  };
  EXPECT_EQ(checked(text(1, 2), 3), "");
  const auto module = hlo::parse_module(text(9, 23));
  ASSERT_TRUE(module) << module.error().to_string();
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  EXPECT_EQ(program->steps.size(), 2u);
}

/// Windows that neither overlap nor leave anything out take one pass; others two, and a small array of places.
TEST(Pooling, GradientsOfModelsTakeFewKernels) {
  size_t steps = 0;
  const Pooling apart{"f32", "add(a, b)", {2, 16, 16, 8}, {1, 2, 2, 1}, {1, 2, 2, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  EXPECT_EQ(checked(text_of(apart), 1, &steps), "");
  EXPECT_LE(steps, 3U);
  const Pooling overlapping{"bf16",       "add(a, b)",  {2, 3, 17, 17}, {1, 1, 3, 3},
                            {1, 1, 2, 2}, {0, 0, 1, 1}, {0, 0, 1, 1}};
  EXPECT_EQ(checked(text_of(overlapping), 2, &steps), "");
  EXPECT_LE(steps, 3U);
  const Pooling covered{"f32", "add(a, b)", {40, 40}, {9, 9}, {1, 1}, {4, 4}, {4, 4}};
  EXPECT_EQ(checked(text_of(covered), 3), "");
}

}  // namespace
}  // namespace strata::emitters
