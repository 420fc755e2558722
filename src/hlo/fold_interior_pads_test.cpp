#include "hlo/fold_interior_pads.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

bool has_pad(const Module& module) {
  const Computation& entry = module.entry_computation();
  return std::any_of(entry.instructions.begin(), entry.instructions.end(),
                     [](const Instruction& it) { return it.opcode == Opcode::Pad; });
}

struct Case {
  std::string type = "f32", combiner = "add", value = "0";
  std::vector<int64_t> dims, low, high, interior, size, stride, before, behind, apart;
};

std::string text_of(const Case& of) {
  std::vector<int64_t> padded, result;
  std::vector<std::string> padding, pads;
  for (size_t d = 0; d < of.dims.size(); ++d) {
    padded.push_back((of.dims[d] - 1) * (of.interior[d] + 1) + 1 + of.low[d] + of.high[d]);
    const int64_t room = padded[d] + of.before[d] + of.behind[d] - (of.size[d] - 1) * of.apart[d] - 1;
    result.push_back(room / of.stride[d] + 1);
    padding.push_back(fmt::format("{}_{}_{}", of.low[d], of.high[d], of.interior[d]));
    pads.push_back(fmt::format("{}_{}", of.before[d], of.behind[d]));
  }
  return fmt::format(
      "HloModule m\ncombine {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  ROOT r = {0}[] {1}(b, a)\n}}\n"
      "ENTRY e {{\n  x = {0}[{2}] parameter(0)\n  none = {0}[] constant({3})\n  first = {0}[] constant(3)\n  p = "
      "{0}[{4}] pad(x, none), padding={5}\n  ROOT r = {0}[{6}] reduce-window(p, first), window={{size={7} stride={8} "
      "pad={9} rhs_dilate={10}}}, to_apply=combine\n}}\n",
      of.type, of.combiner, fmt::join(of.dims, ","), of.value, fmt::join(padded, ","), fmt::join(padding, "x"),
      fmt::join(result, ","), fmt::join(of.size, "x"), fmt::join(of.stride, "x"), fmt::join(pads, "x"),
      fmt::join(of.apart, "x"));
}

TEST(FoldInteriorPads, ComputesTheSame) {
  int folded = 0, left = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const auto between = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
    };
    const std::pair<const char*, const char*> combiners[] = {{"add", "0"},       {"multiply", "1"}, {"maximum", "-inf"},
                                                             {"minimum", "inf"}, {"add", "1"},      {"maximum", "0"}};
    const auto& [combiner, value] = combiners[between(0, 5)];
    Case it{"f32", combiner, value};
    for (int64_t d = 0; d < between(1, 3); ++d) {
      it.dims.push_back(between(5, 8));  // with what is cut off, no less than a window
      it.low.push_back(between(-1, 2));
      it.high.push_back(between(-1, 2));
      it.interior.push_back(between(0, 3));
      it.size.push_back(between(1, 3));
      it.apart.push_back(1);
      it.stride.push_back(between(1, 3));
      it.before.push_back(between(0, 1));
      it.behind.push_back(between(0, 1));
    }
    const std::string text = text_of(it);
    const auto module = parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string() << text;
    const Module changed = fold_interior_pads(**module);
    ASSERT_TRUE(verify(changed)) << text << print(changed);
    ++(has_pad(changed) ? left : folded);
    if (value == std::string("0") && combiner != std::string("add")) {
      EXPECT_TRUE(has_pad(changed)) << text;
    }
    const auto arguments = typical_arguments((*module)->entry_computation(), seed);
    const auto expected = evaluate(**module, arguments), actual = evaluate(changed, arguments);
    ASSERT_TRUE(expected && actual) << text;
    EXPECT_TRUE(identical(*expected, *actual)) << text << print(changed);
  }
  EXPECT_GE(folded, 60);
  EXPECT_GE(left, 60);
}

TEST(FoldInteriorPads, LeavesWhatIsNoHole) {
  const Case holes{"f32", "add", "0", {9}, {1}, {1}, {1}, {3}, {1}, {0}, {0}, {1}};
  const auto folds = [](const Case& it) {
    const auto module = parse_module(text_of(it));
    EXPECT_TRUE(module) << text_of(it);
    return !has_pad(fold_interior_pads(**module));
  };
  EXPECT_TRUE(folds(holes));
  Case other = holes;
  other.interior = {0};
  EXPECT_FALSE(folds(other)) << "a pad of its ends alone";
  other = holes;
  other.value = "1";
  EXPECT_FALSE(folds(other)) << "ones count";
  other = holes;
  other.low = {-1};
  EXPECT_TRUE(folds(other));
  other.before = {1};
  EXPECT_FALSE(folds(other)) << "what is cut off would be in the window's padding";
}

}  // namespace
}  // namespace strata::hlo
