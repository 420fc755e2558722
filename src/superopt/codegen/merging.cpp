#include "superopt/codegen/merging.h"

#include <algorithm>

#include "ir/views.h"
#include "superopt/codegen/emit.h"
#include "superopt/codegen/rows.h"
#include "superopt/codegen/schedule_cost.h"

namespace strata {
namespace {

constexpr int64_t kWarp = 32;

/// Whether a GPU of the target runs all blocks at the same time, even with one on each multiprocessor.
bool all_run(const Operation& op, const BlockSchedule& schedule, const Target& target) {
  const int64_t multiprocessors =
      schedule.cluster_blocks() >= target.large_cluster ? target.cluster_multiprocessors : target.multiprocessors;
  return blocks_of(op, schedule) <= multiprocessors;
}

}  // namespace

int64_t handover_place(const BlockCode& code, const BlockCode& behind) {
  const int64_t bytes = std::max(code.shared_bytes, behind.shared_bytes);
  return ceil_div(bytes, kHandoverBytes) * kHandoverBytes;
}

std::optional<MergedPair> MergedPair::find(const Graph& graph, size_t first, const Target& target,
                                           const LibraryPlan& libraries, const std::vector<bool>& views) {
  size_t next = first + 1;
  while (next < views.size() && views[next]) ++next;
  if (next >= views.size() || libraries.covered[next]) return std::nullopt;
  const Operation& op = graph.operations()[next];
  auto groups = handover_groups(graph, graph.operations()[first], op);
  if (!groups) return std::nullopt;
  MergedPair pair{first, next, std::move(*groups), row_schedules(op, operand_strides(graph, op), target)};
  if (pair.schedules.empty()) return std::nullopt;
  return pair;
}

std::optional<BlockSchedule> MergedPair::second_schedule(const BlockCode& code) const {
  const auto fits = std::find_if(schedules.begin(), schedules.end(), [&](const BlockSchedule& schedule) {
    return schedule.row_warps * kWarp <= code.team();
  });
  return fits == schedules.end() ? std::nullopt : std::optional(*fits);
}

std::vector<Handover> MergedPair::offered(const Graph& graph, const BlockCode& code, const BlockSchedule& schedule,
                                          const Target& target) const {
  if (!second_schedule(code)) return {};
  if (all_run(graph.operations()[first], schedule, target)) return {Handover::Wait, Handover::Last};
  return {Handover::Last};
}

Handover MergedPair::cheapest(const Graph& graph, const BlockCode& code, const BlockSchedule& schedule,
                              const Target& target) const {
  Handover best = Handover::Launch;
  double least = seconds(graph, code, schedule, best, target);
  for (Handover handover : offered(graph, code, schedule, target)) {
    const double time = seconds(graph, code, schedule, handover, target);
    if (time < least) best = handover;
    least = std::min(least, time);
  }
  return best;
}

double MergedPair::seconds(const Graph& graph, const BlockCode& code, const BlockSchedule& schedule, Handover handover,
                           const Target& target) const {
  const Operation& op = graph.operations()[next];
  const auto strides = operand_strides(graph, op);
  const BlockSchedule& own = schedules.front();
  const auto chosen = handover == Handover::Launch ? std::optional(own) : second_schedule(code);
  const auto behind = emit_rows(op, "candidate", strides, chosen.value_or(own), target);
  if (!behind) return 0;  // row_schedules offers none that fails
  if (handover == Handover::Launch) return schedule_seconds(op, strides, *behind, own, target);
  const int64_t blocks = handover == Handover::Wait ? arrivals(schedule) : 1;
  return handover_seconds(*behind, ceil_div(groups.consumers, blocks), schedule.cluster_blocks() > 1, target);
}

Result<BlockCode> MergedPair::second_code(const Graph& graph, const std::string& name, const BlockCode& code,
                                          const BlockSchedule& schedule, const Target& target) const {
  const auto ways = offered(graph, code, schedule, target);
  const Operation& op = graph.operations()[next];
  if (ways.empty()) return unsupported("{} threads are too few for the next kernel", code.team());
  if (std::find(ways.begin(), ways.end(), schedule.handover) == ways.end()) {
    return unsupported("{} blocks do not run at the same time on {}", blocks_of(graph.operations()[first], schedule),
                       target.name);
  }
  return emit_rows(op, name, operand_strides(graph, op), *second_schedule(code), target);
}

std::string MergedPair::text(const BlockCode& code, const BlockCode& behind, const BlockSchedule& schedule,
                             const std::string& counters,
                             const std::function<std::string(const std::string&)>& call) const {
  const int64_t threads = code.team();
  const int64_t count = arrivals(schedule);
  const std::string sizes = fmt::format("{}, {}", team_text(code.team(), 1), count);
  std::string rank = groups.rank();
  if (schedule.cluster > 1) {
    rank = fmt::format("{} * {} + strata_device::cluster_rank() % {}", rank, schedule.cluster, schedule.cluster);
  }
  std::string text = fmt::format("  // {} blocks here make what {} of the next kernel read{}.\n", count,
                                 groups.consumers, groups.consumers == 1 ? "s" : "");
  text += fmt::format("  unsigned* const counter = {} + ({}) * {};\n", counters, groups.group(), kCounterStride);
  int64_t step = 1;
  std::string begin = "0";
  if (schedule.handover == Handover::Wait) {
    text += fmt::format("  const int rank = static_cast<int>({});\n", rank);
    if (groups.consumers < count) {
      text += fmt::format(
          "  if (rank >= {}) {{\n    strata_device::arrive_in_group<{}>(counter, false);\n    return;\n  }}\n",
          groups.consumers, sizes);
    }
    text += fmt::format("  strata_device::meet_group<{}>(counter, rank == 0);\n", sizes);
    step = count;
    begin = "rank";
  } else {
    text += fmt::format("  if (!strata_device::arrives_last<{}>(counter, shared + {})) return;\n", sizes,
                        handover_place(code, behind));
  }
  if (behind.threads < threads) text += fmt::format("  if (strata_device::thread() >= {}) return;\n", behind.threads);
  if (groups.consumers <= step) return text + "  " + call(begin);
  text += fmt::format("  for (int n = {}; n < {}; n += {}) {{\n", begin, groups.consumers, step);
  text +=
      fmt::format("    if (n >= {}) {}::meet();  // shared memory is used again\n", step, team_text(behind.threads, 1));
  return text + "    " + call("n") + "  }\n";
}

}  // namespace strata
