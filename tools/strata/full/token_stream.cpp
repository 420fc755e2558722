#include "token_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace strata::cli {

bool TokenStream::has_ended(const std::vector<int>& row) const {
  return static_cast<int64_t>(row.size()) == tokens_ ||
         (!row.empty() && std::find(stop_tokens_.begin(), stop_tokens_.end(), row.back()) != stop_tokens_.end());
}

void TokenStream::print_row() {
  const std::vector<int>& row = rows_[row_];
  for (; printed_ < row.size(); ++printed_) fmt::print("{}{}", printed_ == 0 ? "" : " ", row[printed_]);
}

void TokenStream::end_row() {
  fmt::print("\n");
  ++row_;
  printed_ = 0;
}

void TokenStream::take(int64_t sequence, int token) {
  rows_[static_cast<size_t>(sequence)].push_back(token);
  if (static_cast<size_t>(sequence) != row_) return;
  for (print_row(); row_ < rows_.size() && has_ended(rows_[row_]);) {
    end_row();
    if (row_ < rows_.size()) print_row();
  }
  std::fflush(stdout);
}

void TokenStream::finish() {
  while (row_ < rows_.size()) {
    print_row();
    end_row();
  }
  std::fflush(stdout);
}

TokenStream::~TokenStream() {
  if (printed_ > 0) std::fputs("\n", stdout);
}

}  // namespace strata::cli
