#include "support/write_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "support/read_file.h"
#include "support/temporary_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

class WriteFile : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }
  static std::string contents(const std::string& path) { return read_file(path).value_or("unreadable"); }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

 private:
  TemporaryFolder folder_{"strata-write"};
};

TEST_F(WriteFile, WritesAndReplaces) {
  ASSERT_TRUE(write_file(at("a"), "first, and longer"));
  ASSERT_TRUE(write_file(at("a"), "second", Sync::None));
  EXPECT_EQ(contents(at("a")), "second");
  EXPECT_EQ(files(), 1U);  // nothing is left beside it
  struct stat status {};
  ASSERT_EQ(stat(at("a").c_str(), &status), 0);
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(status.st_mode & 0777U, 0666U & ~mask);
}

TEST_F(WriteFile, FollowsNoLink) {
  std::ofstream(at("victim")) << "untouched";
  // The names of temporary files that could be guessed once.
  for (const char* name : {"out", "out.writing", "out.tmp"}) fs::create_symlink("victim", at(name));
  ASSERT_TRUE(write_file(at("out"), "new"));
  EXPECT_EQ(contents(at("victim")), "untouched");
  EXPECT_EQ(contents(at("out")), "new");
  EXPECT_FALSE(fs::is_symlink(at("out")));
}

TEST_F(WriteFile, DevicesAndPipesStayWhatTheyAre) {
  ASSERT_TRUE(write_file("/dev/null", "gone"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_THAT(write_file("/dev/full", "more").error().message, HasSubstr("No space left on device"));
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  const int reader = open(at("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_TRUE(write_file(at("pipe"), "through"));
  std::array<char, 16> read{};
  EXPECT_EQ(::read(reader, read.data(), read.size()), 7);
  close(reader);
  EXPECT_TRUE(fs::is_fifo(at("pipe")));
}

TEST_F(WriteFile, SaysWhatIsWrong) {
  const auto folder = write_file(fs::path(at("a")).parent_path().string(), "x");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, ErrorCode::Environment);
  EXPECT_THAT(folder.error().message, HasSubstr("Is a directory"));
  EXPECT_THAT(write_file(at("nowhere/a"), "x").error().message, HasSubstr("No such file or directory"));
  EXPECT_FALSE(write_file("", "x"));
  EXPECT_EQ(files(), 0U);
}

TEST_F(WriteFile, ProcessesAtOnceAllSucceed) {
  std::vector<pid_t> children;
  for (int c = 0; c < 8; ++c) {
    const pid_t child = fork();
    if (child == 0) {
      const std::string text(100'000, static_cast<char>('a' + c));
      bool right = true;
      for (int i = 0; i < 50; ++i) {
        right = right && write_file(at("a"), text, Sync::None);
        const std::string found = contents(at("a"));  // somebody's, whole
        right = right && found == std::string(100'000, found.front());
      }
      _exit(right ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(files(), 1U);
}

}  // namespace
}  // namespace strata
