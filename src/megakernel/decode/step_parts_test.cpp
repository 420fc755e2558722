// What steps are made with: how weights come ahead.
#include "megakernel/decode/step_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::megakernel {
namespace {

constexpr std::array<int64_t, 3> kWindows{16, 32, 48};
constexpr std::array<int64_t, 2> kAheads{128, 0};

TEST(FastestLoads, AreThoseOfTheFewestSeconds) {
  for (const Loads best : {Loads{16, 128}, Loads{32, 0}, Loads{48, 0}, Loads{48, 128}}) {
    std::vector<Loads> measured;
    const auto found = fastest_loads(kWindows, kAheads, [&](const Loads& loads) -> Result<double> {
      measured.push_back(loads);
      return loads == best ? 1.0 : 1.0 + static_cast<double>(loads.window + loads.ahead);
    });
    ASSERT_TRUE(found);
    EXPECT_EQ(found->first, best);
    EXPECT_EQ(found->second, 1.0);
    EXPECT_EQ(measured, (std::vector<Loads>{{16, 128}, {16, 0}, {32, 128}, {32, 0}, {48, 128}, {48, 0}}));
  }
}

TEST(FastestLoads, AreTheFirstOfEqualOnes) {
  const auto found = fastest_loads(kWindows, kAheads, [](const Loads&) -> Result<double> { return 2.0; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->first, (Loads{16, 128}));
}

TEST(FastestLoads, EndWithTheFirstError) {
  int calls = 0;
  const auto found = fastest_loads(kWindows, kAheads, [&](const Loads& loads) -> Result<double> {
    ++calls;
    if (loads.ahead == 0) return environment("no time");
    return 1.0;
  });
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, "no time");
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace strata::megakernel
