#include "superopt/codegen/all_schedules.h"

namespace strata {

std::vector<Schedules> all_schedules(const Graph& graph, const Target& target, const Passes& passes) {
  std::vector<Schedules> all;
  if (!passes.registers || !passes.schedules) return {Schedules()};
  for (size_t i = 0; i < graph.operations().size(); ++i) {
    const Operation& op = graph.operations()[i];
    if (!op.body) continue;
    const auto offered = block_schedules(op, operand_strides(graph, op), target);
    if (offered.size() <= all.size()) continue;
    all.clear();
    for (const BlockSchedule& schedule : offered) {
      if (schedule.bulk && !passes.bulk) continue;
      Schedules schedules(graph.operations().size());
      schedules[i] = schedule;
      all.push_back(schedules);
    }
  }
  if (all.empty()) all.emplace_back();
  return all;
}

std::string label(const Schedules& schedules) {
  for (const auto& schedule : schedules) {
    if (schedule) {
      return fmt::format("r{}g{}s{}c{}{}{}", schedule->row_warps, schedule->loop_warps, schedule->stages,
                         schedule->cluster, schedule->wide ? "w" : "",
                         schedule->bulk ? fmt::format("b{}{}", schedule->sharers, schedule->turns ? "t" : "") : "");
    }
  }
  return "own";
}

}  // namespace strata
