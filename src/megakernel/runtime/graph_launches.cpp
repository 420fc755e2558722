#include "megakernel/runtime/graph_launches.h"

#include <algorithm>
#include <set>

#include "megakernel/plan_relations.h"

namespace strata::megakernel {
namespace {

constexpr int64_t kOther = 2048;  // barriers and stages

int64_t up_to_unit(int64_t bytes) { return (bytes + kStageUnit - 1) / kStageUnit * kStageUnit; }

/// The last operator that each task comes after or belongs to, through empty tasks.
Result<void> check_order(const Plan& plan) {
  const PlanRelations relations(plan);
  std::vector<int> last(plan.tasks.size(), -1);
  // An event's tasks come after those that trigger it, and empty ones may stand anywhere, so until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t t = 0; t < plan.tasks.size(); ++t) {
      const Task& task = plan.tasks[t];
      int now = task.op;
      for (const int event : task.waits) {
        for (const int producer : relations.triggers[static_cast<size_t>(event)]) {
          const int before = last[static_cast<size_t>(producer)];
          if (task.op >= 0 && before >= task.op)
            return unsupported("operator '{}' waits for '{}', which is not before it in the plan",
                               plan.operators[static_cast<size_t>(task.op)],
                               plan.operators[static_cast<size_t>(before)]);
          now = std::max(now, before);
        }
      }
      changed = changed || now != last[t];
      last[t] = now;
    }
  }
  return {};
}

}  // namespace

Result<std::vector<GraphLaunch>> graph_launches(const Plan& plan, std::span<const OperatorRecord> operators,
                                                const WorkerShape& shape) {
  STRATA_CHECK(check_numbers(plan));
  if (operators.size() != plan.operators.size())
    return invalid("plan {} has {} operators; arguments of {} were given", plan.name, plan.operators.size(),
                   operators.size());
  STRATA_CHECK(check_order(plan));
  std::vector<std::vector<int>> tasks(plan.operators.size());
  for (size_t t = 0; t < plan.tasks.size(); ++t)
    if (plan.tasks[t].op >= 0) tasks[static_cast<size_t>(plan.tasks[t].op)].push_back(static_cast<int>(t));
  std::vector<GraphLaunch> launches;
  for (size_t op = 0; op < tasks.size(); ++op) {
    if (tasks[op].empty()) continue;
    const std::string& name = plan.operators[op];
    GraphLaunch launch{};
    std::copy_n(operators[op].arguments, kMostArguments, launch.arguments);
    const Task& first = plan.tasks[static_cast<size_t>(tasks[op].front())];
    if (first.function < 0) return unsupported("operator '{}' has tasks without a function", name);
    std::array<int64_t, 3> grid{1, 1, 1};
    std::set<std::array<int64_t, 3>> places;
    for (const int t : tasks[op]) {
      const Task& task = plan.tasks[static_cast<size_t>(t)];
      if (task.function != first.function) return unsupported("operator '{}' has tasks of several functions", name);
      places.insert(task.coordinates);
      for (size_t d = 0; d < grid.size(); ++d) grid[d] = std::max(grid[d], task.coordinates[d] + 1);
    }
    const auto count = static_cast<int64_t>(tasks[op].size());
    if (static_cast<int64_t>(places.size()) != count || grid[0] * grid[1] * grid[2] != count)
      return unsupported("the {} tasks of operator '{}' are no grid", count, name);
    std::copy(grid.begin(), grid.end(), launch.grid);
    launch.tasks = static_cast<int>(count);
    launch.first_task = tasks[op].front();
    launch.function = first.function;
    launch.blocks = std::min(launch.tasks, plan.workers);
    const TaskFunction& function = plan.functions[static_cast<size_t>(first.function)];
    if (function.stores_for_copies) launch.flags |= kStoresForCopies;
    const int64_t scratch = up_to_unit(function.scratch_bytes);
    const int64_t room =
        (shape.multiprocessor_bytes / kGraphBlocks - shape.reserved_bytes - kOther - scratch) / kStageUnit;
    const int64_t ring = function.stages == 0 ? kStageUnit : std::min<int64_t>(room * kStageUnit, shape.ring_bytes);
    if (ring < up_to_unit(function.stage_bytes))
      return unsupported(
          "operator '{}' has {} bytes of scratch memory, which leave no room for its stages of {} where "
          "{} blocks share a multiprocessor",
          name, function.scratch_bytes, function.stage_bytes, kGraphBlocks);
    launch.scratch_bytes = static_cast<unsigned>(scratch);
    launch.ring_bytes = static_cast<unsigned>(ring);
    launches.push_back(launch);
  }
  if (launches.empty() || launches.back().tasks != 1 ||
      launches.back().first_task != static_cast<int>(plan.tasks.size()) - 1)
    return unsupported("the step of plan '{}' does not end with an operator of one task", plan.name);
  launches.back().flags |= kEndsStep;
  return launches;
}

}  // namespace strata::megakernel
