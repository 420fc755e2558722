#include "support/read_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "support/temporary_folder.h"

namespace strata {
namespace {

std::string failure(const std::string& path) {
  const auto read = read_file(path);
  return read ? "read" : read.error().to_string();
}

TEST(ReadFile, ReadsFilesOfAllLengths) {
  const TemporaryFolder folder("read_file");
  const std::string path = (folder.path() / "f").string();
  for (const size_t size : {0, 1, 4095, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20}) {
    std::string text(size, 'x');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31);
    std::ofstream(path, std::ios::binary) << text;
    const auto read = read_file(path);
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_TRUE(*read == text) << size;
  }
}

TEST(ReadFile, ReadsPipesToTheirEnd) {
  const TemporaryFolder folder("read_file");
  const std::string path = (folder.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const std::string text(3 << 20, 'y');
  std::thread writer([&] { std::ofstream(path, std::ios::binary) << text; });
  const auto read = read_file(path);
  writer.join();
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_TRUE(*read == text);
}

TEST(ReadFile, FailuresSayWhy) {
  const TemporaryFolder folder("read_file");
  const std::string remedy = "\n  name a file that exists and that you may read";
  EXPECT_EQ(failure("/"), "error: cannot read '/': it is a folder\n  name a file in it");
  EXPECT_EQ(failure("/nowhere/f"), "error: cannot read '/nowhere/f': No such file or directory" + remedy);
  EXPECT_EQ(failure(""), "error: cannot read '': No such file or directory" + remedy);
  EXPECT_EQ(failure("/proc/self/mem"), "error: cannot read '/proc/self/mem': Input/output error" + remedy);
  EXPECT_EQ(shown_path("-"), "<stdin>");
  EXPECT_EQ(shown_path("a-"), "a-");
}

}  // namespace
}  // namespace strata
