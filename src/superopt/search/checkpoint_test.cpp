// Checkpoints that are not what the search wrote: every one is refused in words or does no harm.
#include "superopt/search/checkpoint.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "ir/text.h"
#include "support/read_file.h"
#include "support/temporary_folder.h"
#include "support/write_file.h"

namespace strata {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

constexpr int kByteMutations = 3000;
constexpr int kValueMutations = 1500;

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    auto parsed = parse_graph("graph g {\n input A: f16[64, 128]\n B = exp(A)\n C = sum(B, dim=1)\n output C\n}");
    ASSERT_TRUE(parsed) << parsed.error().to_string();
    program_ = *parsed;
    options_.target = &targets().back();
    options_.max_kernel_ops = 1;
    options_.max_block_ops = 3;
    options_.time_limit = 0;
    const auto found = run();
    ASSERT_TRUE(found) << found.error().to_string();
    best_ = print(*found->graphs.front());
    const auto text = read_file(path());
    ASSERT_TRUE(text);
    text_ = *text;
    body_ = Json::parse(text_.substr(text_.find('\n') + 1));
    ASSERT_FALSE(body_["searches"].begin()->empty());
  }

  std::string path() const { return (folder_.path() / "checkpoint").string(); }
  /// A search that begins with the file as it is.
  Result<SearchResult> run() {
    STRATA_TRY(options_.checkpoint, Checkpoint::open(path(), *program_, options_));
    return search(program_, options_);
  }
  /// What the search says to a checkpoint of this text.
  Result<SearchResult> run_with(const std::string& text) {
    EXPECT_TRUE(write_file(path(), text, Sync::None));
    return run();
  }
  std::string refusal(const Json& body) {
    const auto found = run_with(with_checksum(body.dump()));
    return found ? "accepted" : found.error().message;
  }
  /// The first unit that has choices.
  static Json& unit(Json& body) {
    for (Json& entries : *body["searches"].begin()) {
      if (!entries.empty()) return entries;
    }
    ADD_FAILURE() << "no unit has choices";
    return body;
  }

  GraphPtr program_;
  SearchOptions options_;
  std::string best_, text_;
  Json body_;

 private:
  TemporaryFolder folder_{"strata-checkpoint"};
};

TEST_F(CheckpointTest, WhatIsWrongIsNamed) {
  const auto with = [&](const auto& change) {
    Json body = body_;
    change(unit(body).front());
    return refusal(body);
  };
  EXPECT_EQ(with([](Json&) {}), "accepted");
  EXPECT_THAT(with([](Json& e) { e["inputs"] = {9999999}; }), HasSubstr("value 9999999 is none that it reads"));
  EXPECT_THAT(with([](Json& e) { e["inputs"] = {-1}; }), HasSubstr("has an entry that is none"));
  EXPECT_THAT(with([](Json& e) { e["inputs"] = {1e300}; }), HasSubstr("has an entry that is none"));
  EXPECT_THAT(with([](Json& e) { e["inputs"] = Json::array(); }), HasSubstr("other inputs or outputs"));
  EXPECT_THAT(with([](Json& e) { e["result"] = 4000000000U; }), HasSubstr("has an entry that is none"));
  EXPECT_THAT(with([](Json& e) { e["result"] = e["inputs"][0]; }), HasSubstr("is none that it makes"));
  EXPECT_THAT(with([](Json& e) { e.erase("graph"); }), HasSubstr("has an entry that is none"));
  EXPECT_THAT(with([](Json& e) { e["graph"] = "graph"; }), HasSubstr("expected"));
  EXPECT_THAT(with([&](Json& e) { e["graph"] = print(*program_); }), HasSubstr("its graph has a predefined operator"));
  EXPECT_THAT(with([](Json& e) { e["graph"] = "graph g {\n input A: f32[64, 128]\n B = exp(A)\n output B\n}"; }),
              HasSubstr("an input of its graph has another type"));
  EXPECT_THAT(with([](Json& e) { e["graph"] = "graph g {\n input A: f16[64, 128]\n output A\n}"; }),
              HasSubstr("the output of its graph has another shape"));
}

