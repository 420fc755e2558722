// For tests of passes that rewrite modules.
#pragma once

#include <gtest/gtest.h>

#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::hlo {

/// Expects that a rewritten module is verified, is read again as it is printed, and computes what the module does, by
/// the interpreter, of the arguments of this seed. `slack` is that of difference(), compare.h.
inline void expect_same_values(const Module& module, const Module& rewritten, uint64_t seed, double slack) {
  const std::string text = print(rewritten);
  const auto verified = verify(rewritten);
  ASSERT_TRUE(verified) << verified.error().to_string() << text;
  const auto again = parse_module(text);
  ASSERT_TRUE(again) << again.error().to_string();
  const auto arguments = typical_arguments(module.entry_computation(), seed);
  const auto expected = evaluate(module, arguments);
  ASSERT_TRUE(expected) << expected.error().to_string();
  const auto actual = evaluate(**again, arguments);
  ASSERT_TRUE(actual) << actual.error().to_string();
  EXPECT_EQ(difference(*actual, *expected, slack).value_or(""), "");
}

}  // namespace strata::hlo
