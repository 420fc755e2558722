#include "megakernel/plan_relations.h"

namespace strata::megakernel {

Result<void> check_numbers(const Plan& plan) {
  const auto exists = [](int64_t number, size_t count) { return number >= 0 && number < static_cast<int64_t>(count); };
  const auto exists_or_none = [&](int64_t number, size_t count) { return number == -1 || exists(number, count); };
  if (plan.tasks.empty()) return invalid("plan '{}' has no tasks", plan.name);
  if (plan.workers < 1) return invalid("plan '{}' has {} workers; it needs one at least", plan.name, plan.workers);
  if (plan.queues.size() != static_cast<size_t>(plan.workers))
    return invalid("plan '{}' has {} queues for {} workers", plan.name, plan.queues.size(), plan.workers);
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    const Task& task = plan.tasks[t];
    if (!exists_or_none(task.function, plan.functions.size()))
      return invalid("task {}: function {} does not exist", t, task.function);
    if (!exists_or_none(task.op, plan.operators.size()))
      return invalid("task {}: operator {} does not exist", t, task.op);
    if (!exists_or_none(task.signal, plan.events.size()))
      return invalid("task {}: event {} does not exist", t, task.signal);
    if (task.waits.size() > kMaxWaits)
      return invalid("task {} waits for {} events, more than {}", t, task.waits.size(), kMaxWaits);
    for (int event : task.waits)
      if (!exists(event, plan.events.size())) return invalid("task {}: event {} does not exist", t, event);
  }
  for (size_t w = 0; w < plan.queues.size(); ++w) {
    for (int task : plan.queues[w])
      if (!exists(task, plan.tasks.size())) return invalid("queue {}: task {} does not exist", w, task);
  }
  return {};
}

PlanRelations::PlanRelations(const Plan& plan)
    : triggers(plan.events.size()),
      worker(plan.tasks.size(), -1),
      place(plan.tasks.size(), -1),
      previous(plan.tasks.size(), -1) {
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    if (const int signal = plan.tasks[t].signal; signal >= 0)
      triggers[static_cast<size_t>(signal)].push_back(static_cast<int>(t));
  }
  for (size_t w = 0; w < plan.queues.size(); ++w) {
    const std::vector<int>& queue = plan.queues[w];
    for (size_t i = 0; i < queue.size(); ++i) {
      const auto t = static_cast<size_t>(queue[i]);
      worker[t] = static_cast<int>(w);
      place[t] = static_cast<int>(i);
      if (i > 0) previous[t] = queue[i - 1];
    }
  }
}

}  // namespace strata::megakernel
