#include "ir/lexer.h"

#include "support/read_file.h"

namespace strata {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// End of a number that starts at `i`: -12, 0.5, 1e-3, 1/64. A slash before anything else divides: 1/tokens.
size_t number_end(std::string_view text, size_t i) {
  ++i;
  while (i < text.size()) {
    const char c = text[i];
    if (c == '/' && (i + 1 == text.size() || !is_digit(text[i + 1]))) break;
    const bool sign_of_exponent = (c == '-' || c == '+') && (text[i - 1] == 'e' || text[i - 1] == 'E');
    if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' && c != '/' && !sign_of_exponent) break;
    ++i;
  }
  return i;
}

}  // namespace

Result<TokenStream> tokenize(std::string_view text, std::shared_ptr<const std::string> file) {
  TokenStream stream;
  int line = 1;
  size_t line_start = 0;
  bool code_on_line = false;
  bool previous_line_blank = true;  // no blank line is kept at the top
  // Editors on some systems put a mark at the beginning of UTF-8.
  if (text.starts_with(kByteOrderMark)) line_start = kByteOrderMark.size();
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    return tl::unexpected(
        Error{ErrorCode::InvalidInput, "the text is UTF-16", "save it as UTF-8", SourceLocation{file, line, 1}});
  }
  for (size_t i = line_start; i < text.size();) {
    const char c = text[i];
    const int column = static_cast<int>(i - line_start) + 1;
    if (c == '\n') {
      const bool blank =
          !code_on_line && text.substr(line_start, i - line_start).find_first_not_of(" \t\r") == std::string_view::npos;
      if (blank && !previous_line_blank) stream.comments.push_back({"", line, false});
      previous_line_blank = blank;
      code_on_line = false;
      ++line;
      line_start = ++i;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++i;
    } else if (c == '#') {
      size_t end = text.find('\n', i);
      if (end == std::string_view::npos) end = text.size();
      std::string_view comment = text.substr(i, end - i);
      while (!comment.empty() && (comment.back() == ' ' || comment.back() == '\r' || comment.back() == '\t')) {
        comment.remove_suffix(1);
      }
      stream.comments.push_back({std::string(comment), line, code_on_line});
      i = end;
    } else {
      size_t end = i + 1;
      Token::Kind kind = Token::Kind::Punctuation;
      if (is_letter(c)) {
        kind = Token::Kind::Word;
        while (end < text.size() && (is_letter(text[end]) || is_digit(text[end]))) ++end;
      } else if (is_digit(c) || (c == '-' && i + 1 < text.size() && is_digit(text[i + 1]))) {
        kind = Token::Kind::Number;
        end = number_end(text, i);
      } else if (std::string_view("(){}[],=:+-*/").find(c) == std::string_view::npos) {
        const bool printable = c > ' ' && c < 127;
        return tl::unexpected(Error{ErrorCode::InvalidInput,
                                    printable ? fmt::format("unexpected character '{}'", c)
                                              : fmt::format("unexpected byte 0x{:02x}", static_cast<unsigned char>(c)),
                                    "comments start with #; names are letters, digits and _",
                                    SourceLocation{file, line, column}});
      }
      stream.tokens.push_back({kind, text.substr(i, end - i), line, column});
      code_on_line = true;
      i = end;
    }
  }
  stream.tokens.push_back({Token::Kind::End, "", line, static_cast<int>(text.size() - line_start) + 1});
  return stream;
}

}  // namespace strata
