#include "megakernel/plan_end.h"

namespace strata::megakernel {

std::vector<int> running_at_end(const Plan& plan) {
  if (plan.tasks.empty()) return {};
  std::vector<std::vector<int>> producers(plan.events.size());
  for (size_t t = 0; t < plan.tasks.size(); ++t)
    if (const int signal = plan.tasks[t].signal; signal >= 0)
      producers[static_cast<size_t>(signal)].push_back(static_cast<int>(t));
  std::vector<int> previous(plan.tasks.size(), -1);
  for (const std::vector<int>& queue : plan.queues)
    for (size_t i = 1; i < queue.size(); ++i) previous[static_cast<size_t>(queue[i])] = queue[i - 1];

  std::vector<bool> seen(plan.tasks.size(), false);
  std::vector<int> left;
  const auto visit = [&](int t) {
    if (t < 0 || seen[static_cast<size_t>(t)]) return;
    seen[static_cast<size_t>(t)] = true;
    left.push_back(t);
  };
  visit(static_cast<int>(plan.tasks.size()) - 1);
  while (!left.empty()) {
    const auto t = static_cast<size_t>(left.back());
    left.pop_back();
    for (const int event : plan.tasks[t].waits)
      if (plan.events[static_cast<size_t>(event)].hand_off != HandOff::Tagged)
        for (const int producer : producers[static_cast<size_t>(event)]) visit(producer);
    visit(previous[t]);
  }
  std::vector<int> running;
  for (size_t t = 0; t < seen.size(); ++t)
    if (!seen[t]) running.push_back(static_cast<int>(t));
  return running;
}

}  // namespace strata::megakernel
