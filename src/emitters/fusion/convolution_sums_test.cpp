#include "emitters/fusion/convolution_sums.h"

#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/random.h"

namespace strata::emitters {
namespace {

constexpr int kTerms = 64;  ///< by which sums may differ from the interpreter's

/// The gradient of filters of a depthwise convolution, as JAX writes it: places are as many as fit.
std::string gradient(uint64_t seed) {
  Random random(seed);
  const int64_t images = 1 + random.below(4), channels = 1 + random.below(9), taps = 1 + random.below(6);
  const int64_t stride = 1 + random.below(3), dilation = 1 + random.below(2);
  const int64_t low = random.below(4), windows = 64 + random.below(60);
  // What lies a step apart in the filters, is dilated so in the windows.
  const int64_t reach = (windows - 1) * stride + (taps - 1) * dilation + 1;
  const int64_t size = reach - low - random.below(3);
  const int64_t high = reach - low - size;
  const std::string type = std::vector<std::string>{"f32", "bf16", "f64", "s32"}[random.below(4)];
  const bool last = random.below(2) == 0;
  const auto shape = [&](int64_t length, int64_t outer) {
    return last ? fmt::format("{}[{},{},{}]", type, outer, length, channels)
                : fmt::format("{}[{},{},{}]", type, outer, channels, length);
  };
  const std::string result =
      last ? fmt::format("{}[{},1,{}]", type, taps, channels) : fmt::format("{}[{},1,{}]", type, channels, taps);
  return fmt::format(
      "HloModule m\nENTRY e {{\n  x = {} parameter(0)\n  y = {} parameter(1)\n  ROOT c = {} convolution(x, y), "
      "window={{size={} stride={} pad={}_{} rhs_dilate={}}}, dim_labels={}, batch_group_count={}\n}}\n",
      shape(size, images), shape(windows, images), result, windows, dilation, low, high, stride,
      last ? "f0b_i0o->0bf" : "fb0_io0->fb0", channels);
}

TEST(ConvolutionSums, ComputeTheSameAsDepthwiseGradients) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const std::string text = gradient(seed);
    SCOPED_TRACE(text);
    const auto module = hlo::parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string();
    const hlo::Module changed = with_convolution_sums(**module);
    const auto verified = hlo::verify(changed);
    ASSERT_TRUE(verified) << verified.error().to_string() << hlo::print(changed);
    EXPECT_EQ(hlo::print(changed).find("convolution("), std::string::npos) << hlo::print(changed);
    const auto arguments = hlo::typical_arguments((*module)->entry_computation(), seed);
    const auto expected = hlo::evaluate(**module, arguments);
    ASSERT_TRUE(expected) << expected.error().to_string();
    const auto actual = hlo::evaluate(changed, arguments);
    ASSERT_TRUE(actual) << actual.error().to_string();
    EXPECT_EQ(hlo::difference(*actual, *expected, kTerms).value_or(""), "");
    if (seed % 4 != 0) continue;  // kernels of all of them take long to compile
    const auto program = emit_program(**module, {});
    ASSERT_TRUE(program) << program.error().to_string();
    const auto run = run_on_cpu(*program, arguments);
    ASSERT_TRUE(run) << run.error().to_string();
    EXPECT_EQ(hlo::difference(*run, *expected, kTerms).value_or(""), "");
  }
}

TEST(ConvolutionSums, LeaveOtherConvolutions) {
  for (const std::string& text : {
           // several channels of a group
           std::string("f32[6,4,90] parameter(1)\n  ROOT c = f32[4,2,3] convolution(x, y), window={size=90 pad=1_1}, "
                       "dim_labels=fb0_io0->fb0, batch_group_count=2"),
           // few terms
           std::string("f32[6,4,3] parameter(1)\n  ROOT c = f32[4,1,88] convolution(x, y), window={size=3}, "
                       "dim_labels=fb0_io0->fb0, batch_group_count=4"),
       }) {
    const auto module = hlo::parse_module("ENTRY e {\n  x = f32[6,4,90] parameter(0)\n  y = " + text + "\n}\n");
    ASSERT_TRUE(module) << module.error().to_string();
    EXPECT_EQ(hlo::print(with_convolution_sums(**module)), hlo::print(**module));
  }
}

}  // namespace
}  // namespace strata::emitters
