#include "support/trusted_path.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "support/temporary_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

class TrustedPath : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(base() / "inner");
    std::ofstream(file()) << "x";
    ASSERT_EQ(chmod(file().c_str(), 0644), 0);
    ASSERT_EQ(chmod((base() / "inner").c_str(), 0755), 0);
  }
  const fs::path& base() const { return folder_.path(); }
  fs::path file() const { return base() / "inner" / "file"; }
  static std::string why(const fs::path& path) { return why_not_trusted(path, geteuid()); }

 private:
  TemporaryFolder folder_{"strata-trust"};
};

TEST_F(TrustedPath, OnesOwnFilesAre) {
  EXPECT_EQ(why(file()), "");
  EXPECT_EQ(why(base() / "inner" / ".." / "inner" / "." / "file"), "");
  EXPECT_THAT(why(base() / "nothing"), HasSubstr("does not exist"));
}

TEST_F(TrustedPath, WhatOthersCanWriteIsNot) {
  ASSERT_EQ(chmod(file().c_str(), 0646), 0);
  EXPECT_THAT(why(file()), HasSubstr("others can write '" + file().string()));
  ASSERT_EQ(chmod(file().c_str(), 0644), 0);
  // A folder: a file in it can be replaced. With the sticky bit it cannot.
  ASSERT_EQ(chmod((base() / "inner").c_str(), 0777), 0);
  EXPECT_THAT(why(file()), HasSubstr("others can write"));
  ASSERT_EQ(chmod((base() / "inner").c_str(), 01777), 0);
  EXPECT_EQ(why(file()), "");
}

TEST_F(TrustedPath, LinksAreFollowedAndEveryStepIsChecked) {
  fs::create_directory(base() / "open");
  ASSERT_EQ(chmod((base() / "open").c_str(), 0777), 0);
  fs::create_symlink(file(), base() / "straight");
  EXPECT_EQ(why(base() / "straight"), "");
  fs::create_symlink(file(), base() / "open" / "hop");
  fs::create_symlink("open/hop", base() / "by_an_open_folder");
  EXPECT_THAT(why(base() / "by_an_open_folder"), HasSubstr("others can write '" + (base() / "open").string()));
  fs::create_symlink("around", base() / "around");
  EXPECT_THAT(why(base() / "around"), HasSubstr("link without end"));
}

TEST_F(TrustedPath, AnotherUsersIsNot) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  constexpr uid_t kOther = 54321;
  ASSERT_EQ(chown(file().c_str(), kOther, kOther), 0);
  EXPECT_THAT(why(file()), HasSubstr("belongs to another user"));
  EXPECT_EQ(why_not_trusted(file(), kOther), "");  // whoever owns the program can replace it
  EXPECT_EQ(owner_of(file()), kOther);
  ASSERT_EQ(chown(file().c_str(), 0, kOther), 0);
  ASSERT_EQ(chmod(file().c_str(), 0664), 0);
  EXPECT_THAT(why(file()), HasSubstr("others can write"));
  ASSERT_EQ(chown(file().c_str(), kOther, kOther), 0);
  EXPECT_EQ(why_not_trusted(file(), kOther), "");  // a group of the owner's own
}

}  // namespace
}  // namespace strata
