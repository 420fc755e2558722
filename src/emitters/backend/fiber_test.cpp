#include "emitters/backend/fiber.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace strata::emitters {
namespace {

struct Counter {
  Fiber* fiber = nullptr;
  std::vector<int> seen;
};

void count_to_three(void* argument) {
  auto& counter = *static_cast<Counter*>(argument);
  for (int i = 1; i <= 3; ++i) {
    counter.seen.push_back(i);
    if (i < 3) counter.fiber->suspend();
  }
}

TEST(Fiber, GoesOnWhereItWasAndStartsAnew) {
  Counter counter;
  Fiber fiber(count_to_three, &counter);
  counter.fiber = &fiber;
  for (int i = 0; i < 4; ++i) fiber.resume();
  EXPECT_EQ(counter.seen, (std::vector<int>{1, 2, 3, 1}));
  fiber.restart();
  fiber.resume();
  EXPECT_EQ(counter.seen.back(), 1);
}

TEST(Fiber, ManyAtOnce) {
  std::vector<Counter> counters(200);
  std::vector<std::unique_ptr<Fiber>> fibers;
  for (Counter& counter : counters) {
    fibers.push_back(std::make_unique<Fiber>(count_to_three, &counter));
    counter.fiber = fibers.back().get();
  }
  for (int i = 0; i < 3; ++i)
    for (auto& fiber : fibers) fiber->resume();
  for (const Counter& counter : counters) EXPECT_EQ(counter.seen.size(), 3u);
}

/// Fills more than the stack, from the top downwards as frames grow.
void overflow(void*) {
  volatile char* top = static_cast<char*>(__builtin_frame_address(0));
  for (size_t depth = 256; depth < 2 * Fiber::kStackBytes; depth += 256) top[-static_cast<ptrdiff_t>(depth)] = 1;
}

TEST(FiberDeathTest, StackEndsInAFault) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        Fiber fiber(overflow, nullptr);
        fiber.resume();
      },
      "");
}

}  // namespace
}  // namespace strata::emitters
