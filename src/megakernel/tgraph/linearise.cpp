#include "megakernel/tgraph/linearise.h"

#include <deque>

#include "megakernel/tgraph/plan_precedence.h"

namespace strata::megakernel {
namespace {

/// The number of an operator's function in a plan, added where it is new.
int function_number(Plan& plan, const OperatorGraph& operators, const Operator& op) {
  const TaskFunction function = function_of(operators, op);
  const auto found = std::find(plan.functions.begin(), plan.functions.end(), function);
  if (found != plan.functions.end()) return static_cast<int>(found - plan.functions.begin());
  plan.functions.push_back(function);
  return static_cast<int>(plan.functions.size()) - 1;
}

}  // namespace

TaskFunction function_of(const OperatorGraph& operators, const Operator& op) {
  // Loads of later steps read history by bulk copies.
  const bool stores = std::any_of(op.writes.begin(), op.writes.end(), [&](const Access& write) {
    return operators.tensors[static_cast<size_t>(write.tensor)].kind == TensorClass::History;
  });
  return {op.function, op.cost.stages, op.cost.stage_bytes, op.cost.scratch_bytes, stores};
}

Result<Plan> linearise(const TaskGraph& graph, const OperatorGraph& operators) {
  STRATA_CHECK(check_size(graph));
  const TaskNumbers numbers(graph);
  const Precedence precedence(graph);
  const auto describe = [&](size_t task) {
    const auto number = static_cast<int>(task);
    return fmt::format("task [{}] of '{}'", fmt::join(numbers.block_of(number), ", "),
                       graph.groups[static_cast<size_t>(numbers.group_of(number))].name);
  };
  const char* const kRemedy = "normalise the graph before";
  std::vector<int> signal(precedence.waits.size(), -1);
  for (size_t e = 0; e < precedence.triggers.size(); ++e) {
    for (int task : precedence.triggers[e]) {
      int& mine = signal[static_cast<size_t>(task)];
      if (mine >= 0)
        return with_remedy(invalid("{} triggers several events", describe(static_cast<size_t>(task))), kRemedy);
      mine = static_cast<int>(e);
    }
  }

  Plan plan;
  plan.name = operators.name;
  for (const Operator& op : operators.operators) plan.operators.push_back(op.name);
  std::vector<int> functions;
  for (const TaskGroup& group : graph.groups)
    functions.push_back(
        group.op < 0 ? -1 : function_number(plan, operators, operators.operators[static_cast<size_t>(group.op)]));
  const auto append = [&](size_t t) {
    const int number = static_cast<int>(t);
    const auto group = static_cast<size_t>(numbers.group_of(number));
    Task& task = plan.tasks.emplace_back();
    task.function = functions[group];
    task.op = graph.groups[group].op;
    if (task.op >= 0) {
      const Coordinates block = numbers.block_of(number);
      std::copy(block.begin(), block.end(), task.coordinates.begin());
    }
    task.waits = precedence.waits[t];
    task.signal = signal[t];
  };

  std::vector<std::vector<size_t>> waiting(precedence.triggers.size());
  std::vector<size_t> waits_left(precedence.waits.size()), triggers_left;
  std::deque<size_t> active;
  for (size_t e = 0; e < precedence.triggers.size(); ++e) {
    plan.events.push_back({static_cast<int64_t>(precedence.triggers[e].size())});
    triggers_left.push_back(precedence.triggers[e].size());
    if (triggers_left[e] == 0) active.push_back(e);
  }
  const auto enter = [&](size_t t) {
    append(t);
    if (signal[t] < 0) return;
    const auto event = static_cast<size_t>(signal[t]);
    if (--triggers_left[event] == 0) active.push_back(event);
  };
  for (size_t t = 0; t < precedence.waits.size(); ++t) {
    waits_left[t] = precedence.waits[t].size();
    if (waits_left[t] > kMaxWaits)
      return with_remedy(invalid("{} waits for {} events, more than {}", describe(t), waits_left[t], kMaxWaits),
                         kRemedy);
    for (int event : precedence.waits[t]) waiting[static_cast<size_t>(event)].push_back(t);
  }
  for (size_t t = 0; t < precedence.waits.size(); ++t) {
    if (waits_left[t] == 0) enter(t);
  }
  while (!active.empty()) {
    const size_t event = active.front();
    active.pop_front();
    plan.events[event].first = static_cast<int64_t>(plan.tasks.size());
    for (size_t t : waiting[event]) {
      if (--waits_left[t] == 0) enter(t);
    }
    plan.events[event].end = static_cast<int64_t>(plan.tasks.size());
  }
  if (plan.tasks.size() < precedence.waits.size()) return invalid("tasks wait for each other in a cycle");
  return plan;
}

}  // namespace strata::megakernel
