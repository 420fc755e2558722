#include "hlo/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "hlo/terms.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Literal array(const std::vector<float>& values) {
  Literal made(array_shape(ElementType::F32, {static_cast<int64_t>(values.size())}));
  std::memcpy(made.mutable_bytes(), values.data(), made.byte_size());
  return made;
}

std::string found(const std::vector<float>& actual, const std::vector<float>& expected, double slack, Unit unit) {
  return difference(array(actual), array(expected), slack, unit).value_or("");
}

TEST(Compare, AtTheElementLargeValuesDoNotHideSmallOnes) {
  EXPECT_EQ(found({1e5F, 1.00001F}, {1e5F, 1.0F}, 1, Unit::Element), "");
  EXPECT_THAT(found({1e5F, 1.001F}, {1e5F, 1.0F}, 1, Unit::Element), HasSubstr("at 1 of f32[2]"));
  EXPECT_EQ(found({1e5F, 1.001F}, {1e5F, 1.0F}, 100, Unit::Element), "");
}

TEST(Compare, AtTheArrayAllElementsHaveTheLargestOnesBound) {
  EXPECT_EQ(found({1e5F, 1.1F}, {1e5F, 1.0F}, 1, Unit::Array), "");
  EXPECT_THAT(found({1e5F, 3.0F}, {1e5F, 1.0F}, 1, Unit::Array), HasSubstr("3 instead of 1"));
  EXPECT_THAT(found({1e5F, NAN}, {1e5F, 1.0F}, 1, Unit::Array), HasSubstr("nan instead of 1"));
  EXPECT_THAT(found({1.001F}, {1.0F}, 1, Unit::Array), HasSubstr("at 0"));
}

TEST(Compare, ResultsOfTransformsAreFound) {
  const auto found = [](const std::string& text) {
    const auto module = parse_module(text, "transforms.hlo");
    EXPECT_TRUE(module) << module.error().to_string();
    return module ? transformed_results(**module) : std::vector<bool>();
  };
  const std::string transform = "c64[8] fft(a), fft_type=FFT, fft_length={8}\n";
  EXPECT_THAT(found("ENTRY e { a = f32[8] parameter(0)\n ROOT r = f32[8] negate(a)\n}"), ElementsAre(false));
  EXPECT_THAT(found("ENTRY e { a = c64[8] parameter(0)\n ROOT r = " + transform + "}"), ElementsAre(true));
  EXPECT_THAT(found("ENTRY e { a = c64[8] parameter(0)\n f = " + transform +
                    " n = c64[8] negate(a)\n s = c64[8] add(f, n)\n "
                    "ROOT t = (c64[8], c64[8], c64[8]) tuple(n, s, f)\n}"),
              ElementsAre(false, true, true));
  EXPECT_THAT(found("called { a = c64[8] parameter(0)\n ROOT r = " + transform +
                    "}\nENTRY e { a = c64[8] parameter(0)\n c = c64[8] call(a), to_apply=called\n "
                    "ROOT t = (c64[8], c64[8]) tuple(a, c)\n}"),
              ElementsAre(false, true));
  EXPECT_THAT(found("ENTRY e { a = f32[8,8] parameter(0)\n l = f32[8,8] cholesky(a), lower=true\n "
                    "ROOT t = (f32[8,8], f32[8,8]) tuple(l, a)\n}"),
              ElementsAre(true, false));
}

}  // namespace
}  // namespace strata::hlo
