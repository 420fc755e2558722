#include "support/temporary_folder.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryFolder, OnlyTheUserCanEnter) {
  fs::path path;
  {
    const TemporaryFolder folder("strata-test");
    const TemporaryFolder other("strata-test");
    path = folder.path();
    ASSERT_FALSE(path.empty());
    EXPECT_NE(path, other.path());
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace strata
