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

  std::unique_ptr<ResultCache> open(int64_t limit = ResultCache::kDefaultLimit) {
    return std::make_unique<ResultCache>(
        folder_.string(), [this](const std::string& text) { warnings_.push_back(text); }, limit);
  }
  static void store_large(ResultCache& cache, int number) {
    cache.store("large", std::to_string(number), std::string(kLarge, static_cast<char>('a' + number % 26)), 0,
                ResultCache::Keep::WhileThereIsRoom);
  }
  static bool has_large(ResultCache& cache, int number) {
    const auto entry = cache.find("large", std::to_string(number));
    if (entry) {
      EXPECT_EQ(entry->value, std::string(kLarge, static_cast<char>('a' + number % 26)));
    }
    return entry.has_value();
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

  static constexpr size_t kLarge = 100'000;
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

TEST_F(ResultCacheTest, ValuesUnderAnotherKeyOrOfAnotherEffortAreDamaged) {
  open()->store("test", "key", "value", 3);
  sql("UPDATE results SET effort = 1e300");
  {
    const auto cache = open();
    EXPECT_EQ(found(*cache, "key"), "none");
    cache->store("test", "key", "better", 1);  // less than what the damaged one claimed
    EXPECT_EQ(found(*cache, "key"), "better");
  }
  open()->store("test", "other", "value of the other", 1);
  sql("UPDATE results SET value = (SELECT value FROM results WHERE key = CAST('other' AS BLOB)), checksum ="
      " (SELECT checksum FROM results WHERE key = CAST('other' AS BLOB))");
  EXPECT_EQ(found(*open(), "key"), "none");
  EXPECT_EQ(found(*open(), "other"), "value of the other");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ResultCacheTest, WhatItsReaderForgetsIsGone) {
  const auto cache = open();
  cache->store("test", "key", "wrong", 1e300);
  cache->forget("test", "key");
  EXPECT_EQ(found(*cache, "key"), "none");
  cache->store("test", "key", "right", 1);
  EXPECT_EQ(found(*cache, "key"), "right");
}

TEST_F(ResultCacheTest, WhatCannotBeWrittenIsRead) {
  open()->store("test", "key", "value");
  fs::permissions(file(), fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  fs::permissions(folder_, fs::perms(0555));
  const pid_t child = fork();
  if (child == 0) {
    // Permissions are nothing to root.
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(2);
    const auto cache = open();
    bool right = found(*cache, "key") == "value" && warnings_.empty();
    cache->store("test", "new", "value");
    cache->store("test", "newer", "value");
    right = right && found(*cache, "key") == "value" && found(*cache, "new") == "none" && warnings_.size() == 1 &&
            warnings_[0].find("is only read") != std::string::npos &&
            warnings_[0].find("check the permissions of its folder") != std::string::npos;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  fs::permissions(folder_, fs::perms(0755));
}

TEST_F(ResultCacheTest, WhatIsLockedIsReadOrLeft) {
  open()->store("test", "key", "value");
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(file().c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  {
    const auto cache = open();
    cache->store("test", "new", "value");
    EXPECT_EQ(found(*cache, "key"), "value");
    ASSERT_EQ(warnings_.size(), 1U);
    EXPECT_THAT(warnings_[0], testing::HasSubstr("is only read"));
    EXPECT_THAT(warnings_[0], testing::HasSubstr("wait for the process that holds it"));
  }
  sqlite3_close(other);
}

TEST_F(ResultCacheTest, WhatOthersCanWriteIsNotUsed) {
  open()->store("test", "key", "value");
  fs::permissions(folder_, fs::perms(0777));
  EXPECT_EQ(found(*open(), "key"), "none");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], testing::HasSubstr("others can write '" + folder_.string() + "'"));
  EXPECT_THAT(warnings_[0], testing::HasSubstr("name a folder of your own with --cache"));
  fs::permissions(folder_, fs::perms(0755));
  fs::permissions(file(), fs::perms(0666));
  EXPECT_EQ(found(*open(), "key"), "none");
  EXPECT_EQ(warnings_.size(), 2U);
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
  sql("PRAGMA user_version = 2");
  EXPECT_EQ(found(*open(), "key"), "value");  // nothing was lost
}

TEST_F(ResultCacheTest, FoldersThatCannotBeMadeAreAWarning) {
  std::ofstream(folder_) << "a file";
  const auto cache = open();
  cache->store("test", "key", "value");
  EXPECT_FALSE(cache->usable());
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(ResultCacheTest, TheLeastRecentlyUsedAreDroppedAtTheLimit) {
  constexpr int64_t kLimit = 1'080'000;
  {
    const auto cache = open(kLimit);
    cache->store("test", "first", "kept");
    for (int i = 0; i < 10; ++i) store_large(*cache, i);
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(has_large(*cache, i)) << i;
  }
  sql("UPDATE uses SET used = used - 1000000");
  {
    const auto cache = open(kLimit);
    EXPECT_TRUE(has_large(*cache, 0));  // used again
    EXPECT_TRUE(has_large(*cache, 3));
    for (int i = 10; i < 15; ++i) store_large(*cache, i);
    for (int i = 0; i < 15; ++i) EXPECT_EQ(has_large(*cache, i), i == 0 || i == 3 || i >= 7) << i;
    EXPECT_EQ(found(*cache, "first"), "kept");
  }
  EXPECT_LT(fs::file_size(file()), static_cast<uintmax_t>(kLimit + 2 * kLarge));  // freed pages are used again
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ResultCacheTest, WhatMustBeKeptIsKeptBeyondTheLimit) {
  const auto cache = open(0);
  store_large(*cache, 1);
  EXPECT_FALSE(has_large(*cache, 1));
  for (int i = 0; i < 5; ++i) cache->store("test", std::to_string(i), std::string(kLarge, 'v'));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(found(*cache, std::to_string(i)), std::string(kLarge, 'v'));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ResultCacheTest, ALowerLimitFreesTheDiskWhenOpened) {
  {
    const auto cache = open();
    cache->store("test", "key", "kept");
    for (int i = 0; i < 20; ++i) store_large(*cache, i);
    for (int i = 0; i < 250; ++i) {  // more than are dropped in one transaction
      cache->store("small", std::to_string(i), "value", 0, ResultCache::Keep::WhileThereIsRoom);
    }
    EXPECT_TRUE(cache->find("small", "0"));
  }
  EXPECT_GT(fs::file_size(file()), 20 * kLarge);
  sql("UPDATE uses SET used = 0 WHERE kind = CAST('small' AS BLOB)");
  {
    const auto cache = open(3 * kLarge);
    EXPECT_TRUE(has_large(*cache, 19));
    EXPECT_FALSE(has_large(*cache, 0));
    for (int i : {0, 120, 249}) EXPECT_FALSE(cache->find("small", std::to_string(i)));
    EXPECT_EQ(found(*cache, "key"), "kept");
  }
  EXPECT_LE(fs::file_size(file()), 3 * kLarge);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ResultCacheTest, TheFirstFormatIsTakenOver) {
  fs::create_directories(folder_);
  sql("CREATE TABLE results (kind TEXT NOT NULL, hash INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,"
      " checksum INTEGER NOT NULL, effort REAL NOT NULL, created TEXT NOT NULL, PRIMARY KEY (kind, hash, key))"
      " WITHOUT ROWID; PRAGMA user_version = 1");
  for (const char* kind : {"cubin", "measurement"}) {
    sql(fmt::format(
        "INSERT INTO results VALUES (CAST('{}' AS BLOB), 7, CAST('key' AS BLOB), zeroblob(200000), 7, 0, '')", kind));
  }
  open(300'000);
  sql("CREATE TABLE one_measurement (n INTEGER CHECK (n = 1)); INSERT INTO one_measurement SELECT count(*) FROM results"
      " WHERE kind = CAST('measurement' AS BLOB); INSERT INTO one_measurement SELECT count(*) FROM results");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ResultCacheTest, ProcessesDropAtOnce) {
  constexpr int kProcesses = 4;
  constexpr int kEntries = 30;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool wrong = false;
      {
        ResultCache cache(
            folder_.string(), [&](const std::string&) { wrong = true; }, 10 * kLarge);
        for (int i = 0; i < kEntries; ++i) {
          store_large(cache, p * 7 + i);  // some are the same
          cache.store("test", fmt::format("{} {}", p, i), "kept");
          has_large(cache, i);
        }
      }
      _exit(wrong || testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const auto cache = open(10 * kLarge);
  for (int p = 0; p < kProcesses; ++p) {
    for (int i = 0; i < kEntries; ++i) EXPECT_EQ(found(*cache, fmt::format("{} {}", p, i)), "kept");
  }
  int large = 0;
  for (int i = 0; i < kProcesses * 7 + kEntries; ++i) large += has_large(*cache, i) ? 1 : 0;
  EXPECT_GE(large, 5);
  EXPECT_LE(large, 10);
  EXPECT_LT(fs::file_size(file()), 13 * kLarge);
  EXPECT_TRUE(warnings_.empty());
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
