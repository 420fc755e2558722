// Values of whole gradients of pooling are compared with XLA's in tests/hlo.
#include "hlo/expand_select_and_scatter.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

/// A select-and-scatter in a random layout, of random windows: with gaps, overlaps, padding within and beyond, of more
/// elements than there are.
std::string random_module(Random& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
  const bool many = random.below(4) == 0;  // windows that cover an element
  const int64_t rank = many ? 2 : below(4);
  std::vector<int64_t> dims, windows, layout;
  std::vector<std::string> sizes, strides, pads;
  for (int64_t d = 0; d < rank; ++d) {
    dims.push_back(below(12) + (random.below(20) == 0 ? 0 : 1));
    const int64_t size = many ? 6 + below(4) : 1 + below(4), stride = many ? 1 : 1 + below(4);
    const int64_t low = below(6) - (many ? 0 : 2), high = below(6) - (many ? 0 : 2);
    const int64_t padded = std::max<int64_t>(dims.back() + low + high, 0);
    windows.push_back(padded < size ? 0 : (padded - size) / stride + 1);
    sizes.push_back(std::to_string(size));
    strides.push_back(std::to_string(stride));
    pads.push_back(fmt::format("{}_{}", low, high));
    layout.insert(layout.begin() + below(d + 1), d);
  }
  const char* types[] = {"f32", "bf16", "f64", "s32", "u8", "f8e4m3fn"};
  const char* type = types[random.below(std::size(types))];
  const char* scatters[] = {"add(a, b)", "multiply(b, a)", "maximum(a, b)", "subtract(a, b)", "add(b, b)"};
  const char* directions[] = {"GE", "LE", "GT", "LT"};
  const std::string order = fmt::format("{{{}}}", fmt::join(layout, ","));
  return fmt::format(
      "HloModule m\nselect {{ a = {0}[] parameter(0) b = {0}[] parameter(1) ROOT r = pred[] compare(a, b), "
      "direction={1} }}\nscatter {{ a = {0}[] parameter(0) b = {0}[] parameter(1) ROOT r = {0}[] {2} }}\nENTRY e {{\n  "
      "x = {0}[{3}]{4} parameter(0)\n  s = {0}[{5}]{4} parameter(1)\n  z = {0}[] parameter(2)\n  ROOT r = {0}[{3}]{4} "
      "select-and-scatter(x, s, z), window={{{6}}}, select=select, scatter=scatter\n}}\n",
      type, directions[random.below(4)], scatters[random.below(std::size(scatters))], fmt::join(dims, ","), order,
      fmt::join(windows, ","),
      rank == 0 ? ""
                : fmt::format("size={} stride={} pad={}", fmt::join(sizes, "x"), fmt::join(strides, "x"),
                              fmt::join(pads, "x")));
}

TEST(ExpandSelectAndScatter, HasTheSameValues) {
  int expanded_to_scatters = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Random random(seed);
    const std::string text = random_module(random);
    SCOPED_TRACE(text);
    const auto module = parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string();
    ASSERT_TRUE(has_select_and_scatter(**module));
    const auto expanded = expand_select_and_scatter(**module);
    ASSERT_TRUE(expanded) << expanded.error().to_string();
    EXPECT_FALSE(has_select_and_scatter(*expanded));
    const auto verified = verify(*expanded);
    ASSERT_TRUE(verified) << verified.error().to_string() << print(*expanded);
    EXPECT_EQ(expanded->entry_computation().root_instruction().shape,
              (*module)->entry_computation().root_instruction().shape);
    // What it prints is read again, so names are unique.
    const auto again = parse_module(print(*expanded));
    ASSERT_TRUE(again) << again.error().to_string();
    expanded_to_scatters += print(*expanded).find(" scatter(") != std::string::npos ? 1 : 0;
    const auto arguments = typical_arguments((*module)->entry_computation(), seed);
    const auto value = evaluate(**module, arguments);
    ASSERT_TRUE(value) << value.error().to_string();
    const auto same = evaluate(**again, arguments);
    ASSERT_TRUE(same) << same.error().to_string();
    EXPECT_EQ(difference(*same, *value, 4).value_or(""), "");
  }
  EXPECT_GE(expanded_to_scatters, 50);
}

TEST(ExpandSelectAndScatter, TakesNumbersAsWideAsTheWindowNeeds) {
  const auto text_of = [](int64_t size, int64_t stride) {
    const int64_t windows = (1000 - size) / stride + 1;
    return fmt::format(
        "HloModule m\nselect {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), "
        "direction=GE }}\nscatter {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}\nENTRY "
        "e "
        "{{\n  x = f32[1000] parameter(0)\n  s = f32[{}] parameter(1)\n  z = f32[] constant(0)\n  ROOT r = f32[1000] "
        "select-and-scatter(x, s, z), window={{size={} stride={}}}, select=select, scatter=scatter\n}}\n",
        windows, size, stride);
  };
  for (const auto& [size, stride, type] :
       {std::tuple(3, 2, "u8[499]"), std::tuple(100, 128, "u8[8]"), std::tuple(129, 128, "u16[7]"),
        std::tuple(2, 300, "u16[4]"), std::tuple(33, 1, "s32[968]")}) {
    const auto module = parse_module(text_of(size, stride));
    ASSERT_TRUE(module) << module.error().to_string();
    const auto expanded = expand_select_and_scatter(**module);
    ASSERT_TRUE(expanded) << expanded.error().to_string();
    EXPECT_NE(print(*expanded).find(fmt::format("selected = {}", type)), std::string::npos) << print(*expanded);
    const auto arguments = typical_arguments((*module)->entry_computation(), 1);
    EXPECT_EQ(difference(*evaluate(*expanded, arguments), *evaluate(**module, arguments), 4).value_or(""), "");
  }
}

}  // namespace
}  // namespace strata::hlo
