// What signals do to a command: InterruptWatch, in processes of its own.
#include "../../tools/strata/interrupt_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

namespace strata::cli {
namespace {

constexpr std::chrono::seconds kGuard{20};
constexpr int kOthers = 4;    // NVRTC's exit code
constexpr int kNothing = 99;  // no signal had an effect

/// As NVRTC has one, from its first compilation on.
void install_handler_of_others() {
  for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, [](int) { _exit(kOthers); });
}

void send(int signal) { ::kill(getpid(), signal); }

bool stops_within(const std::stop_source& stop, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!stop.stop_requested() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return stop.stop_requested();
}

[[noreturn]] void wait_for_the_end() {
  std::this_thread::sleep_for(kGuard);
  _exit(kNothing);
}

class InterruptWatchDeathTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_P(InterruptWatchDeathTest, AFirstSignalAsksForAStop) {
  EXPECT_EXIT(
      {
        std::stop_source stop;
        const InterruptWatch watch(stop);
        install_handler_of_others();
        send(GetParam());
        _exit(stops_within(stop, kGuard) ? watch.exit_code(0) : kNothing);
      },
      testing::ExitedWithCode(128 + GetParam()), "finishing with what there is");
}

TEST_P(InterruptWatchDeathTest, ASecondOneEndsTheProcess) {
  EXPECT_EXIT(
      {
        std::stop_source stop;
        const InterruptWatch watch(stop);
        install_handler_of_others();
        send(SIGINT);
        if (!stops_within(stop, kGuard)) _exit(kNothing);
        send(GetParam());
        wait_for_the_end();
      },
      testing::KilledBySignal(GetParam()), "");
}

TEST_P(InterruptWatchDeathTest, BeforeThereIsAResultTheFirstEndsTheProcess) {
  EXPECT_EXIT(
      {
        std::stop_source stop;
        const InterruptWatch watch(stop, InterruptWatch::From::Begin);
        install_handler_of_others();
        send(GetParam());
        wait_for_the_end();
      },
      testing::KilledBySignal(GetParam()), "");
}

TEST_P(InterruptWatchDeathTest, FromTheBeginningOfResultsOnItAsksForAStop) {
  EXPECT_EXIT(
      {
        std::stop_source stop;
        InterruptWatch watch(stop, InterruptWatch::From::Begin);
        watch.begin();
        send(GetParam());
        _exit(stops_within(stop, kGuard) ? watch.exit_code(0) : kNothing);
      },
      testing::ExitedWithCode(128 + GetParam()), "finishing with what there is");
}

INSTANTIATE_TEST_SUITE_P(Signals, InterruptWatchDeathTest, testing::Values(SIGINT, SIGTERM),
                         [](const auto& info) { return std::string(info.param == SIGINT ? "SIGINT" : "SIGTERM"); });

TEST(InterruptWatch, WithoutSignalsTheExitCodeIsTheCommands) {
  std::stop_source stop;
  const InterruptWatch watch(stop);
  EXPECT_EQ(watch.exit_code(1), 1);
  EXPECT_FALSE(stop.stop_requested());
}

}  // namespace
}  // namespace strata::cli
