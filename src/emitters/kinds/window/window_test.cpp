// Convolutions by the window emitter: that kernels compute what the interpreter does, for windows, layouts, groups and
// types of all kinds, and how threads share them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "emitters/kinds/window/window_tiling.h"
#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/terms.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "support/random.h"

namespace strata::emitters {
namespace {

using testing::HasSubstr;

struct Dimension {
  int64_t size = 1, window = 1, stride = 1, low = 0, high = 0, lhs_dilation = 1, rhs_dilation = 1;
  bool reversed = false;

  int64_t result() const {
    const int64_t dilated = (size - 1) * lhs_dilation + 1 + low + high;
    const int64_t reach = (window - 1) * rhs_dilation + 1;
    return dilated < reach ? 0 : (dilated - reach) / stride + 1;
  }
};

struct Case {
  std::vector<Dimension> spatial;
  int64_t images = 1, features = 1, results = 1;  ///< of a group: channels in and out
  int64_t feature_groups = 1, batch_groups = 1;
  bool channels_last = false, filters_last = false, results_last = false;
  std::string type = "f32";

  int64_t terms() const {
    int64_t count = features;
    for (const Dimension& d : spatial) count *= d.window;
    return count;
  }
};

/// "b01f" of "bf01", or with the channels last.
std::string label(const char* outer, const char* channel, size_t rank, bool last) {
  std::string spatial;
  for (size_t d = 0; d < rank; ++d) spatial += std::to_string(d);
  return last ? outer + spatial + channel : outer + (channel + spatial);
}

std::string shape(const std::string& type, int64_t outer, int64_t channels, const std::vector<int64_t>& sizes,
                  bool last) {
  std::vector<int64_t> dims{outer};
  if (!last) dims.push_back(channels);
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  if (last) dims.push_back(channels);
  return fmt::format("{}[{}]", type, fmt::join(dims, ","));
}

std::string convolution(const Case& one, const std::string& x, const std::string& w) {
  std::vector<std::string> sizes, strides, pads, lhs, rhs, reversed;
  std::vector<int64_t> results;
  for (const Dimension& d : one.spatial) {
    sizes.push_back(std::to_string(d.window));
    strides.push_back(std::to_string(d.stride));
    pads.push_back(fmt::format("{}_{}", d.low, d.high));
    lhs.push_back(std::to_string(d.lhs_dilation));
    rhs.push_back(std::to_string(d.rhs_dilation));
    reversed.push_back(d.reversed ? "1" : "0");
    results.push_back(d.result());
  }
  const size_t rank = one.spatial.size();
  const int64_t groups = one.feature_groups * one.batch_groups;
  return fmt::format(
      "{} convolution({}, {}), window={{size={} stride={} pad={} lhs_dilate={} rhs_dilate={} rhs_reversal={}}}, "
      "dim_labels={}_{}->{}, feature_group_count={}, batch_group_count={}",
      shape(one.type, one.images, one.results * groups, results, one.results_last), x, w, fmt::join(sizes, "x"),
      fmt::join(strides, "x"), fmt::join(pads, "x"), fmt::join(lhs, "x"), fmt::join(rhs, "x"), fmt::join(reversed, "x"),
      label("b", "f", rank, one.channels_last), label("o", "i", rank, one.filters_last),
      label("b", "f", rank, one.results_last), one.feature_groups, one.batch_groups);
}

std::string parameters(const Case& one) {
  std::vector<int64_t> sizes, windows;
  for (const Dimension& d : one.spatial) {
    sizes.push_back(d.size);
    windows.push_back(d.window);
  }
  const int64_t groups = one.feature_groups * one.batch_groups;
  return fmt::format(
      "  x = {} parameter(0)\n  w = {} parameter(1)\n",
      shape(one.type, one.images * one.batch_groups, one.features * one.feature_groups, sizes, one.channels_last),
      shape(one.type, one.results * groups, one.features, windows, one.filters_last));
}

std::string text_of(const Case& one) {
  return fmt::format("HloModule m\nENTRY e {{\n{}  ROOT c = {}\n}}\n", parameters(one), convolution(one, "x", "w"));
}

/// Runs the module on the CPU as one kernel and compares it with the interpreter. Gives the emitter.
std::string check(const std::string& text, int64_t terms, const std::string& only = {}) {
  SCOPED_TRACE(text);
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return {};
  EmitOptions options;
  options.only = only;
  const auto program = emit_program(**module, options);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program || program->steps.size() != 1 || !program->steps[0].fusion) return {};
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 7);
  const auto expected = hlo::evaluate(**module, arguments);
  EXPECT_TRUE(expected) << expected.error().to_string();
  const auto result = run_on_cpu(*program, arguments);
  EXPECT_TRUE(result) << result.error().to_string();
  if (result && expected) {
    const auto different = hlo::difference(*result, *expected, 4 * hlo::slack_of_terms(terms));
    EXPECT_FALSE(different) << *different << "\n" << explain(*program);
  }
  return program->steps[0].fusion->decision().emitter;
}

