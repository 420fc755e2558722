// When work must end, for everything that a run does one after the other: one point in time and one request to stop,
// handed down from the whole to its stages.
#pragma once

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <stop_token>

namespace strata {

/// A point in time at which work must end, brought forward when the user asks to stop: then what is left has `grace`
/// seconds to put the best so far together. Copies share one state. Thread-safe.
class Deadline {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  /// Where the time comes from; tests have clocks of their own.
  using Now = std::function<TimePoint()>;

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// Never passes.
  Deadline() : Deadline(kNever) {}
  /// In `seconds` (kNever: not by itself), or `grace` seconds after `stop` is requested, whichever is first.
  explicit Deadline(double seconds, std::stop_token stop = {}, double grace = 0, Now now = {});

  /// The earlier of this and `seconds` from now. The user's stop is this one's.
  Deadline within(double seconds) const;
  /// `share` of the time that is left, from 0 to 1.
  Deadline share(double share) const { return within(share * seconds_left()); }

  /// All but what those after it need: `seconds`, but no more than `share` of the time that is left.
  Deadline all_but(double seconds, double share) const;
  /// The same with a share of its grace: what follows has the rest.
  Deadline with_grace(double share) const;
  /// For work that ends as soon as the user asks.
  Deadline without_grace() const { return with_grace(0); }

  /// 0 once it has passed; kNever where it never does.
  double seconds_left() const;
  bool passed() const { return seconds_left() <= 0; }
  /// Whether the user asked to stop, which may be before this has passed.
  bool interrupted() const;
  const std::stop_token& interrupt() const;  ///< the user's request
  /// A stop that is requested when this passes, at most some hundredths of a second late, while a copy of this lives.
  std::stop_token token() const;

 private:
  struct Interrupt;
  struct State;
  explicit Deadline(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace strata
