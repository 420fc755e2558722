// Slices of the search: their union is the whole.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "ir/text.h"
#include "superopt/search/checkpoint.h"
#include "superopt/search/search.h"
#include "test_paths.h"

namespace strata {
namespace {

class Shards : public testing::TestWithParam<const char*> {
 protected:
  std::string file(const std::string& name) const {
    return (std::filesystem::temp_directory_path() / fmt::format("strata-shards-{}-{}.json", getpid(), name)).string();
  }
  void TearDown() override {
    for (const char* name : {"0", "1", "2", "all"}) std::filesystem::remove(file(name));
  }
  /// With a checkpoint in `kept`, unless that is empty.
  std::vector<std::string> found(SearchOptions options, const std::string& kept = {}) const {
    auto program = load_graph(fmt::format("{}/programs/{}.strata", STRATA_SOURCE_DIR, GetParam()));
    EXPECT_TRUE(program);
    if (!kept.empty()) {
      auto checkpoint = Checkpoint::open(kept, **program, options);
      EXPECT_TRUE(checkpoint) << checkpoint.error().to_string();
      options.checkpoint = *checkpoint;
    }
    auto result = search(*program, options);
    EXPECT_TRUE(result) << result.error().to_string();
    std::vector<std::string> texts;
    for (const GraphPtr& graph : result->graphs) texts.push_back(print(*graph));
    return texts;
  }
};

TEST_P(Shards, UnionIsTheWhole) {
  SearchOptions options;
  options.target = &targets().back();
  options.threads = 2;
  options.time_limit = 0;
  const std::vector<std::string> whole = found(options);
  ASSERT_FALSE(whole.empty());
  std::vector<std::string> files;
  for (int i = 0; i < 3; ++i) {
    SearchOptions shard = options;
    shard.shard_index = i;
    shard.shard_count = 3;
    files.push_back(file(std::to_string(i)));
    EXPECT_NE(found(shard, files.back()), whole);
  }
  const auto units = merge_checkpoints(files, file("all"));
  ASSERT_TRUE(units) << units.error().to_string();
  EXPECT_GT(*units, 0U);
  EXPECT_EQ(found(options, file("all")), whole);
  // With a shard lost, what it had is searched again.
  files.pop_back();
  std::filesystem::remove(file("all"));
  ASSERT_TRUE(merge_checkpoints(files, file("all")));
  EXPECT_EQ(found(options, file("all")), whole);
}

INSTANTIATE_TEST_SUITE_P(Programs, Shards, testing::Values("rmsnorm", "lora"),
                         [](const auto& name) { return std::string(name.param); });

TEST(Shard, ThatDoesNotExist) {
  auto program = load_graph(STRATA_SOURCE_DIR "/programs/lora.strata");
  SearchOptions options;
  options.target = &targets().back();
  options.shard_index = options.shard_count = 2;
  EXPECT_FALSE(search(*program, options));
}

}  // namespace
}  // namespace strata
