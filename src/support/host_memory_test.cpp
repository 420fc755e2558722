#include "support/host_memory.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(HostMemory, RefusesWhatIsMoreThanThereIs) {
  const int64_t all = host_memory_bytes();
  EXPECT_GT(all, int64_t{1} << 26);
  EXPECT_TRUE(check_host_memory(1, "this"));
  EXPECT_TRUE(check_host_memory(static_cast<double>(all), "this"));
  const auto refused = check_host_memory(1e18, "executing 'g'");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Environment);
  EXPECT_TRUE(
      refused.error().message.starts_with("executing 'g' takes 931322574.6 GiB of memory and this machine has "))
      << refused.error().message;
}

}  // namespace
}  // namespace strata
