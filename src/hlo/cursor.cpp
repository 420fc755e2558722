#include "hlo/cursor.h"

#include <algorithm>
#include <charconv>

#include "support/read_file.h"

namespace strata::hlo {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool opens(char c) { return c == '(' || c == '{' || c == '['; }
bool closes(char c) { return c == ')' || c == '}' || c == ']'; }

}  // namespace

bool is_word_character(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c); }

SourceText::SourceText(std::string_view text, std::string file)
    : text_(text.substr(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0)),
      file_(std::make_shared<const std::string>(std::move(file))),
      lines_{0} {
  for (size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') lines_.push_back(i + 1);
  }
}

SourceLocation SourceText::location(size_t offset) const {
  const auto next = std::upper_bound(lines_.begin(), lines_.end(), offset);
  const size_t line = static_cast<size_t>(next - lines_.begin());
  return {file_, static_cast<int>(line), static_cast<int>(offset - lines_[line - 1]) + 1};
}

void Cursor::skip() {
  for (;;) {
    if (is_space(at(at_))) {
      ++at_;
    } else if (at(at_) == '/' && at(at_ + 1) == '*') {
      const size_t close = source_->text().find("*/", at_ + 2);
      at_ = close == std::string_view::npos ? end_ : std::min(close + 2, end_);
    } else if (at(at_) == '/' && at(at_ + 1) == '/') {
      skip_line();
    } else {
      return;
    }
  }
}

void Cursor::skip_line() {
  while (at_ < end_ && at(at_) != '\n') ++at_;
}

bool Cursor::done() {
  skip();
  return at_ >= end_;
}

char Cursor::peek() {
  skip();
  return at(at_);
}

size_t Cursor::offset() {
  skip();
  return at_;
}

bool Cursor::ahead(std::string_view what) {
  skip();
  if (source_->text().substr(at_, std::min(what.size(), end_ - at_)) != what) return false;
  return !is_word_character(what.back()) || !is_word_character(at(at_ + what.size()));
}

bool Cursor::accept(std::string_view what) {
  if (!ahead(what)) return false;
  at_ += what.size();
  return true;
}

Result<void> Cursor::expect(std::string_view what) {
  if (!accept(what)) return expected(fmt::format("'{}'", what));
  return {};
}

Result<std::string_view> Cursor::word(std::string_view what) {
  skip();
  size_t end = at_;
  for (;; ++end) {
    const char c = at(end);
    const char next = at(end + 1);
    if (is_word_character(c) || c == '.') continue;
    if (c == '-' && end > at_ && is_word_character(next)) continue;
    if (c == ':' && end > at_ && is_word_character(next)) continue;
    break;
  }
  if (end == at_) return expected(what);
  const std::string_view found = text(at_, end);
  at_ = end;
  return found;
}

Result<std::string> Cursor::name(std::string_view what) {
  accept("%");
  STRATA_TRY(const std::string_view found, word(what));
  return std::string(found);
}

Result<int64_t> Cursor::integer(std::string_view what) {
  skip();
  int64_t value = 0;
  const char* begin = source_->text().data() + at_;
  const auto [end, status] = std::from_chars(begin, source_->text().data() + end_, value);
  if (status == std::errc::result_out_of_range) return error(fmt::format("{} does not fit 64 bits", what));
  if (status != std::errc{}) return expected(what);
  at_ += static_cast<size_t>(end - begin);
  return value;
}

Result<void> Cursor::skip_balanced() {
  skip();
  const size_t begin = at_;
  std::string open;
  do {
    const char c = at(at_);
    if (at_ >= end_) return error_at(begin, fmt::format("'{}' is not closed", at(begin)), "add the missing bracket");
    if (c == '"') {
      const size_t string = at_++;
      while (at_ < end_ && at(at_) != '"') at_ += at(at_) == '\\' ? 2 : 1;
      if (at_ >= end_) return error_at(string, "a string is not closed", "add the missing '\"'");
    } else if (opens(c)) {
      open += c;
    } else if (closes(c)) {
      const char partner = c == ')' ? '(' : c == '}' ? '{' : '[';
      if (open.empty() || open.back() != partner) return error_at(at_, fmt::format("'{}' closes nothing", c));
      open.pop_back();
    }
    ++at_;
  } while (!open.empty());
  return {};
}

Result<std::string_view> Cursor::raw_value() {
  skip();
  const size_t begin = at_;
  while (at_ < end_ && !is_space(at(at_)) && at(at_) != ',' && !closes(at(at_))) {
    if (opens(at(at_)) || at(at_) == '"') {
      STRATA_CHECK(skip_balanced());
    } else {
      ++at_;
    }
  }
  if (at_ == begin) return expected("a value");
  return text(begin, at_);
}

Cursor Cursor::within(std::string_view piece) const {
  const size_t begin = static_cast<size_t>(piece.data() - source_->text().data());
  return Cursor(*source_, begin, begin + piece.size());
}

tl::unexpected<Error> Cursor::error(std::string message, std::string remedy) {
  skip();
  return error_at(at_, std::move(message), std::move(remedy));
}

tl::unexpected<Error> Cursor::error_at(size_t offset, std::string message, std::string remedy) const {
  if (remedy.empty()) remedy = "docs/hlo.md says what of HLO is read, and how to print a module so that it is";
  return tl::unexpected(
      Error{ErrorCode::InvalidInput, std::move(message), std::move(remedy), location(std::min(offset, end_))});
}

tl::unexpected<Error> Cursor::expected(std::string_view what) {
  skip();
  const bool is_end = at_ >= source_->text().size();
  size_t end = at_ + 1;
  while (is_word_character(at(at_)) && is_word_character(at(end))) ++end;
  const char c = at(at_);
  const bool printable = c > ' ' && c < 127;
  std::string found = is_end        ? "the end of the file"
                      : at_ >= end_ ? "the end of the value"
                      : printable   ? fmt::format("'{}'", text(at_, std::min(end, end_)))
                                    : fmt::format("byte 0x{:02x}", static_cast<unsigned char>(c));
  return error(fmt::format("expected {}, found {}", what, found));
}

}  // namespace strata::hlo
