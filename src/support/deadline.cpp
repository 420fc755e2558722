#include "support/deadline.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace strata {
namespace {

/// How often a clock is asked whether a token is due. It need not be the system's, so that no wait is as long as what
/// is left.
constexpr auto kTick = std::chrono::milliseconds(20);

using TimePoint = Deadline::TimePoint;

/// `seconds` later; the end of time where that is not to be counted.
TimePoint later(TimePoint from, double seconds) {
  using Seconds = std::chrono::duration<double>;
  if (!(seconds < Seconds(TimePoint::max() - from).count() / 2)) return TimePoint::max();
  return from + std::chrono::duration_cast<TimePoint::duration>(Seconds(std::max(0.0, seconds)));
}

}  // namespace

/// The user's request, and when it came.
struct Deadline::Interrupt {
  Interrupt(std::stop_token token, double seconds, Now clock)
      : stop(std::move(token)), grace(seconds), now(std::move(clock)), noted(stop, Note{this}) {}

  struct Note {
    Interrupt* owner;
    void operator()() const { owner->came = owner->now(); }
  };

  /// The end of the grace, or of a share of it.
  TimePoint end(double share) const {
    if (!stop.stop_requested()) return TimePoint::max();
    if (share <= 0) return TimePoint::min();
    const TimePoint then = came;  // for an instant it may not be noted yet
    return then == TimePoint::max() ? then : later(then, share * grace);
  }

  const std::stop_token stop;
  const double grace;
  const Now now;
  std::atomic<TimePoint> came = TimePoint::max();
  const std::stop_callback<Note> noted;  // last: it writes the others
};

struct Deadline::State {
  State(std::shared_ptr<Interrupt> request, TimePoint at, double share)
      : interrupt(std::move(request)), end(at), grace_share(share) {}

  double seconds_left() const {
    const TimePoint first = std::min(end, interrupt->end(grace_share));
    if (first == TimePoint::max()) return kNever;
    const TimePoint now = interrupt->now();
    return first <= now ? 0 : std::chrono::duration<double>(first - now).count();
  }

  std::stop_token token() {
    if (end == TimePoint::max() && grace_share * interrupt->grace <= 0) return interrupt->stop;
    const std::scoped_lock lock(mutex);
    if (!watch.joinable() && !source.stop_requested()) {
      if (seconds_left() <= 0) {
        source.request_stop();
      } else {
        watch = std::jthread([this](const std::stop_token& ended) { wait(ended); });
      }
    }
    return source.get_token();
  }

  void wait(const std::stop_token& ended) {
    std::mutex idle;
    std::condition_variable_any wake;
    std::unique_lock held(idle);
    while (!ended.stop_requested() && seconds_left() > 0) wake.wait_for(held, ended, kTick, [] { return false; });
    if (!ended.stop_requested()) source.request_stop();
  }

  const std::shared_ptr<Interrupt> interrupt;
  const TimePoint end;
  const double grace_share;
  std::mutex mutex;  ///< of what starts the watch
  std::stop_source source;
  std::jthread watch;  // last: it uses the others
};

Deadline::Deadline(double seconds, std::stop_token stop, double grace, Now now) {
  if (!now) now = [] { return std::chrono::steady_clock::now(); };
  const TimePoint end = later(now(), seconds);
  state_ = std::make_shared<State>(std::make_shared<Interrupt>(std::move(stop), grace, std::move(now)), end, 1);
}

Deadline Deadline::within(double seconds) const {
  const TimePoint end = later(state_->interrupt->now(), seconds);
  return Deadline(std::make_shared<State>(state_->interrupt, std::min(end, state_->end), state_->grace_share));
}

Deadline Deadline::all_but(double seconds, double share) const {
  const double left = seconds_left();
  return within(left == kNever ? kNever : left - std::min(seconds, share * left));
}

Deadline Deadline::with_grace(double share) const {
  return Deadline(std::make_shared<State>(state_->interrupt, state_->end, share * state_->grace_share));
}

double Deadline::seconds_left() const { return state_->seconds_left(); }
bool Deadline::interrupted() const { return state_->interrupt->stop.stop_requested(); }
const std::stop_token& Deadline::interrupt() const { return state_->interrupt->stop; }
std::stop_token Deadline::token() const { return state_->token(); }

}  // namespace strata
