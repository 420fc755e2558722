#include "support/child_process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>
#include <thread>
#include <vector>

namespace strata {
namespace {

TEST(ChildProcess, ReturnsWhatWasComputed) {
  int changed = 1;
  const auto text = in_child_process({}, [&] {
    changed = 2;
    return std::string(1 << 20, 'x') + std::to_string(changed);
  });
  ASSERT_TRUE(text);
  EXPECT_EQ(text->size(), (size_t{1} << 20) + 1);
  EXPECT_EQ(text->back(), '2');
  EXPECT_EQ(changed, 1);
  EXPECT_EQ(in_child_process({}, [] { return std::string(); }), "");
}

TEST(ChildProcess, WhatNeverEndsIsKilled) {
  std::stop_source stop;
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop.request_stop();
  });
  EXPECT_EQ(in_child_process(stop.get_token(),
                             []() -> std::string {
                               for (volatile int i = 0;;) i = i + 1;
                             }),
            std::nullopt);
  EXPECT_EQ(in_child_process(stop.get_token(), [] { return std::string("late"); }), std::nullopt);
}

TEST(ChildProcess, CrashesAndExceptionsAreNoAnswers) {
  EXPECT_EQ(in_child_process({}, []() -> std::string { throw std::runtime_error("no"); }), std::nullopt);
  EXPECT_EQ(in_child_process({},
                             []() -> std::string {
                               raise(SIGKILL);
                               return "";
                             }),
            std::nullopt);
}

TEST(ChildProcess, ManyThreadsHaveChildrenAtOnce) {
  std::vector<std::string> found(8);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < found.size(); ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 20; ++i) {
          found[t] += in_child_process({}, [&] { return std::string(1, static_cast<char>('a' + t)); }).value_or("?");
        }
      });
    }
  }
  for (size_t t = 0; t < found.size(); ++t) EXPECT_EQ(found[t], std::string(20, static_cast<char>('a' + t)));
}

}  // namespace
}  // namespace strata
