#include "megakernel/runtime/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace strata::megakernel {

int64_t loaded_bytes(const Plan& plan, int function) {
  if (function < 0) return 0;
  const TaskFunction& of = plan.functions[static_cast<size_t>(function)];
  return of.stages * of.stage_bytes;
}

std::string chrome_trace(const Plan& plan, std::span<const TracedTask> tasks) {
  using Json = nlohmann::ordered_json;
  static constexpr const char* kRoles[] = {"control", "load", "compute"};
  Json events = Json::array();
  for (int worker = 0; worker < plan.workers; ++worker) {
    events.push_back({{"name", "process_name"},
                      {"ph", "M"},
                      {"pid", worker},
                      {"args", {{"name", fmt::format("worker {}", worker)}}}});
    for (int role = static_cast<int>(Role::Load); role < kWorkerRoles; ++role)
      events.push_back(
          {{"name", "thread_name"}, {"ph", "M"}, {"pid", worker}, {"tid", role}, {"args", {{"name", kRoles[role]}}}});
  }
  unsigned long long first = ~0ull;
  for (const TracedTask& task : tasks) first = std::min(first, task.record.begin);
  for (const TracedTask& task : tasks) {
    const Task& of = plan.tasks[task.record.task];
    Json about{{"task", task.record.task}, {"epoch", task.record.epoch}};
    if (task.multiprocessor >= 0) about["multiprocessor"] = task.multiprocessor;
    const int64_t bytes = task.role == Role::Load ? loaded_bytes(plan, of.function) : 0;
    if (bytes > 0) about["bytes"] = bytes;
    events.push_back({{"name", of.op < 0 ? "empty" : plan.operators[of.op]},
                      {"cat", kRoles[static_cast<int>(task.role)]},
                      {"ph", "X"},
                      {"pid", task.worker},
                      {"tid", static_cast<int>(task.role)},
                      {"ts", static_cast<double>(task.record.begin - first) / 1000},
                      {"dur", static_cast<double>(task.record.end - task.record.begin) / 1000},
                      {"args", std::move(about)}});
  }
  return Json{{"displayTimeUnit", "ns"}, {"traceEvents", events}}.dump();
}

}  // namespace strata::megakernel