/// Filters of an image, or gradients of filters, whose window is the larger one; with all that a window may have.
Case random_case(uint64_t seed) {
  Random random(seed);
  Case one;
  const int64_t rank = 1 + random.below(3), most = rank == 3 ? 6 : 12;
  const bool gradient = random.below(3) == 0;
  while (one.spatial.empty() || std::ranges::any_of(one.spatial, [](const Dimension& d) { return d.result() == 0; })) {
    one.spatial.clear();
    for (int64_t d = 0; d < rank; ++d) {
      Dimension& each = one.spatial.emplace_back();
      each.size = 2 + random.below(most);
      each.window = gradient ? 1 + random.below(each.size) : 1 + random.below(6);
      each.low = random.below(6) - 1;
      each.high = random.below(6) - 1;
      if (random.below(3) == 0) each.stride = 1 + random.below(3);
      if (random.below(4) == 0) each.lhs_dilation = 1 + random.below(3);
      if (random.below(4) == 0) each.rhs_dilation = 1 + random.below(3);
      each.reversed = random.below(5) == 0;
    }
  }
  one.images = 1 + random.below(3);
  one.features = random.below(2) == 0 ? 1 : 1 + random.below(4);
  one.results = random.below(2) == 0 ? 1 : 1 + random.below(3);
  (gradient ? one.batch_groups : one.feature_groups) = 1 + random.below(40);
  one.channels_last = random.below(2) == 0;
  one.filters_last = random.below(2) == 0;
  one.results_last = random.below(4) == 0 ? random.below(2) == 0 : one.channels_last;
  one.type = std::vector<std::string>{"f32", "bf16", "f16", "f64"}[random.below(4)];
  return one;
}

class Window : public testing::TestWithParam<int> {};

TEST_P(Window, ComputesWhatTheInterpreterDoes) {
  int taken = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const Case one = random_case(100 * static_cast<uint64_t>(GetParam()) + seed);
    taken += check(text_of(one), one.terms()) == "window" ? 1 : 0;
  }
  EXPECT_GE(taken, 4);
}
INSTANTIATE_TEST_SUITE_P(Random, Window, testing::Range(0, 10));

Dimension same(int64_t size, int64_t window) { return {size, window, 1, window / 2, (window - 1) / 2}; }

WindowTiling tiling_of(const Case& one) {
  const auto module = hlo::parse_module(text_of(one));
  EXPECT_TRUE(module) << module.error().to_string();
  const hlo::Computation& entry = (*module)->entry_computation();
  const auto tiling = choose_window_tiling(entry, entry.root_instruction(), default_target());
  EXPECT_TRUE(tiling) << tiling.error().to_string();
  return tiling.value_or(WindowTiling{});
}

TEST(WindowTiling, LanesFollowMemory) {
  // Channels last: neighbouring threads have neighbouring channels.
  Case forward{{same(28, 7), same(28, 7)}, 2, 1, 1, 64, 1, true, true, true};
  EXPECT_FALSE(tiling_of(forward).lanes_on_terms);
  // Channels first: neighbouring places along a row; so strips lie across rows.
  forward.channels_last = forward.filters_last = forward.results_last = false;
  EXPECT_FALSE(tiling_of(forward).lanes_on_terms);
  EXPECT_EQ(tiling_of(forward).dimension, 0U);
  // Gradients of filters: few results along a row, and many terms.
  Case gradient{{same(28, 28), same(28, 28)}, 1, 3, 1, 1, 24, false, false, false};
  for (Dimension& d : gradient.spatial) d.low = d.high = 2;
  const WindowTiling tiling = tiling_of(gradient);
  EXPECT_TRUE(tiling.lanes_on_terms);
  EXPECT_EQ(tiling.threads_of_place % 32, 0);
  EXPECT_EQ(tiling.dimension, 0U);
  check(text_of(gradient), gradient.terms());
  gradient.channels_last = gradient.filters_last = gradient.results_last = true;
  EXPECT_FALSE(tiling_of(gradient).lanes_on_terms);
  EXPECT_EQ(check(text_of(gradient), gradient.terms()), "window");
}

