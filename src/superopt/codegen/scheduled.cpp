// Kernel graphs with schedules: what they cost.
#include "superopt/codegen/generate.h"
#include "superopt/codegen/schedule_cost.h"

namespace strata {

Result<ScheduledBlock> describe_schedule(const Graph& graph, const Operation& op, std::optional<BlockSchedule> schedule,
                                         const Target& target) {
  const auto strides = operand_strides(graph, op);
  if (!schedule) {
    const auto offered = block_schedules(op, strides, target);
    if (offered.empty()) return unsupported("no emitter that works in registers takes the block");
    schedule = offered.front();
  }
  ScheduledBlock block;
  block.schedule = *schedule;
  STRATA_TRY(block.code, emit_in_registers(op, "candidate", strides, *schedule, target));
  block.seconds = schedule_seconds(op, strides, block.code, *schedule, target);
  return block;
}

CostEstimate scheduled_cost(const Graph& graph, const Target& target, const Schedules& schedules) {
  CostEstimate total;
  for (size_t i = 0; i < graph.operations().size(); ++i) {
    const Operation& op = graph.operations()[i];
    CostEstimate cost = estimate_operation(graph, op, target);
    if (op.body) {
      const auto block = describe_schedule(graph, op, i < schedules.size() ? schedules[i] : std::nullopt, target);
      if (block) {
        cost.seconds = block->seconds;
      } else if (stays_in_registers(*op.body)) {  // it needs too many
        cost.seconds = target.launch_seconds + through_shared_memory(cost.seconds - target.launch_seconds);
      }
    }
    total += cost;
  }
  return total;
}

}  // namespace strata
