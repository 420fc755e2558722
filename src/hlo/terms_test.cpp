#include "hlo/terms.h"

#include <gtest/gtest.h>

#include "hlo/text.h"

namespace strata::hlo {
namespace {

int64_t terms(const std::string& text) {
  const auto module = parse_module(text, "terms.hlo");
  EXPECT_TRUE(module) << module.error().to_string();
  return module ? most_terms(**module) : 0;
}

constexpr const char* kAdd = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n";

TEST(Terms, OfReductionsProductsWindowsAndConvolutions) {
  EXPECT_EQ(terms("ENTRY e { a = f32[4,5] parameter(0)\n ROOT r = f32[4,5] negate(a)\n}"), 1);
  EXPECT_EQ(terms(std::string(kAdd) + "ENTRY e { a = f32[4,5,6] parameter(0)\n z = f32[] constant(0)\n"
                                      "ROOT r = f32[5] reduce(a, z), dimensions={0,2}, to_apply=add\n}"),
            24);
  EXPECT_EQ(terms("ENTRY e { a = f32[3,70] parameter(0)\n b = f32[70,5] parameter(1)\n"
                  "ROOT r = f32[3,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}"),
            70);
  EXPECT_EQ(terms(std::string(kAdd) + "ENTRY e { a = f32[4,9] parameter(0)\n z = f32[] constant(0)\n"
                                      "ROOT r = f32[4,9] reduce-window(a, z), window={size=1x9 pad=0_0x8_0}, "
                                      "to_apply=add\n}"),
            9);
  EXPECT_EQ(terms("ENTRY e { a = f32[1,7,7,3] parameter(0)\n b = f32[2,2,3,8] parameter(1)\n"
                  "ROOT r = f32[1,6,6,8] convolution(a, b), window={size=2x2}, dim_labels=b01f_01io->b01f\n}"),
            12);
}

TEST(Terms, SlackGrowsWithTheRoot) {
  EXPECT_EQ(slack_of_terms(1), 1);
  EXPECT_EQ(slack_of_terms(64), 1);
  EXPECT_EQ(slack_of_terms(6400), 10);
  EXPECT_EQ(slack_of_narrow_sums(0), 1);
  EXPECT_EQ(slack_of_narrow_sums(40), 10);
}

}  // namespace
}  // namespace strata::hlo
