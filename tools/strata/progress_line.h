// A line that is rewritten on a terminal, and printed after a second and every few more elsewhere.
#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "notice.h"

namespace strata::cli {

/// Thread-safe. The line is printed again while nothing new is said, so that the seconds in front of it show that work
/// goes on.
class ProgressLine {
 public:
  ProgressLine() : ticker_([this](const std::stop_token& ended) { tick(ended); }) {}

  /// What is going on from now.
  void show(std::string text) {
    const std::scoped_lock lock(mutex_);
    text_ = std::move(text);
  }
  /// Nothing is going on until the next show(); what is printed next stands on a line of its own.
  void end() {
    const std::scoped_lock lock(mutex_);
    if (printed_ && terminal_) notice("\n");
    printed_ = false;
    text_.clear();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void tick(const std::stop_token& ended) {
    std::unique_lock lock(mutex_);
    for (auto wait = std::chrono::milliseconds(terminal_ ? 100 : 1000); !ended.stop_requested();) {
      wake_.wait_for(lock, ended, wait, [] { return false; });
      if (text_.empty() || ended.stop_requested()) continue;
      const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
      notice("{}{:5.1f} s  {}{}", terminal_ ? "\r" : "", seconds, text_, terminal_ ? "\x1b[K" : "\n");
      printed_ = true;
      if (!terminal_) wait = std::chrono::milliseconds(5000);
    }
  }

  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::string text_;
  bool printed_ = false;
  std::jthread ticker_;  // last: it uses the others
};

}  // namespace strata::cli
