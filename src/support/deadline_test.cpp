#include "support/deadline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace strata {
namespace {

/// A clock that only the test moves.
class Clock {
 public:
  void pass(double seconds) { seconds_ = seconds_ + seconds; }
  Deadline::Now now() {
    return [this] {
      return Deadline::TimePoint{} +
             std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds_.load()));
    };
  }

 private:
  std::atomic<double> seconds_ = 1000;
};

/// Waits for a request that must come; the test's own time limit ends what waits in vain.
void expect_requested(const std::stop_token& token) {
  while (!token.stop_requested()) std::this_thread::yield();
}

TEST(Deadline, WithoutALimitItNeverPasses) {
  const Deadline never;
  EXPECT_EQ(never.seconds_left(), Deadline::kNever);
  EXPECT_FALSE(never.passed());
  EXPECT_FALSE(never.token().stop_requested());
  EXPECT_EQ(never.share(0.5).seconds_left(), Deadline::kNever);
  EXPECT_EQ(Deadline(1e300).seconds_left(), Deadline::kNever);
}

TEST(Deadline, ItPassesWhenItsTimeIsUp) {
  Clock clock;
  const Deadline deadline(10, {}, 0, clock.now());
  const std::stop_token token = deadline.token();
  EXPECT_DOUBLE_EQ(deadline.seconds_left(), 10);
  clock.pass(9);
  EXPECT_DOUBLE_EQ(deadline.seconds_left(), 1);
  EXPECT_FALSE(token.stop_requested());
  clock.pass(1);
  EXPECT_TRUE(deadline.passed());
  EXPECT_FALSE(deadline.interrupted());
  expect_requested(token);
  clock.pass(5);
  EXPECT_EQ(deadline.seconds_left(), 0);
}

TEST(Deadline, OneThatHasPassedHasItsStopRequestedFromTheStart) {
  EXPECT_TRUE(Deadline(0).passed());
  EXPECT_TRUE(Deadline(0).token().stop_requested());
  EXPECT_TRUE(Deadline(-1).passed());
}

TEST(Deadline, StagesEndWithTheWhole) {
  Clock clock;
  const Deadline whole(10, {}, 0, clock.now());
  const Deadline half = whole.share(0.5);
  const Deadline longer = whole.within(100);
  EXPECT_DOUBLE_EQ(half.seconds_left(), 5);
  EXPECT_DOUBLE_EQ(longer.seconds_left(), 10);
  clock.pass(5);
  EXPECT_TRUE(half.passed());
  EXPECT_FALSE(whole.passed());
  EXPECT_DOUBLE_EQ(whole.share(0.5).seconds_left(), 2.5);
  EXPECT_TRUE(half.within(3).passed());
}

TEST(Deadline, WhatComesBehindKeepsItsTime) {
  Clock clock;
  const Deadline whole(100, {}, 0, clock.now());
  EXPECT_DOUBLE_EQ(whole.all_but(10, 0.2).seconds_left(), 90);
  EXPECT_DOUBLE_EQ(whole.all_but(30, 0.2).seconds_left(), 80);
  EXPECT_EQ(Deadline().all_but(30, 0.2).seconds_left(), Deadline::kNever);
}

TEST(Deadline, AnInterruptLeavesTheGraceToEveryStage) {
  Clock clock;
  std::stop_source stop;
  const Deadline whole(100, stop.get_token(), 2, clock.now());
  const Deadline stage = whole.within(50);
  const Deadline ending = whole.within(1);
  const Deadline at_once = stage.without_grace();
  const Deadline first = stage.with_grace(0.25);
  const std::stop_token token = stage.token();
  const std::stop_token stops_at_once = at_once.token();
  EXPECT_DOUBLE_EQ(at_once.seconds_left(), 50);
  clock.pass(0.5);
  EXPECT_FALSE(stops_at_once.stop_requested());
  stop.request_stop();
  EXPECT_TRUE(at_once.passed());
  EXPECT_TRUE(at_once.within(1).passed());
  expect_requested(stops_at_once);
  EXPECT_TRUE(stage.interrupted());
  EXPECT_TRUE(stage.interrupt().stop_requested());
  EXPECT_DOUBLE_EQ(stage.seconds_left(), 2);
  EXPECT_DOUBLE_EQ(first.seconds_left(), 0.5);
  EXPECT_DOUBLE_EQ(first.with_grace(0.5).within(10).seconds_left(), 0.25);
  EXPECT_DOUBLE_EQ(ending.seconds_left(), 0.5);  // no interrupt makes anything later
  EXPECT_FALSE(token.stop_requested());
  clock.pass(2);
  EXPECT_TRUE(stage.passed());
  EXPECT_TRUE(whole.passed());
  expect_requested(token);
}

TEST(Deadline, WhatIsStoppedAlreadyHasTheGraceFromTheStart) {
  Clock clock;
  std::stop_source stop;
  stop.request_stop();
  EXPECT_DOUBLE_EQ(Deadline(100, stop.get_token(), 2, clock.now()).seconds_left(), 2);
  EXPECT_TRUE(Deadline(100, stop.get_token(), 0, clock.now()).passed());
}

TEST(Deadline, AStageIsNotKeptByItsToken) {
  std::stop_token token;
  {
    const Deadline whole(3600);
    token = whole.within(1800).token();
  }
  EXPECT_FALSE(token.stop_requested());
  EXPECT_FALSE(token.stop_possible());
}

}  // namespace
}  // namespace strata
