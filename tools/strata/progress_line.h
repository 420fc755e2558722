// A line that is rewritten on a terminal, and printed every few seconds elsewhere.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <string>

namespace strata::cli {

class ProgressLine {
 public:
  /// `text` makes the line; it is called where one is due.
  template <class Text>
  void show(const Text& text) {
    const auto now = std::chrono::steady_clock::now();
    const auto wait = std::chrono::milliseconds(terminal_ ? 100 : 5000);
    if (now - last_ < wait) return;
    last_ = now;
    fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", text(), terminal_ ? "\x1b[K" : "\n");
    shown_ = true;
  }
  void end() {
    if (shown_ && terminal_) fmt::print(stderr, "\n");
    shown_ = false;
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace strata::cli
