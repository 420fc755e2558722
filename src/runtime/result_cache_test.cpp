#include "runtime/result_cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace strata {
namespace {

namespace fs = std::filesystem;

class ResultCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("strata_cache_{}_{}", getpid(),
                                                      testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<ResultCache> open() {
    return std::make_unique<ResultCache>(folder_.string(),
                                         [this](const std::string& text) { warnings_.push_back(text); });
  }
  std::string file() const { return (folder_ / "results.sqlite").string(); }
  void sql(const std::string& text) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, text.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  static std::string found(ResultCache& cache, const std::string& key) {
    const auto entry = cache.find("test", key);
    return entry ? entry->value : "none";
  }

  fs::path folder_;
  std::vector<std::string> warnings_;
};

TEST_F(ResultCacheTest, KeepsValuesBetweenRuns) {
  const std::string bytes("\0\xff\n", 3);
  open()->store("test", "key", bytes);
  const auto again = open();
  EXPECT_EQ(found(*again, "key"), bytes);
  EXPECT_EQ(found(*again, "other key"), "none");
  EXPECT_FALSE(again->find("other kind", "key"));
  EXPECT_THAT(again->find("test", "key")->created, testing::MatchesRegex("20..-..-.. ..:.. UTC"));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ResultCacheTest, MoreEffortReplacesLess) {
  const auto cache = open();
  cache->store("test", "key", "short", 1);
  cache->store("test", "key", "long", 5);
  cache->store("test", "key", "shorter", 0.5);
  EXPECT_EQ(found(*cache, "key"), "long");
  EXPECT_EQ(cache->find("test", "key")->effort, 5);
}

TEST_F(ResultCacheTest, KeysAreComparedWhereHashesAgree) {
  open()->store("test", "key", "value");
  // Another key under the same hash, as a collision would leave it.
  sql("UPDATE results SET key = CAST('other' AS BLOB)");
  EXPECT_EQ(found(*open(), "key"), "none");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ResultCacheTest, DamagedEntriesAreOverwritten) {
  open()->store("test", "key", "value");
  sql("UPDATE results SET value = CAST('vXlue' AS BLOB)");
  const auto cache = open();
  EXPECT_EQ(found(*cache, "key"), "none");
  cache->store("test", "key", "value");
  EXPECT_EQ(found(*cache, "key"), "value");
}

TEST_F(ResultCacheTest, NoDatabaseIsAWarning) {
  fs::create_directories(folder_);
  std::ofstream(file()) << "this is no database, and long enough to be read as the header of one"
                        << std::string(2000, 'x');
  const auto cache = open();
  cache->store("test", "key", "value");
  EXPECT_EQ(found(*cache, "key"), "none");
  EXPECT_FALSE(cache->usable());
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], testing::HasSubstr(file()));
  EXPECT_THAT(warnings_[0], testing::HasSubstr("remove the file"));
}

TEST_F(ResultCacheTest, CutOffDatabasesAreAWarning) {
  {
    const auto cache = open();
    for (int i = 0; i < 200; ++i) cache->store("test", fmt::format("key {}", i), std::string(5000, 'v'));
  }
  fs::resize_file(file(), fs::file_size(file()) / 2 + 100);
  const auto cache = open();
  int lost = 0;
  for (int i = 0; i < 200; ++i) lost += found(*cache, fmt::format("key {}", i)) == "none" ? 1 : 0;
  EXPECT_GT(lost, 0);
  cache->store("test", "new", "value");
  EXPECT_LE(warnings_.size(), 1U);
}

TEST_F(ResultCacheTest, NewerFormatsAreLeftAlone) {
  open()->store("test", "key", "value");
  sql("PRAGMA user_version = 99");
  EXPECT_EQ(found(*open(), "key"), "none");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], testing::HasSubstr("newer Strata"));
  sql("PRAGMA user_version = 1");
  EXPECT_EQ(found(*open(), "key"), "value");  // nothing was lost
}

TEST_F(ResultCacheTest, FoldersThatCannotBeMadeAreAWarning) {
  std::ofstream(folder_) << "a file";
  const auto cache = open();
  cache->store("test", "key", "value");
  EXPECT_FALSE(cache->usable());
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(ResultCacheTest, ProcessesAndThreadsWriteAtOnce) {
  constexpr int kProcesses = 4;
  constexpr int kThreads = 3;
  constexpr int kKeys = 20;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool warned = false;
      {
        ResultCache cache(folder_.string(), [&](const std::string& text) {
          fmt::print(stderr, "{}\n", text);
          warned = true;
        });
        std::vector<std::jthread> threads;
        for (int t = 0; t < kThreads; ++t) {
          threads.emplace_back([&cache, p, t] {
            for (int k = 0; k < kKeys; ++k) {
              cache.store("test", fmt::format("own {} {} {}", p, t, k), fmt::format("value {}", k));
              cache.store("test", fmt::format("shared {}", k), std::string(10000, static_cast<char>('a' + k)));
              cache.find("test", fmt::format("shared {}", (k * 7) % kKeys));
            }
          });
        }
      }
      _exit(warned ? 1 : 0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const auto cache = open();
  for (int k = 0; k < kKeys; ++k) {
    EXPECT_EQ(found(*cache, fmt::format("shared {}", k)), std::string(10000, static_cast<char>('a' + k)));
    for (int p = 0; p < kProcesses; ++p) {
      for (int t = 0; t < kThreads; ++t) {
        EXPECT_EQ(found(*cache, fmt::format("own {} {} {}", p, t, k)), fmt::format("value {}", k));
      }
    }
  }
  EXPECT_TRUE(warnings_.empty());
}

TEST(BuildIdentity, NamesTheBuild) {
  EXPECT_EQ(build_identity(), build_identity());
  EXPECT_GT(build_identity().size(), std::string("strata 0.1.0 ").size());
}

}  // namespace
}  // namespace strata
