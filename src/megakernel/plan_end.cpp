#include "megakernel/plan_end.h"

#include "megakernel/plan_relations.h"

namespace strata::megakernel {

std::vector<int> running_at_end(const Plan& plan) {
  if (plan.tasks.empty()) return {};
  const PlanRelations relations(plan);
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
        for (const int producer : relations.triggers[static_cast<size_t>(event)]) visit(producer);
    visit(relations.previous[t]);
  }
  std::vector<int> running;
  for (size_t t = 0; t < seen.size(); ++t)
    if (!seen[t]) running.push_back(static_cast<int>(t));
  return running;
}

}  // namespace strata::megakernel
