// Signals that end a long command with the best so far.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <stop_token>
#include <thread>

#include "notice.h"

namespace strata::cli {

/// The first SIGINT or SIGTERM requests a stop; a second one ends the process as usual. A thread waits for both, so
/// that nothing runs inside a handler. To be made before any other thread, which then inherits what is blocked.
class InterruptWatch {
 public:
  /// Whether there is a result so far that a stop leaves.
  enum class From : uint8_t {
    Now,
    Begin,  ///< from begin() on; until then a signal ends the process as usual
  };
  explicit InterruptWatch(std::stop_source& source, From from = From::Now) : begun_(from == From::Now) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    watcher_ = std::jthread([this, &source](const std::stop_token& ended) { watch(source, ended); });
  }

  void begin() { begun_ = true; }
  /// The exit code of a command that ended with `code` by itself: 128 and the signal's number where one asked for that.
  int exit_code(int code) const { return signal_ == 0 ? code : 128 + signal_; }

 private:
  void watch(std::stop_source& source, const std::stop_token& ended) {
    const timespec tick{0, 50'000'000};
    while (!ended.stop_requested()) {
      const int signal = sigtimedwait(&signals_, nullptr, &tick);
      if (signal <= 0) continue;
      if (!begun_ || signal_ != 0) end_by(signal);
      signal_ = signal;
      notice("\n{}: finishing with what there is; a second signal ends it at once\n",
             signal == SIGINT ? "interrupted" : "terminated");
      source.request_stop();
    }
  }

  /// As it ends a process that does not know the signal: NVRTC has a handler of its own, which ends it with code 4.
  void end_by(int signal) {
    ::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
    raise(signal);  // to this thread
  }

  sigset_t signals_{};
  std::atomic<bool> begun_;
  std::atomic<int> signal_ = 0;
  std::jthread watcher_;  // last: it uses the others
};

}  // namespace strata::cli
