#include "support/spelling.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata {
namespace {

const std::vector<std::string> kNames{"optimize", "verify", "run", "show", "merge", "emit"};

TEST(Spelling, FindsWhatWasMeant) {
  EXPECT_EQ(closest_name("optimise", kNames), "optimize");
  EXPECT_EQ(nearest_first("bb", {"aaaa", "bc", "bb", "b"}), (std::vector<std::string>{"bb", "bc", "b", "aaaa"}));
  EXPECT_EQ(closest_name("optmize", kNames), "optimize");
  EXPECT_EQ(closest_name("verfiy", kNames), "verify");
  EXPECT_EQ(closest_name("sohw", kNames), "show");
  EXPECT_EQ(closest_name("rum", kNames), "run");
  EXPECT_EQ(did_you_mean("optimise", kNames), "; did you mean 'optimize'?");
}

TEST(Spelling, SaysNothingWhereNothingIsNear) {
  EXPECT_EQ(closest_name("frobnicate", kNames), "");
  EXPECT_EQ(closest_name("x", kNames), "");
  EXPECT_EQ(closest_name(std::string(1'000'000, 'x'), kNames), "");
  EXPECT_EQ(closest_name("--b", std::vector<std::string>{"--a", "--c"}), "");  // equally near
  EXPECT_EQ(closest_name("--b", std::vector<std::string>{"--a", "--c", "--d"}), "");
  EXPECT_EQ(did_you_mean("frobnicate", kNames), "");
}

}  // namespace
}  // namespace strata
