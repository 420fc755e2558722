#include "support/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/read_file.h"
#include "support/temporary_folder.h"
#include "support/write_file.h"

namespace strata {
namespace {

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, HasTheBytesOfTheFileAndMoves) {
  const TemporaryFolder folder("strata-mapped");
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, size_t{100001}}) {
    const std::string path = (folder.path() / "x").string();
    std::string contents(size, ' ');
    for (size_t i = 0; i < size; ++i) contents[i] = static_cast<char>(i * 7 % 251);
    ASSERT_TRUE(write_file(path, contents, Sync::None));
    auto file = MappedFile::open(path);
    ASSERT_TRUE(file) << file.error().to_string();
    EXPECT_EQ(text_of(*file), contents);
    MappedFile moved = std::move(*file);
    EXPECT_EQ(text_of(moved), contents);
    auto other = MappedFile::open(path);
    ASSERT_TRUE(other);
    moved = std::move(*other);
    EXPECT_EQ(text_of(moved), contents);
  }
}

TEST(MappedFile, SaysWhyAFileCannotBeRead) {
  const TemporaryFolder folder("strata-mapped");
  const auto error = [](const std::filesystem::path& path) {
    const auto file = MappedFile::open(path.string());
    return file ? std::string("none") : file.error().message;
  };
  EXPECT_THAT(error(folder.path() / "missing"), testing::HasSubstr("No such file"));
  EXPECT_THAT(error(folder.path()), testing::HasSubstr("no regular file"));
  ASSERT_EQ(mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error(folder.path() / "pipe"), testing::HasSubstr("no regular file"));
}

}  // namespace
}  // namespace strata
