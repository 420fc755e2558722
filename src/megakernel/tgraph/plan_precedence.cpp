#include "megakernel/tgraph/plan_precedence.h"

#include "megakernel/plan_relations.h"
#include "megakernel/tgraph/access_size.h"

namespace strata::megakernel {

Precedence precedence_of(const Plan& plan, bool queues, const std::function<bool(const Event&)>& counts) {
  PlanRelations relations(plan);
  Precedence precedence;
  precedence.triggers = std::move(relations.triggers);
  if (queues) precedence.previous = std::move(relations.previous);
  for (const Task& task : plan.tasks) {
    std::vector<int>& waits = precedence.waits.emplace_back();
    for (int event : task.waits) {
      if (!counts || counts(plan.events[static_cast<size_t>(event)])) waits.push_back(event);
    }
  }
  return precedence;
}

std::vector<bool> waits_for_late(const Plan& plan, const Precedence& precedence, const std::vector<int>& order) {
  std::vector<bool> waits(plan.tasks.size(), false), late(plan.tasks.size(), false);
  std::vector<bool> event_late(plan.events.size(), false);
  for (int number : order) {
    const auto t = static_cast<size_t>(number);
    const Task& task = plan.tasks[t];
    for (int event : task.waits) waits[t] = waits[t] || event_late[static_cast<size_t>(event)];
    const int previous = precedence.previous[t];
    late[t] = waits[t] || task.mode == LaunchMode::JustInTime || (previous >= 0 && late[static_cast<size_t>(previous)]);
    if (late[t] && task.signal >= 0) event_late[static_cast<size_t>(task.signal)] = true;
  }
  return waits;
}

std::vector<std::vector<int>> tasks_of_operators(const Plan& plan, const OperatorGraph& operators) {
  std::vector<std::vector<int>> tasks;
  for (const Operator& op : operators.operators)
    tasks.emplace_back(static_cast<size_t>(*indexing::element_count(op.grid)), -1);
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    const Task& task = plan.tasks[t];
    if (task.op < 0) continue;
    const auto op = static_cast<size_t>(task.op);
    const std::vector<int64_t>& grid = operators.operators[op].grid;
    const Coordinates block(task.coordinates.begin(),
                            task.coordinates.begin() + static_cast<std::ptrdiff_t>(grid.size()));
    tasks[op][static_cast<size_t>(number_of(block, grid))] = static_cast<int>(t);
  }
  return tasks;
}

int64_t activation_bytes(const OperatorGraph& operators, int from, int to) {
  int64_t bytes = 0;
  for (const Access& read : operators.operators[static_cast<size_t>(to)].reads) {
    const auto& writes = operators.operators[static_cast<size_t>(from)].writes;
    const bool written =
        std::any_of(writes.begin(), writes.end(), [&](const Access& write) { return write.tensor == read.tensor; });
    const StepTensor& tensor = operators.tensors[static_cast<size_t>(read.tensor)];
    if (written && tensor.kind == TensorClass::Activation)
      bytes = indexing::saturating_add(bytes, access_bytes(read, tensor));
  }
  return bytes;
}

}  // namespace strata::megakernel
