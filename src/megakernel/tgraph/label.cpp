#include "megakernel/tgraph/linearise.h"
#include "megakernel/tgraph/plan_precedence.h"

namespace strata::megakernel {

Result<Plan> label(const Plan& plan, const OperatorGraph& operators, const Machine& machine) {
  Plan result = plan;
  const auto is_dependent = [&](int op) {
    return op >= 0 && operators.operators[static_cast<size_t>(op)].data_dependent;
  };
  const bool any = std::any_of(plan.tasks.begin(), plan.tasks.end(), [&](const Task& t) { return is_dependent(t.op); });
  for (Task& task : result.tasks) task.mode = LaunchMode::AheadOfTime;
  result.schedulers = 0;
  if (!any) return result;

  // Units are operators, then empty tasks. Sources are numbered so that an operator's tasks are neighbours.
  const size_t count = operators.operators.size();
  std::vector<int> unit(plan.tasks.size());
  std::vector<std::vector<int>> tasks(count);
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    if (plan.tasks[t].op < 0) {
      tasks.push_back({static_cast<int>(t)});
      unit[t] = static_cast<int>(tasks.size()) - 1;
    } else {
      unit[t] = plan.tasks[t].op;
      tasks[static_cast<size_t>(unit[t])].push_back(static_cast<int>(t));
    }
  }
  std::vector<int> number(plan.tasks.size()), first;
  std::vector<int> by_number;
  for (const std::vector<int>& of_unit : tasks) {
    first.push_back(static_cast<int>(by_number.size()));
    for (int task : of_unit) {
      number[static_cast<size_t>(task)] = static_cast<int>(by_number.size());
      by_number.push_back(task);
    }
  }
  Precedence precedence;
  precedence.triggers.resize(plan.events.size());
  for (int task : by_number) {
    const Task& one = plan.tasks[static_cast<size_t>(task)];
    precedence.waits.push_back(one.waits);
    if (one.signal >= 0)
      precedence.triggers[static_cast<size_t>(one.signal)].push_back(number[static_cast<size_t>(task)]);
  }
  const auto order = precedence.order();
  if (!order) return invalid("tasks wait for each other in a cycle");

  // Of each unit and operator: whether some of its tasks come after some of the operator's, and all after all.
  std::vector<std::vector<bool>> some(tasks.size(), std::vector<bool>(count, false));
  std::vector<std::vector<bool>> all(tasks.size(), std::vector<bool>(count, true));
  std::vector<SourceQuestion> questions;
  for (size_t op = 0; op < count; ++op)
    questions.push_back({first[op], first[op] + static_cast<int>(tasks[op].size()) - 1, order->size()});
  for_each_window(precedence, *order, questions, [&](const Ancestors& ancestors, const std::vector<size_t>& asked) {
    for (size_t n = 0; n < by_number.size(); ++n) {
      const auto u = static_cast<size_t>(unit[static_cast<size_t>(by_number[n])]);
      const uint64_t* row = ancestors.before_task(static_cast<int>(n));
      for (const size_t op : asked) {
        some[u][op] = some[u][op] || ancestors.has_any(row, questions[op].first, questions[op].last);
        all[u][op] = all[u][op] && ancestors.has_all(row, questions[op].first, questions[op].last);
      }
    }
    return true;
  });
  // An operator comes after those in whose order it stands, so that labels of those before it are known.
  std::vector<bool> just_in_time(tasks.size(), false);
  for (size_t u = 0; u < tasks.size(); ++u) {
    bool late = u < count && operators.operators[u].data_dependent;
    const size_t before = u < count ? u : count;
    for (size_t op = 0; op < before; ++op) late = late || (just_in_time[op] && some[u][op] && !all[u][op]);
    just_in_time[u] = late;
    for (int task : tasks[u]) {
      Task& one = result.tasks[static_cast<size_t>(task)];
      if (!late || one.waits.empty()) continue;
      one.mode = LaunchMode::JustInTime;
      result.schedulers = machine.schedulers;
    }
  }
  return result;
}

Result<Plan> mark_after_just_in_time(const Plan& plan) {
  Plan result = plan;
  const Precedence precedence = precedence_of(plan, /*queues=*/true);
  const auto order = precedence.order();
  if (!order) return invalid("the queues' order and the events make a cycle");
  const std::vector<bool> waits = waits_for_late(plan, precedence, *order);
  for (size_t t = 0; t < result.tasks.size(); ++t)
    result.tasks[t].after_just_in_time = waits[t] && result.tasks[t].mode == LaunchMode::AheadOfTime;
  return result;
}

}  // namespace strata::megakernel
