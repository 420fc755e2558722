#include "hlo/users.h"

#include <gtest/gtest.h>

#include "hlo/text.h"

namespace strata::hlo {
namespace {

TEST(Users, AreInTheirOrderAndTheCallerLast) {
  const auto module = parse_module(R"(HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4] multiply(p, p)
  ROOT r = f32[4] add(q, p)
  s = f32[4] negate(r)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const Users users = users_of((*module)->entry_computation());
  EXPECT_EQ(users, (Users{{1, 1, 2}, {2}, {3, kCaller}, {}}));
  EXPECT_EQ(only_user(users, 0), std::nullopt);
  EXPECT_EQ(only_user(users, 1), 2);
  EXPECT_EQ(only_user(users, 2), std::nullopt);
  EXPECT_EQ(only_user(users, 3), std::nullopt);
}

TEST(Users, TheCallerIsNoOnlyUser) {
  const auto module = parse_module("HloModule m\nENTRY e {\n  p = f32[4] parameter(0)\n  ROOT r = f32[4] negate(p)\n}");
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(only_user(users_of((*module)->entry_computation()), 1), std::nullopt);
}

}  // namespace
}  // namespace strata::hlo
