#include "support/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/random.h"

namespace strata {
namespace {

using Json = nlohmann::json;

std::string message(const std::string& text, int most_nested = kMostNestedJson) {
  const auto json = parse_json<Json>(text, most_nested);
  if (json) return "none";
  EXPECT_EQ(json.error().code, ErrorCode::InvalidInput);
  return json.error().message;
}

TEST(JsonText, ErrorsNameLineAndColumn) {
  EXPECT_EQ(message(""), "1:1: this is no JSON");
  EXPECT_EQ(message("{\n \"a\": \n"), "3:1: this is no JSON");
  EXPECT_EQ(message("{} x"), "1:4: this is no JSON");
  EXPECT_EQ(message("[nan]"), "1:3: 'nan' is no number of JSON");
  EXPECT_EQ(message("{\"a\": NaN}"), "1:7: 'NaN' is no number of JSON");
  EXPECT_EQ(message("[-Infinity]"), "1:3: 'Infinity' is no number of JSON");
  EXPECT_EQ(message("[nothing]"), "1:3: this is no JSON");
  EXPECT_EQ(message("\xef\xbb\xbf[1]"), "none") << "a mark of byte order";
  EXPECT_EQ(message("\xef\xbb\xbf[1,]"), "1:4: this is no JSON");
  EXPECT_EQ(message("[1,\n 1e999]"), "2:2: the number 1e999 is too large");
  EXPECT_EQ(message("-1e999"), "1:1: the number -1e999 is too large");
  EXPECT_EQ(message(std::string(400, '9')), "1:1: the number " + std::string(60, '9') + "… is too large");
  EXPECT_EQ(message("[1e308, 1e-999, 18446744073709551616]"), "none");
  EXPECT_EQ(message("{\"a\":1,\n\"b\":{\"a\":2},\"a\":3}"), "2:15: the object has the key \"a\" twice");
  EXPECT_EQ(message("{\"a\":1,\"\\u0061\":2}"), "1:15: the object has the key \"a\" twice");
  EXPECT_EQ(message("[{\"a\":1},{\"a\":1}]"), "none");
  EXPECT_EQ(message("[[1],[2],{\"a\":[3]}]", 3), "none");
  EXPECT_EQ(message("[[1],[2],{\"a\":[3]}]", 2), "1:15: nested more than 2 deep");
  EXPECT_EQ(message(std::string(1000000, '[')), "1:33: nested more than 32 deep");
}

TEST(JsonText, ShownValuesAreShort) {
  EXPECT_EQ(shown_json(Json({1, "ä"})), "[1,\"ä\"]");
  for (size_t before = 55; before < 62; ++before) {
    const std::string shown = shown_json(Json(std::string(before, 'x') + "ääää"));
    EXPECT_LE(shown.size(), 63U);
    EXPECT_EQ(shown.substr(1, 55), std::string(55, 'x'));
    EXPECT_FALSE(Json(shown).dump().empty()) << "it would throw at half a character";
  }
}

Json random_json(Random& random, int depth) {
  const uint64_t kind = random.below(depth > 0 ? 6 : 4);
  if (kind == 0) return nullptr;
  if (kind == 1) return static_cast<int64_t>(random.below(100)) - 50;
  if (kind == 2) return static_cast<double>(random.below(1000)) / 8;
  if (kind == 3) return std::string(random.below(4), static_cast<char>('a' + random.below(3)));
  Json json = kind == 4 ? Json::array() : Json::object();
  for (uint64_t n = random.below(5); n > 0; --n) {
    Json value = random_json(random, depth - 1);
    if (kind == 4) {
      json.push_back(std::move(value));
    } else {
      json[std::string(1, static_cast<char>('a' + random.below(6)))] = std::move(value);
    }
  }
  return json;
}

int depth_of(const Json& json) {
  if (!json.is_structured()) return 0;
  int depth = 0;
  for (const Json& value : json) depth = std::max(depth, depth_of(value));
  return depth + 1;
}

size_t keys_of(const Json& json) {
  size_t keys = json.is_object() ? json.size() : 0;
  if (json.is_structured())
    for (const Json& value : json) keys += keys_of(value);
  return keys;
}

/// A text is taken if nlohmann's parser takes it, every key that it meets is in the value, and that is not too deep.
TEST(JsonText, TakesWhatHasEachKeyOnceAndIsNotDeep) {
  Random random(1);
  std::map<bool, int> count;
  for (int test = 0; test < 4000; ++test) {
    std::string text = random_json(random, 4).dump(static_cast<int>(random.below(3)) - 1);
    for (uint64_t n = random.below(3); n > 0; --n) {
      static constexpr std::string_view kBytes = "ab\"{}[],:1e9\n ";
      text[random.below(text.size())] = kBytes[random.below(kBytes.size())];
    }
    size_t keys = 0;
    // Values that a later one of the same key replaces are not in the result, nor are their keys.
    const auto watch = [&](int, Json::parse_event_t event, Json&) {
      keys += event == Json::parse_event_t::key;
      return true;
    };
    const Json expected = Json::parse(text, watch, /*allow_exceptions=*/false);
    const int most = 1 + static_cast<int>(random.below(5));
    const bool taken = !expected.is_discarded() && keys == keys_of(expected) && depth_of(expected) <= most;
    const auto json = parse_json<Json>(text, most);
    ASSERT_EQ(json.has_value(), taken) << text << "\n" << message(text, most);
    if (taken) {
      EXPECT_EQ(*json, expected);
    }
    ++count[taken];
  }
  EXPECT_GT(count[true], 500);
  EXPECT_GT(count[false], 500);
}

}  // namespace
}  // namespace strata
