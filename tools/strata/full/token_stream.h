// Tokens on the standard output, as they are made.
#pragma once

#include <cstdint>
#include <vector>

namespace strata::cli {

/// A line for each sequence, in order: the tokens of the first one that has not ended come at once, those of the others
/// when their line comes. So what is printed is the same whatever comes first.
class TokenStream {
 public:
  /// A sequence ends with so many tokens, or with one of `stop_tokens`.
  TokenStream(size_t sequences, int64_t tokens, std::vector<int> stop_tokens)
      : rows_(sequences), tokens_(tokens), stop_tokens_(std::move(stop_tokens)) {}
  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;
  /// Ends a line that was begun, where an error ends the rest.
  ~TokenStream();

  void take(int64_t sequence, int token);
  /// The lines of sequences that were not brought to their end.
  void finish();

 private:
  bool has_ended(const std::vector<int>& row) const;
  void print_row();
  void end_row();

  std::vector<std::vector<int>> rows_;
  int64_t tokens_;
  std::vector<int> stop_tokens_;
  size_t row_ = 0;      ///< whose line it is
  size_t printed_ = 0;  ///< of its tokens
};

}  // namespace strata::cli
