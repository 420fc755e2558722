#include "megakernel/tgraph/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace strata::megakernel {
namespace {

/// "16 of qkv, 1 of combine".
std::string to_text(const TaskSet& set, const TaskGraph& graph) {
  std::vector<std::string> parts;
  for (const auto& [group, blocks] : set.groups)
    parts.push_back(fmt::format("{} of {}", blocks.count(), graph.groups[static_cast<size_t>(group)].name));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string plural(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string to_text(const OperatorGraph& graph) {
  std::string text = fmt::format("operators of {}\n", graph.name);
  const auto names = [&](const std::vector<Access>& accesses) {
    std::vector<std::string> parts;
    for (const Access& access : accesses) parts.push_back(graph.tensors[static_cast<size_t>(access.tensor)].name);
    return fmt::format("{}", fmt::join(parts, ", "));
  };
  for (const Operator& op : graph.operators) {
    text +=
        fmt::format("{}: {} [{}]{}, {} B constants, {:.2f} us, {} stages of {} B, {} B scratch: {} -> {}\n", op.name,
                    op.function, fmt::join(op.grid, ", "), op.data_dependent ? ", time depends on data" : "",
                    op.cost.constant_bytes, op.cost.seconds * 1e6, op.cost.stages, op.cost.stage_bytes,
                    op.cost.scratch_bytes, names(op.reads), names(op.writes));
  }
  return text;
}

std::string to_text(const TaskGraph& graph) {
  std::string text;
  for (const TaskGroup& group : graph.groups) {
    text += fmt::format("{}: {}{} [{}]\n", group.name, group.op < 0 ? "empty, " : "", plural(group.count(), "task"),
                        fmt::join(group.grid, ", "));
  }
  std::vector<std::pair<std::string, int64_t>> kinds;
  std::map<std::string, size_t> known;
  for (const TaskEvent& event : graph.events) {
    const std::string kind = to_text(event.in, graph) + " -> " + to_text(event.out, graph);
    const auto [found, added] = known.emplace(kind, kinds.size());
    if (added) kinds.emplace_back(kind, 0);
    ++kinds[found->second].second;
  }
  for (const auto& [kind, count] : kinds) text += fmt::format("{}: {}\n", plural(count, "event"), kind);
  return text;
}

std::string to_text(const Plan& plan) {
  std::string text =
      fmt::format("plan {}: {}, {}, {}, {}\n", plan.name, plural(static_cast<int64_t>(plan.tasks.size()), "task"),
                  plural(static_cast<int64_t>(plan.events.size()), "event"), plural(plan.workers, "worker"),
                  plural(plan.schedulers, "scheduler"));
  const auto same = [&](const Task& a, const Task& b) {
    return a.op == b.op && a.waits == b.waits && a.signal == b.signal && a.mode == b.mode &&
           a.after_just_in_time == b.after_just_in_time;
  };
  for (size_t t = 0; t < plan.tasks.size();) {
    size_t end = t + 1;
    while (end < plan.tasks.size() && same(plan.tasks[t], plan.tasks[end])) ++end;
    const Task& task = plan.tasks[t];
    const std::string numbers = end == t + 1 ? fmt::format("{}", t) : fmt::format("{}..{}", t, end - 1);
    text += fmt::format("task {}: {}", numbers, task.op < 0 ? "empty" : plan.operators[static_cast<size_t>(task.op)]);
    if (!task.waits.empty()) text += fmt::format(", waits for {}", fmt::join(task.waits, ", "));
    if (task.signal >= 0) text += fmt::format(", signals {}", task.signal);
    if (task.mode == LaunchMode::JustInTime) text += ", just in time";
    if (task.after_just_in_time) text += ", after just in time";
    text += "\n";
    t = end;
  }
  for (size_t e = 0; e < plan.events.size(); ++e) {
    const Event& event = plan.events[e];
    text += fmt::format("event {}: {}, tasks [{}, {}), {}\n", e, plural(event.triggers, "trigger"), event.first,
                        event.end, kHandOffs[static_cast<size_t>(event.hand_off)]);
  }
  for (size_t w = 0; w < plan.queues.size(); ++w)
    text += fmt::format("worker {}: {}\n", w, fmt::join(plan.queues[w], " "));
  return text;
}

}  // namespace strata::megakernel
