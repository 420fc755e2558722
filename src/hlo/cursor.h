// A reader of HLO text, character by character: the text has no tokens that hold everywhere
// (dim_labels=b01f_01io->b01f, size=3x3, names with dots and dashes), so that each rule says what it reads.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace strata::hlo {

/// A text and the places of its lines.
class SourceText {
 public:
  SourceText(std::string_view text, std::string file);
  std::string_view text() const { return text_; }
  SourceLocation location(size_t offset) const;

 private:
  std::string_view text_;
  std::shared_ptr<const std::string> file_;
  std::vector<size_t> lines_;  ///< offsets where lines begin
};

/// Reads a part of a text. Every function first skips spaces, line ends and comments (/* … */ and // …).
class Cursor {
 public:
  explicit Cursor(const SourceText& source) : Cursor(source, 0, source.text().size()) {}
  Cursor(const SourceText& source, size_t begin, size_t end) : source_(&source), at_(begin), end_(end) {}

  void skip();
  bool done();
  /// The next character, 0 at the end.
  char peek();
  size_t offset();
  /// Whether the text goes on so, without reading it.
  bool ahead(std::string_view what);
  /// The same without skipping anything: whether `c` stands right after what was read.
  bool adjacent(char c) const { return at(at_) == c; }
  /// Reads `what` if it is next; a word only as a whole.
  bool accept(std::string_view what);
  Result<void> expect(std::string_view what);
  /// Letters, digits, '_', '.', '-' (not before '>') and ':' followed by a letter or digit; not empty.
  Result<std::string_view> word(std::string_view what);
  /// A word that may have % before it.
  Result<std::string> name(std::string_view what);
  Result<int64_t> integer(std::string_view what);
  /// All that follows up to a space, comma or closing bracket, where brackets and strings count as a whole.
  Result<std::string_view> raw_value();
  /// Reads a bracket with all inside it, up to its partner.
  Result<void> skip_balanced();
  /// Drops the rest of the line.
  void skip_line();

  /// An error here, or at an offset.
  tl::unexpected<Error> error(std::string message, std::string remedy = "");
  tl::unexpected<Error> error_at(size_t offset, std::string message, std::string remedy = "") const;
  /// Says what was expected and what stands here.
  tl::unexpected<Error> expected(std::string_view what);
  const SourceText& source() const { return *source_; }
  SourceLocation location(size_t offset) const { return source_->location(offset); }
  std::string_view text(size_t begin, size_t end) const { return source_->text().substr(begin, end - begin); }
  /// This cursor, further on.
  Cursor from(size_t offset) const { return Cursor(*source_, offset, end_); }
  /// A cursor over a piece of the same text.
  Cursor within(std::string_view piece) const;

 private:
  char at(size_t i) const { return i < end_ ? source_->text()[i] : '\0'; }

  const SourceText* source_;
  size_t at_;
  size_t end_;
};

/// A letter, digit or _.
bool is_word_character(char c);

}  // namespace strata::hlo
