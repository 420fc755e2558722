// Prints the page of a timeline that was made up: 8 workers, a step of some hundred tasks. tests/pages/pages_test.py
// looks at it, since no machine of the tests has a GPU that could be traced.
#include <cstdio>
#include <string>

#include "megakernel/runtime/timeline.h"

namespace strata::megakernel {
namespace {

std::string made_up() {
  constexpr int kWorkers = 8, kTasks = 40;
  Plan plan;
  plan.name = "a made-up step";
  plan.workers = kWorkers;
  plan.functions = {
      {.name = "product", .stages = 4, .stage_bytes = 65536}, {.name = "norm & <rope>"}, {.name = "attention"}};
  std::vector<TracedTask> records;
  for (int worker = 0; worker < kWorkers; ++worker) {
    unsigned long long now = 1000 + 37 * static_cast<unsigned long long>(worker);
    for (int n = 0; n < kTasks; ++n) {
      const int function = n % 3;
      const auto length = static_cast<unsigned long long>(400 + 300 * function + 11 * ((worker * 7 + n * 13) % 17));
      const auto task = static_cast<int>(plan.tasks.size());
      plan.tasks.emplace_back().function = function;
      if (function == 0) records.push_back({worker, Role::Load, {task, 1, now - 300, now + length / 2}});
      records.push_back({worker, Role::Compute, {task, 1, now, now + length}});
      now += length + 60;
    }
  }
  const auto timeline = step_timeline(plan, records);
  return timeline ? timeline_html(plan, *timeline) : std::string();
}

}  // namespace
}  // namespace strata::megakernel

int main() {
  const std::string page = strata::megakernel::made_up();
  std::fputs(page.c_str(), stdout);
  return page.empty() ? 1 : 0;
}