TEST_F(CheckpointTest, CostsAreNotRead) {
  Json body = body_;
  for (Json& entries : *body["searches"].begin()) {
    for (Json& entry : entries) entry["seconds"] = -1;
  }
  const auto found = run_with(with_checksum(body.dump()));
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_EQ(print(*found->graphs.front()), best_);
}

TEST_F(CheckpointTest, DeepNestingIsRefused) {
  const std::string deep(1'000'000, '[');
  EXPECT_FALSE(run_with(with_checksum(deep)));
  EXPECT_FALSE(run_with(with_checksum("{\"key\": " + deep + std::string(deep.size(), ']') + ", \"searches\": {}}")));
}

TEST_F(CheckpointTest, EveryChangedByteIsNoticed) {
  std::mt19937 random(7);
  for (int i = 0; i < kByteMutations; ++i) {
    std::string text = text_;
    const size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
        break;
      case 1:
        text.erase(at, 1 + random() % 64);
        break;
      case 2:
        text.insert(at, 1, static_cast<char>(random()));
        break;
      default:
        text.resize(at);
    }
    ASSERT_TRUE(write_file(path(), text, Sync::None));
    const auto opened = Checkpoint::open(path(), *program_, options_);
    ASSERT_FALSE(opened) << text;
    EXPECT_THAT(opened.error().message, HasSubstr("is damaged: "));
    EXPECT_FALSE(merge_checkpoints({path()}, path() + ".merged"));
  }
}

/// Changes one value of a document, wherever it is.
void mutate(Json& json, std::mt19937& random) {
  if (json.is_structured() && !json.empty() && random() % 16 != 0) {
    auto it = json.begin();
    std::advance(it, random() % json.size());
    return mutate(*it, random);
  }
  const std::vector<Json> others{nullptr,
                                 true,
                                 -1,
                                 0,
                                 1,
                                 2,
                                 3,
                                 2147483647,
                                 2147483648,
                                 -9223372036854775807,
                                 1e300,
                                 0.5,
                                 "",
                                 "graph",
                                 Json::array(),
                                 Json::object(),
                                 Json::array({1, 2})};
  if (json.is_string() && random() % 2 == 0 && !json.get_ref<std::string&>().empty()) {
    auto& text = json.get_ref<std::string&>();
    const size_t at = random() % text.size();
    constexpr std::string_view kLetters = "0123456789ABCab[](),=:\n ";
    if (random() % 2 == 0) {
      text[at] = kLetters[random() % kLetters.size()];
    } else {
      text.erase(at, 1 + random() % 8);
    }
  } else if (json.is_array() && random() % 2 == 0 && !json.empty()) {
    json.push_back(json[random() % json.size()]);
  } else {
    json = others[random() % others.size()];
  }
}

TEST_F(CheckpointTest, ChangedValuesAreRefusedOrDoNoHarm) {
  std::mt19937 random(11);
  int refused = 0;
  for (int i = 0; i < kValueMutations; ++i) {
    Json body = body_;
    for (uint32_t changes = 1 + random() % 2; changes > 0; --changes) mutate(body["searches"], random);
    // Bytes that are no UTF-8 cannot be dumped; a letter may have been cut in two.
    const std::string text = with_checksum(body.dump(-1, ' ', false, Json::error_handler_t::replace));
    const auto found = run_with(text);
    if (!found) {
      ++refused;
      EXPECT_EQ(found.error().code, ErrorCode::InvalidInput) << text;
      EXPECT_THAT(found.error().message, HasSubstr("checkpoint '" + path() + "'"));
      continue;
    }
    for (const GraphPtr& graph : found->graphs) EXPECT_EQ(graph->outputs().size(), 1U);
  }
  EXPECT_GT(refused, kValueMutations / 4);
  EXPECT_LT(refused, kValueMutations);
}

TEST_F(CheckpointTest, WhatCannotBeWrittenIsKnownAtOnce) {
  const auto nowhere = Checkpoint::open(path() + "/inside", *program_, options_);
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message, HasSubstr("cannot write"));
  const auto folder = Checkpoint::open(std::filesystem::path(path()).parent_path().string(), *program_, options_);
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr("it is a folder"));
}

}  // namespace
}  // namespace strata
