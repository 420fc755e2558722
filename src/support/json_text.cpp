#include "support/json_text.h"

#include <cassert>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "support/read_file.h"

namespace strata {
namespace {

/// A place in a text that says how far its copies have been moved: how far the parser has read.
class Reading {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Reading(const char* at, const char** read) : at_(at), read_(read) {}
  reference operator*() const { return *at_; }
  Reading& operator++() {
    *read_ = ++at_;
    return *this;
  }
  bool operator==(const Reading& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** read_;
};

/// "LINE:COLUMN" of a byte of the text.
std::string place_of(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  const size_t line = before.rfind('\n');
  return fmt::format("{}:{}", std::count(before.begin(), before.end(), '\n') + 1,
                     line == std::string_view::npos ? at + 1 : at - line);
}

/// Looks at all of a text before it is parsed, and stops at the first thing that is wrong. The names of its functions
/// are nlohmann's.
template <class Json>
class Check : public nlohmann::json_sax<Json> {
 public:
  Check(std::string_view text, int most_nested) : text_(text), most_nested_(most_nested), read_(text.data()) {}

  Result<void> run() {
    const char* const end = text_.data() + text_.size();
    if (Json::sax_parse(Reading(text_.data(), &read_), Reading(end, &read_), this)) return {};
    return invalid("{}: {}", place_of(text_, wrong_at_), wrong_);
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(typename Json::number_integer_t) override { return true; }
  bool number_unsigned(typename Json::number_unsigned_t) override { return true; }
  bool number_float(typename Json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(typename Json::binary_t&) override { return true; }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool start_object(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool key(std::string& name) override {
    if (keys_.back().insert(name).second) return true;
    return fail(done() - 1, fmt::format("the object has the key {} twice", shown_json(Json(name))));
  }
  bool parse_error(size_t position, const std::string& token, const typename Json::exception& error) override {
    constexpr int kNumberTooLarge = 406;
    if (error.id == kNumberTooLarge)
      return fail(position - token.size(), fmt::format("the number {} is too large", cut(token)));
    // `position` counts from 1 and is one past the end where the text ends too early.
    const size_t at = std::min(text_.size(), position == 0 ? 0 : position - 1);
    const std::string_view word = word_at(at);
    return fail(at, is_float(word) ? fmt::format("'{}' is no number of JSON", word) : "this is no JSON");
  }

  static std::string cut(std::string text) {
    constexpr size_t kMostShown = 60;
    if (text.size() <= kMostShown) return text;
    size_t size = kMostShown;
    // Not inside a character of UTF-8.
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
    return text.substr(0, size) + "…";
  }

 private:
  size_t done() const { return static_cast<size_t>(read_ - text_.data()); }
  std::string_view word_at(size_t at) const {
    const auto is_letter = [&](size_t n) { return std::isalpha(static_cast<unsigned char>(text_[n])) != 0; };
    size_t begin = at, end = at;
    while (begin > 0 && is_letter(begin - 1)) --begin;
    while (end < text_.size() && is_letter(end)) ++end;
    return text_.substr(begin, end - begin);
  }
  /// What other languages write for floats that are no numbers or infinite.
  static bool is_float(std::string_view word) {
    std::string small(word);
    for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return small == "nan" || small == "inf" || small == "infinity";
  }
  bool open() {
    keys_.emplace_back();
    if (static_cast<int>(keys_.size()) <= most_nested_) return true;
    return fail(done() - 1, fmt::format("nested more than {} deep", most_nested_));
  }
  bool close() {
    keys_.pop_back();
    return true;
  }
  bool fail(size_t at, std::string what) {
    wrong_at_ = at;
    wrong_ = std::move(what);
    return false;
  }

  std::string_view text_;
  int most_nested_;
  const char* read_;
  std::vector<std::set<std::string>> keys_;  ///< of the arrays and objects that are open
  size_t wrong_at_ = 0;
  std::string wrong_;
};

}  // namespace

template <class Json>
Result<Json> parse_json(std::string_view text, int most_nested) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  STRATA_CHECK(Check<Json>(text, most_nested).run());
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  assert(!json.is_discarded());
  return json;
}

template <class Json>
std::string shown_json(const Json& value) {
  return Check<Json>::cut(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

template Result<nlohmann::json> parse_json(std::string_view text, int most_nested);
template Result<nlohmann::ordered_json> parse_json(std::string_view text, int most_nested);
template std::string shown_json(const nlohmann::json& value);
template std::string shown_json(const nlohmann::ordered_json& value);

}  // namespace strata
