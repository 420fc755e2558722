// Which arrays are computed longer together.
#include "emitters/library/padded_arrays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hlo/text.h"

namespace strata::emitters {
namespace {

using testing::ElementsAre;

/// The names of what is longer if `id` is: arrays, then sums along the dimension after a line; "none" where it may not.
std::vector<std::string> members(const std::string& entry, const std::string& id, const LongDimension& to) {
  const auto module = hlo::parse_module(
      "HloModule m\n\nminus {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] subtract(a, "
      "b)\n}\n\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n\n"
      "ENTRY e {\n" +
      entry + "}\n");
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return {};
  const hlo::Computation& computation = (*module)->entry_computation();
  const Users users = users_of(computation);
  hlo::InstructionId start = -1;
  for (size_t i = 0; i < computation.instructions.size(); ++i) {
    if (computation.instructions[i].name == id) start = static_cast<hlo::InstructionId>(i);
  }
  const PaddedArrays arrays(**module, computation, users);
  const auto found = arrays.members_for(start, to);
  if (!found) return {"none"};
  std::vector<std::string> names;
  for (const auto& [one, as] : found->arrays) names.push_back(computation[one].name);
  names.emplace_back("|");
  for (const auto& [one, as] : found->reduced) names.push_back(computation[one].name);
  return names;
}

constexpr const char* kNormalised = R"(  x = f32[4,9] parameter(0)
  e = f32[4,9] exponential(x)
  zero = f32[] constant(0)
  rows = f32[4] reduce(e, zero), dimensions={1}, to_apply=sum
  all = f32[4,9] broadcast(rows), dimensions={0}
  part = f32[4,9] divide(e, all)
)";

TEST(PaddedArrays, AreThoseOfOneLengthAsFarAsKernelsComputeThem) {
  const std::string text = kNormalised;
  // The reduction reads longer rows; the transpose, which is no operator on elements, reads its own part.
  EXPECT_THAT(members(text + "  n = f32[4,9] negate(part)\n  ROOT t = f32[9,4] transpose(part), dimensions={1,0}\n",
                      "part", {1, 1, 16}),
              ElementsAre("e", "part", "n", "|", "rows"));
  // Sums along the other dimension are as long.
  EXPECT_THAT(members(text + "  columns = f32[9] reduce(part, zero), dimensions={0}, to_apply=sum\n"
                             "  half = f32[9] negate(columns)\n  ROOT t = f32[9,1] broadcast(half), dimensions={0}\n",
                      "part", {1, 1, 16}),
              ElementsAre("e", "part", "columns", "half", "|", "rows"));
}

TEST(PaddedArrays, ResultsStay) {
  EXPECT_THAT(members(std::string(kNormalised) + "  ROOT n = f32[4,9] negate(part)\n", "part", {1, 1, 16}),
              ElementsAre("none"));
  EXPECT_THAT(members(std::string(kNormalised) + "  ROOT n = (f32[4,9]) tuple(part)\n", "part", {1, 1, 16}),
              ElementsAre("none"));
  EXPECT_THAT(
      members(std::string(kNormalised) + "  ROOT t = f32[9,4] transpose(part), dimensions={1,0}\n", "x", {1, 1, 16}),
      ElementsAre("none"));
}

TEST(PaddedArrays, ReshapesKeepDimensionsThatAreOne) {
  const std::string text = R"(  x = f32[4,3,5] parameter(0)
  e = f32[4,3,5] exponential(x)
  r = f32[2,2,15] reshape(e)
  n = f32[2,2,15] negate(r)
)";
  EXPECT_THAT(members(text + "  ROOT t = f32[15,2,2] transpose(n), dimensions={2,0,1}\n", "n", {2, 1, 16}),
              ElementsAre("e", "r", "n", "|"));
  // A reshape alone is nothing that a kernel computes.
  EXPECT_THAT(members("  x = f32[4,3,5] parameter(0)\n  r = f32[4,15] reshape(x)\n  ROOT t = f32[15,4] transpose(r), "
                      "dimensions={1,0}\n",
                      "r", {1, 1, 16}),
              ElementsAre("none"));
  // Part of the dimension is reduced.
  EXPECT_THAT(
      members(
          text + "  zero = f32[] constant(0)\n  s = f32[4,5] reduce(e, zero), dimensions={1}, to_apply=sum\n"
                 "  p = f32[15,2,2] transpose(n), dimensions={2,0,1}\n  ROOT t = (f32[15,2,2], f32[4,5]) tuple(p, s)\n",
          "e", {1, 2, 16}),
      ElementsAre("none"));
}

TEST(PaddedArrays, ReductionsNeedANeutralValue) {
  EXPECT_THAT(members(R"(  x = s32[4,9] parameter(0)
  e = s32[4,9] negate(x)
  f = f32[4,9] convert(e)
  zero = f32[] constant(0)
  rows = f32[4] reduce(f, zero), dimensions={1}, to_apply=sum
  ROOT t = (f32[4]) tuple(rows)
)",
                      "e", {1, 1, 16}),
              ElementsAre("e", "f", "|", "rows"));
  EXPECT_THAT(members(R"(  x = f32[4,9] parameter(0)
  e = f32[4,9] exponential(x)
  zero = f32[] constant(0)
  rows = f32[4] reduce(e, zero), dimensions={1}, to_apply=minus
  ROOT t = (f32[4]) tuple(rows)
)",
                      "e", {1, 1, 16}),
              ElementsAre("none"));
}

/// One array in two shapes is filled once.
TEST(PaddedArrays, WhatAReshapeIsOfIsFilledToo) {
  const auto module = hlo::parse_module(R"(ENTRY e {
  x = f32[4,15] parameter(0)
  e = f32[4,15] exponential(x)
  r = f32[2,2,15] reshape(e)
  n = f32[2,2,15] negate(r)
  ROOT t = f32[15,2,2] transpose(n), dimensions={2,0,1}
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const hlo::Computation& computation = (*module)->entry_computation();
  const Users users = users_of(computation);
  PaddedArrays arrays(**module, computation, users);
  const auto found = arrays.members_for(2, {2, 1, 16});
  ASSERT_TRUE(found.has_value());
  arrays.add(*found);
  arrays.fill_with_zeros(2);
  EXPECT_TRUE(arrays.is_filled_with_zeros(2));
  EXPECT_TRUE(arrays.is_filled_with_zeros(1));
  EXPECT_FALSE(arrays.is_filled_with_zeros(0));
  EXPECT_FALSE(arrays.is_filled_with_zeros(3));
}

}  // namespace
}  // namespace strata::emitters
