// Kernel graphs with schedules: what they cost.
#include <algorithm>

#include "ir/views.h"
#include "superopt/codegen/fronts.h"
#include "superopt/codegen/generate.h"
#include "superopt/codegen/glue_operators.h"
#include "superopt/codegen/known_schedules.h"
#include "superopt/codegen/libraries.h"
#include "superopt/codegen/merging.h"
#include "superopt/codegen/rows.h"
#include "superopt/codegen/schedule_cost.h"
#include "superopt/codegen/tiles/tiles.h"

namespace strata {

Result<BlockCode> emit_in_registers(const Operation& op, const std::string& name, const OperandPlaces& strides,
                                    const BlockSchedule& schedule, const Target& target) {
  auto tiles = emit_tiles(op, name, strides, schedule, target);
  return tiles ? tiles : emit_rows(op, name, strides, schedule, target);
}

std::vector<BlockSchedule> block_schedules(const Operation& op, const OperandPlaces& strides, const Target& target) {
  auto schedules = tile_schedules(op, strides, target);
  return schedules.empty() ? row_schedules(op, strides, target) : schedules;
}

OperandPlaces operand_strides(const Graph& graph, const Operation& op) {
  OperandPlaces strides;
  for (TensorId id : op.operands) strides.push_back(place_of(memory_view(graph, id), {}, id));
  return strides;
}

OperandPlaces operand_strides(const std::vector<MemoryView>& lies, const Operation& op) {
  OperandPlaces strides;
  for (TensorId id : op.operands) strides.push_back(place_of(lies[static_cast<size_t>(id)], {}, id));
  return strides;
}

KnownSchedules::Entry& KnownSchedules::entry(const Operation& op, OperandPlaces strides) {
  const uint64_t hash = op.body->structural_hash();
  const std::scoped_lock lock(mutex_);
  const auto [first, last] = entries_.equal_range(hash);
  const auto found = std::find_if(first, last, [&](const auto& one) {
    return one.second->strides == strides && same_structure(*one.second->body, *op.body);
  });
  if (found != last) return *found->second;
  auto made = std::make_unique<Entry>();
  made->body = op.body;
  made->strides = std::move(strides);
  return *entries_.emplace(hash, std::move(made))->second;
}

const std::vector<BlockSchedule>& KnownSchedules::of(const Graph& graph, const Operation& op) {
  return of(op, operand_strides(graph, op));
}

const std::vector<BlockSchedule>& KnownSchedules::of(const Operation& op, OperandPlaces strides) {
  Entry& known = entry(op, std::move(strides));
  std::call_once(known.made, [&] { known.schedules = block_schedules(op, known.strides, target_); });
  return known.schedules;
}

namespace {

/// With the schedule, or the first of `offered` where there is none.
Result<ScheduledBlock> scheduled_block(const Operation& op, const OperandPlaces& strides,
                                       std::optional<BlockSchedule> schedule, KnownSchedules& known) {
  if (!schedule) {
    const std::vector<BlockSchedule>& offered = known.of(op, strides);
    if (offered.empty()) return unsupported("no emitter that works in registers takes the block");
    schedule = offered.front();
  }
  ScheduledBlock block;
  block.schedule = *schedule;
  STRATA_TRY(block.code, emit_in_registers(op, "candidate", strides, *schedule, known.target()));
  block.seconds = schedule_seconds(op, strides, block.code, *schedule, known.target());
  return block;
}

}  // namespace

Result<ScheduledBlock> describe_schedule(const Graph& graph, const Operation& op, std::optional<BlockSchedule> schedule,
                                         const Target& target) {
  KnownSchedules known(target);
  return scheduled_block(op, operand_strides(graph, op), schedule, known);
}

namespace {

CostEstimate library_cost(const Graph& graph, const LibraryCall& call, const Target& target) {
  CostEstimate cost;
  cost.kernels = static_cast<int>(call.steps.size());
  for (const LibraryStep& step : call.steps) {
    for (TensorId id : step.arguments) cost.device_bytes += graph.type(id).bytes();
  }
  cost.seconds = library_seconds(call, target);
  return cost;
}

struct MergedBehind {
  size_t next;
  double seconds;
};

/// The kernel that shares the launch of operator i, as generate_cuda does it.
std::optional<MergedBehind> merged_behind(const Graph& graph, size_t i, const ScheduledBlock& block,
                                          const Target& target, const Schedules& schedules,
                                          const LibraryPlan& libraries, const std::vector<bool>& views) {
  const bool given = i < schedules.size() && schedules[i];
  if (given && block.schedule.handover == Handover::Launch) return std::nullopt;
  const auto pair = MergedPair::find(graph, i, target, libraries, views);
  if (!pair || (!given && pair->next < schedules.size() && schedules[pair->next])) return std::nullopt;
  const Handover handover = given ? block.schedule.handover : pair->cheapest(graph, block.code, block.schedule, target);
  if (handover == Handover::Launch) return std::nullopt;
  return MergedBehind{pair->next, pair->seconds(graph, block.code, block.schedule, handover, target)};
}

CostEstimate cost_of(const Graph& graph, const Schedules& schedules, KnownSchedules& known) {
  const Target& target = known.target();
  CostEstimate total;
  const LibraryPlan libraries = plan_libraries(graph, schedules);
  const std::vector<bool> views = view_operations(graph, libraries.strided), views_of_all = view_operations(graph);
  const std::vector<MemoryView> lies = memory_views(graph);
  std::optional<size_t> merged;  // operator that is part of the launch before
  for (size_t i = 0; i < graph.operations().size(); ++i) {
    const Operation& op = graph.operations()[i];
    if (views[i]) continue;
    if (libraries.covered[i]) {
      if (const LibraryCall* call = libraries.at(i); call != nullptr) total += library_cost(graph, *call, target);
      continue;
    }
    CostEstimate cost = estimate_operation(graph, op, target, views_of_all);
    if (merged == i) {  // the launch before has its time
      cost.seconds = 0;
      cost.kernels = 0;
    } else if (op.body) {
      const auto block =
          scheduled_block(op, operand_strides(lies, op), i < schedules.size() ? schedules[i] : std::nullopt, known);
      if (block) {
        cost.seconds = block->seconds;
        if (const auto behind = merged_behind(graph, i, *block, target, schedules, libraries, views)) {
          cost.seconds += behind->seconds;
          merged = behind->next;
        }
      } else if (stays_in_registers(*op.body)) {  // it needs too many
        cost.seconds = target.rates.launch + through_shared_memory(cost.seconds - target.rates.launch, target);
      }
    }
    total += cost;
  }
  return total;
}

}  // namespace

CostEstimate scheduled_cost(const Graph& graph, const Target& target, const Schedules& schedules) {
  KnownSchedules known(target);
  return cost_of(graph, schedules, known);
}

CostEstimate scheduled_cost(const Graph& graph, KnownSchedules& known) { return cost_of(graph, {}, known); }

namespace {

/// The kernels that emitters would write for a graph with these schedules, without their text.
std::vector<EmittedGroup> emitted_groups(const Graph& graph, const Target& target, const Schedules& schedules,
                                         const Passes& passes) {
  if (!passes.emission || !passes.emitter) return {};
  const LibraryPlan libraries = plan_libraries(graph, schedules);
  const std::vector<bool> views = view_operations(graph, libraries.strided);
  const std::vector<bool> free = free_operations(graph, libraries, views, passes);
  return plan_emission(graph, free, views, libraries.strided, *passes.emitter, target, KernelText::Left).groups;
}

/// With these kernels in place of those of their operators.
CostEstimate cost_with_emitted(CostEstimate cost, const Graph& graph, const Target& target,
                               const std::vector<EmittedGroup>& groups) {
  const std::vector<bool> views = view_operations(graph);
  for (const EmittedGroup& group : groups) {
    for (const size_t i : group.operations) {
      const CostEstimate alone = estimate_operation(graph, graph.operations()[i], target, views);
      cost.kernels -= alone.kernels;
      cost.device_bytes -= alone.device_bytes;
      cost.seconds -= alone.seconds;
    }
    for (const EmittedKernel& kernel : group.kernels) {
      ++cost.kernels;
      cost.seconds += kernel.seconds;
      cost.device_bytes += static_cast<int64_t>(kernel.device_bytes);
    }
  }
  return cost;
}

}  // namespace

CostEstimate emitted_cost(const Graph& graph, const Target& target, const Schedules& schedules, const Passes& passes) {
  const auto groups = emitted_groups(graph, target, schedules, passes);
  return cost_with_emitted(scheduled_cost(graph, target, schedules), graph, target, groups);
}

CostEstimate generated_cost(CostEstimate cost, const Graph& graph, const Target& target,
                            const GeneratedProgram& program) {
  cost = cost_with_emitted(cost, graph, target, program.emitted);
  cost.kernels -= program.saved.kernels;
  cost.seconds -= program.saved.seconds;
  return cost;
}

}  // namespace strata
