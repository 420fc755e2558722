#include "megakernel/tgraph/plan_precedence.h"

#include "megakernel/tgraph/access_size.h"

namespace strata::megakernel {

Precedence precedence_of(const Plan& plan, bool queues, const std::function<bool(const Event&)>& counts) {
  Precedence precedence;
  precedence.triggers.resize(plan.events.size());
  precedence.waits.resize(plan.tasks.size());
  const auto orders = [&](int event) { return !counts || counts(plan.events[static_cast<size_t>(event)]); };
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    const Task& task = plan.tasks[t];
    for (int event : task.waits) {
      if (orders(event)) precedence.waits[t].push_back(event);
    }
    if (task.signal >= 0) precedence.triggers[static_cast<size_t>(task.signal)].push_back(static_cast<int>(t));
  }
  if (!queues) return precedence;
  precedence.previous.assign(plan.tasks.size(), -1);
  for (const std::vector<int>& queue : plan.queues) {
    for (size_t i = 1; i < queue.size(); ++i) precedence.previous[static_cast<size_t>(queue[i])] = queue[i - 1];
  }
  return precedence;
}

std::vector<QueuePlace> queue_places(const Plan& plan) {
  std::vector<QueuePlace> places(plan.tasks.size());
  for (size_t w = 0; w < plan.queues.size(); ++w) {
    for (size_t i = 0; i < plan.queues[w].size(); ++i)
      places[static_cast<size_t>(plan.queues[w][i])] = {static_cast<int>(w), static_cast<int>(i)};
  }
  return places;
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
