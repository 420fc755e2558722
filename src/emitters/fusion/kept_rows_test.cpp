#include "emitters/fusion/kept_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string_view>

#include "hlo/text.h"

namespace strata::emitters {
namespace {

/// Of all of an entry but its parameters and constants; `body` may read x = f32[5,7], y = f32[7,5] and zero.
bool keeps(std::string_view body) {
  const std::string text = fmt::format(
      "add {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}}\n"
      "ENTRY e {{\n  zero = f32[] constant(0)\n  x = f32[5,7] parameter(0)\n  y = f32[7,5] parameter(1)\n{}}}\n",
      body);
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string()) << text;
  if (!module) return false;
  const hlo::Computation& entry = (*module)->entry_computation();
  Group group;
  for (hlo::InstructionId id = 0; id <= entry.root; ++id) {
    if (!entry[id].operands.empty()) group = Group(group, Group(id));
  }
  return keeps_rows(entry, group);
}

constexpr std::string_view kSum = "  s = f32[5] reduce(x, zero), dimensions={1}, to_apply=add\n";

TEST(KeptRows, OfElementsOfTheRow) {
  EXPECT_TRUE(keeps(std::string(kSum) + R"(
  t = f32[5] exponential(s)
  u = f32[5,1] reshape(t)
  v = f32[5] reshape(u)
  w = f32[5,7] broadcast(v), dimensions={0}
  z = f32[5,7] divide(x, w)
  r = f32[5] reduce(z, zero), dimensions={1}, to_apply=add
  q = f32[5] add(r, s)
  ROOT p = f32[7,5] transpose(z), dimensions={1,0}
)"));
  EXPECT_TRUE(keeps(R"(
  s = f32[7] reduce(x, zero), dimensions={0}, to_apply=add
  w = f32[5,7] broadcast(s), dimensions={1}
  ROOT z = f32[5,7] divide(x, w)
)"));
}

TEST(KeptRows, NotOfOtherRows) {
  EXPECT_FALSE(keeps(std::string(kSum) + "  ROOT w = f32[4,5] broadcast(s), dimensions={1}\n"));
  EXPECT_FALSE(keeps(std::string(kSum) + "  ROOT w = f32[5,5] broadcast(s), dimensions={1}\n"));
  EXPECT_FALSE(keeps(std::string(kSum) + "  ROOT w = f32[5] reverse(s), dimensions={0}\n"));
  EXPECT_FALSE(keeps(std::string(kSum) + "  ROOT w = f32[3] slice(s), slice={[1:4]}\n"));
  // Of a square, along the dimension that it reduces.
  EXPECT_FALSE(keeps(R"(
  q = f32[5,5] slice(x), slice={[0:5], [0:5]}
  s = f32[5] reduce(q, zero), dimensions={1}, to_apply=add
  w = f32[5,5] broadcast(s), dimensions={1}
  z = f32[5,5] multiply(q, w)
  ROOT r = f32[5] reduce(z, zero), dimensions={1}, to_apply=add
)"));
  // A transposed one beside itself.
  EXPECT_FALSE(keeps(R"(
  q = f32[5,5] slice(x), slice={[0:5], [0:5]}
  s = f32[5] reduce(q, zero), dimensions={1}, to_apply=add
  w = f32[5,5] broadcast(s), dimensions={0}
  t = f32[5,5] transpose(w), dimensions={1,0}
  ROOT z = f32[5,5] multiply(w, t)
)"));
}

}  // namespace
}  // namespace strata::emitters
