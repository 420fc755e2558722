#include "emitters/fusion/pass.h"

#include <gtest/gtest.h>

#include "hlo/text.h"

namespace strata::emitters {
namespace {

/// How many instructions were rated, in all groups, to cut a text of `count` of them into parts.
int64_t rated(const std::string& text, size_t* parts = nullptr) {
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  if (!module) return 0;
  FusionWork work;
  const size_t count = fuse(**module, Device{}, &work).size();
  if (parts != nullptr) *parts = count;
  return work.instructions_rated;
}

TEST(FusionWork, IsNearlyLinearForChains) {
  const auto chain = [](int count) {
    std::string text = "ENTRY e {\n  x0 = f32[4096] parameter(0)\n";
    for (int i = 0; i < count; ++i)
      text += fmt::format("  x{} = f32[4096] {}(x{})\n", i + 1, i % 2 == 0 ? "negate" : "abs", i);
    return text + "}\n";
  };
  size_t parts = 0;
  const int64_t work = rated(chain(6000), &parts);
  // 400 instructions a kernel at most.
  EXPECT_LE(parts, 60);
  EXPECT_LE(work, 100 * 6000);
}

TEST(FusionWork, IsNearlyLinearForManyReadersOfOneArray) {
  constexpr int kCount = 3000;
  std::string text = "ENTRY e {\n  x = f32[4096] parameter(0)\n  y = f32[4096] sine(x)\n";
  std::string names;
  for (int i = 0; i < kCount; ++i) {
    text += fmt::format("  a{} = f32[4000] slice(y), slice={{[{}:{}]}}\n", i, i % 96, i % 96 + 4000);
    names += fmt::format("{}a{}", i == 0 ? "" : ", ", i);
  }
  EXPECT_LE(rated(text + fmt::format("  ROOT t = tuple({})\n}}\n", names)), 500 * kCount);
}

TEST(FusionWork, EndsForLongChainsOfWhatCannotJoin) {
  constexpr int kCount = 20000;
  // Products stay kernels of their own.
  std::string text = "ENTRY e {\n  x0 = f32[4,4] parameter(0)\n";
  for (int i = 0; i < kCount; ++i)
    text += fmt::format("  x{} = f32[4,4] dot(x{}, x{}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n",
                        i + 1, i, i);
  size_t parts = 0;
  EXPECT_LE(rated(text + "}\n", &parts), 2 * kCount);
  EXPECT_EQ(parts, kCount);
}

}  // namespace
}  // namespace strata::emitters