TEST(WindowTiling, OfImagesThatAreDilatedStripsBeginAtElements) {
  for (const int64_t dilation : {2, 3}) {
    Case one{{{9, 5, 1, 3, 3, dilation, 1}, {7, 5, 1, 3, 3, dilation, 1}}, 2, 1, 1, 32, 1, true, true, true};
    const WindowTiling tiling = tiling_of(one);
    EXPECT_TRUE(tiling.strips == 1 || tiling.outputs % dilation == 0);
    EXPECT_EQ(check(text_of(one), one.terms()), "window");
  }
}

TEST(Window, TakesWhatStandsAroundAConvolution) {
  const Case one{{same(11, 5), same(13, 3)}, 2, 1, 2, 9, 1, true, true, true};
  const std::string result = "f32[2,11,13,18]";
  const std::string text = fmt::format(
      "HloModule m\nf {{\n{0}  b = f32[18] parameter(2)\n  x1 = f32[2,11,13,9] tanh(x)\n  c = {1}\n"
      "  b1 = {2} broadcast(b), dimensions={{3}}\n  s = {2} add(c, b1)\n  ROOT r = {2} logistic(s)\n}}\n"
      "ENTRY e {{\n{0}  b = f32[18] parameter(2)\n  ROOT r = {2} fusion(x, w, b), kind=kLoop, calls=f\n}}\n",
      parameters(one), convolution(one, "x1", "w"), result);
  EXPECT_EQ(check(text, one.terms(), "window"), "window");
}

/// What lies beyond an image is no 0 that would be multiplied.
TEST(Window, InfiniteWeightsMeetNothingBeyondImages) {
  for (const int64_t size : {28, 60}) {  // a strip, and several
    const Case one{{same(size, 7), same(size, 7)}, 1, 1, 1, 2, 1, true, true, true};
    const auto module = hlo::parse_module(text_of(one));
    ASSERT_TRUE(module) << module.error().to_string();
    auto arguments = hlo::typical_arguments((*module)->entry_computation(), 7);
    auto* const weights = reinterpret_cast<float*>(arguments[1].mutable_bytes());
    for (const size_t place : {0, 3, 21, 97}) weights[place] = std::numeric_limits<float>::infinity();
    const auto program = emit_program(**module, {});
    ASSERT_TRUE(program) << program.error().to_string();
    EXPECT_EQ(program->steps[0].fusion->decision().emitter, "window");
    const auto expected = hlo::evaluate(**module, arguments);
    const auto result = run_on_cpu(*program, arguments);
    ASSERT_TRUE(result && expected);
    EXPECT_EQ(hlo::difference(*result, *expected, 4 * hlo::slack_of_terms(one.terms())).value_or(""), "");
  }
}

TEST(Window, LeavesWhatSharesNothing) {
  const auto refused = [](const Case& one) {
    const auto module = hlo::parse_module(text_of(one));
    const hlo::Computation& entry = (*module)->entry_computation();
    const auto tiling = choose_window_tiling(entry, entry.root_instruction(), default_target());
    return tiling ? std::string() : tiling.error().message;
  };
  // windows of one element; windows that do not overlap; a row whose lanes are its elements; no floats
  EXPECT_THAT(refused({{same(9, 1), same(9, 1)}, 1, 1, 1, 5}), HasSubstr("share nothing"));
  EXPECT_THAT(refused({{{9, 3, 3}, {9, 3, 3}}, 1, 1, 1, 5}), HasSubstr("share nothing"));
  EXPECT_THAT(refused({{same(90, 5)}, 1, 1, 1, 5}), HasSubstr("share nothing"));
  Case integers{{same(9, 3), same(9, 3)}, 1, 1, 1, 5};
  integers.type = "s32";
  EXPECT_THAT(refused(integers), HasSubstr("no convolution of real floats"));
}

}  // namespace
}  // namespace strata::emitters
