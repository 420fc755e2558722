#include "megakernel/tgraph/plan_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "megakernel/tgraph/print.h"

namespace strata::megakernel {
namespace {

constexpr int64_t kMostLayers = int64_t{1} << 20;  // as show's --layer; a file names any

/// "NAME.3" is of layer 3, and NAME its base.
struct LayerName {
  std::string base;
  std::optional<int64_t> layer;
};

LayerName layer_name(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {name, {}};
  int64_t layer = 0;
  const char* const end = name.data() + name.size();
  const auto [read, error] = std::from_chars(name.data() + dot + 1, end, layer);
  if (read != end || error != std::errc() || layer < 0 || layer >= kMostLayers) return {name, {}};
  return {name.substr(0, dot), layer};
}

/// "8 events (counter 1, tagged 7)"; where all have one, "8 events (tagged)".
std::string events_text(const Plan& plan, const std::set<int>& events) {
  std::array<size_t, kHandOffs.size()> counts{};
  for (const int event : events) ++counts[static_cast<size_t>(plan.events[static_cast<size_t>(event)].hand_off)];
  std::vector<std::string> parts;
  for (size_t n = 0; n < counts.size(); ++n) {
    if (counts[n] == events.size() && !events.empty()) parts.emplace_back(kHandOffs[n]);
    if (counts[n] > 0 && counts[n] < events.size()) parts.push_back(fmt::format("{} {}", kHandOffs[n], counts[n]));
  }
  if (events.empty()) return "nothing";
  return fmt::format("{} ({})", plural(events.size(), "event"), fmt::join(parts, ", "));
}

std::string operators_text(const Plan& plan) {
  struct Use {
    size_t tasks = 0, just_in_time = 0;
    std::set<int> waits, signals;
  };
  std::vector<Use> uses(plan.operators.size() + 1);  // the last one: empty tasks
  for (const Task& task : plan.tasks) {
    Use& use = task.op < 0 ? uses.back() : uses[static_cast<size_t>(task.op)];
    ++use.tasks;
    use.just_in_time += task.mode == LaunchMode::JustInTime ? 1 : 0;
    use.waits.insert(task.waits.begin(), task.waits.end());
    if (task.signal >= 0) use.signals.insert(task.signal);
  }
  struct Line {
    std::string name, base, numbers;
    size_t operators = 1;
  };
  std::vector<Line> lines;
  for (size_t n = 0; n < uses.size(); ++n) {
    const Use& use = uses[n];
    if (use.tasks == 0) continue;
    const bool is_empty = n == plan.operators.size();
    const std::string name = is_empty ? "empty tasks" : plan.operators[n];
    const std::string base = is_empty ? name : layer_name(name).base;
    std::string numbers = fmt::format("{}{}; wait for {}, trigger {}", plural(use.tasks, "task"),
                                      use.just_in_time == 0 ? "" : fmt::format(", {} just in time", use.just_in_time),
                                      events_text(plan, use.waits), events_text(plan, use.signals));
    const auto same = std::find_if(lines.begin(), lines.end(),
                                   [&](const Line& line) { return line.base == base && line.numbers == numbers; });
    if (same == lines.end()) {
      lines.push_back({name, base, std::move(numbers)});
    } else {
      ++same->operators;
    }
  }
  std::string text;
  for (const Line& line : lines) {
    const std::string name = line.operators == 1 ? line.name : fmt::format("{} × {}", line.base, line.operators);
    text += fmt::format("  {}: {}\n", name, line.numbers);
  }
  return text;
}

}  // namespace

std::string to_text(const PlanFile& file) {
  std::string text =
      fmt::format("plans of {}, format {}: {} batch sizes\n", file.name, PlanFile::kVersion, file.by_batch.size());
  for (const auto& [batch, plan] : file.by_batch) {
    std::set<int> all;
    for (size_t e = 0; e < plan.events.size(); ++e) all.insert(static_cast<int>(e));
    text += fmt::format("batch {}: {} of {}, {}; {}, {}\n", batch, plural(plan.tasks.size(), "task"),
                        plural(plan.operators.size(), "operator"), events_text(plan, all),
                        plural(plan.workers, "worker"), plural(plan.schedulers, "scheduler"));
    text += operators_text(plan);
  }
  return text;
}

int64_t layer_count(const Plan& plan) {
  int64_t count = 0;
  for (const std::string& name : plan.operators) count = std::max(count, layer_name(name).layer.value_or(-1) + 1);
  return count;
}

Result<TaskGraph> layer_of(const Plan& plan, int64_t layer) {
  if (const int64_t count = layer_count(plan); layer < 0 || layer >= count)
    return with_remedy(invalid("the plan has {} layers, and {} is none of them", count, layer),
                       count > 0 ? "name one with --layer, from 0 on" : "read it as text: leave --format out");
  const auto is_inside = [&](const Task& task) {
    return task.op >= 0 && layer_name(plan.operators[static_cast<size_t>(task.op)]).layer == layer;
  };
  std::set<int> chosen;
  for (const Task& task : plan.tasks) {
    if (!is_inside(task)) continue;
    chosen.insert(task.waits.begin(), task.waits.end());
    if (task.signal >= 0) chosen.insert(task.signal);
  }
  TaskGraph graph;
  std::map<int, int> group_of;  // operators, −1: empty tasks
  std::map<int, std::pair<std::vector<std::pair<int, int64_t>>, std::vector<std::pair<int, int64_t>>>> sides;
  for (const Task& task : plan.tasks) {
    std::vector<int> waits;
    for (const int event : task.waits)
      if (chosen.contains(event)) waits.push_back(event);
    const bool signals = chosen.contains(task.signal);
    if (waits.empty() && !signals && !is_inside(task)) continue;
    const auto [found, added] = group_of.emplace(task.op, static_cast<int>(graph.groups.size()));
    if (added)
      graph.groups.push_back(
          {task.op < 0 ? "empty" : plan.operators[static_cast<size_t>(task.op)], task.op, {int64_t{0}}});
    const int64_t block = graph.groups[static_cast<size_t>(found->second)].grid[0]++;
    for (const int event : waits) sides[event].second.emplace_back(found->second, block);
    if (signals) sides[task.signal].first.emplace_back(found->second, block);
  }
  const auto set_of = [&](const std::vector<std::pair<int, int64_t>>& tasks) {
    std::map<int, std::vector<int64_t>> blocks;
    for (const auto& [group, block] : tasks) blocks[group].push_back(block);
    TaskSet set;
    for (const auto& [group, numbers] : blocks)
      set.add(group, GridSet::of(numbers, graph.groups[static_cast<size_t>(group)].grid));
    return set;
  };
  for (const auto& [event, tasks] : sides) graph.events.push_back({set_of(tasks.first), set_of(tasks.second)});
  return graph;
}

}  // namespace strata::megakernel
