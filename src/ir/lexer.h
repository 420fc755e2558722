// Tokens of the text format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace strata {

struct Token {
  enum class Kind { Word, Number, Punctuation, End };
  Kind kind = Kind::End;
  std::string_view text;
  int line = 1;
  int column = 1;
};

/// A comment, and whether a statement precedes it on its line; an empty line between statements is a blank one.
struct CommentLine {
  std::string text;  ///< "# …" without trailing spaces; "" for a blank line
  int line = 1;
  bool behind_code = false;
};

struct TokenStream {
  std::vector<Token> tokens;  ///< the last one is End
  std::vector<CommentLine> comments;
};

/// Error at the first character that starts no token.
Result<TokenStream> tokenize(std::string_view text, std::shared_ptr<const std::string> file);

}  // namespace strata
