#include <set>
#include <unordered_map>

#include "megakernel/tgraph/passes.h"

namespace strata::megakernel {
namespace {

/// Events with equal `key` become one, with all that any of them has in `merged`. Whether there were such.
bool fuse(std::vector<TaskEvent>& events, TaskSet TaskEvent::*key, TaskSet TaskEvent::*merged) {
  std::unordered_map<TaskSet, std::vector<size_t>, TaskSetHash> alike;
  for (size_t e = 0; e < events.size(); ++e) alike[events[e].*key].push_back(e);
  if (alike.size() == events.size()) return false;
  std::vector<TaskEvent> fused;
  for (size_t e = 0; e < events.size(); ++e) {
    const std::vector<size_t>& others = alike.at(events[e].*key);
    if (others.front() != e) continue;
    std::map<int, std::vector<GridSet>> all;
    for (size_t other : others) {
      for (const auto& [group, blocks] : (events[other].*merged).groups) all[group].push_back(blocks);
    }
    TaskEvent& one = fused.emplace_back();
    one.*key = events[e].*key;
    for (auto& [group, sets] : all) (one.*merged).add(group, unite(std::move(sets)));
  }
  events = std::move(fused);
  return true;
}

}  // namespace

TaskGraph one_event_a_pair(const TaskGraph& graph) {
  TaskGraph result{graph.groups, {}};
  const auto whole = [&](int group) {
    TaskSet set;
    set.add(group, GridSet::all(graph.groups[static_cast<size_t>(group)].grid));
    return set;
  };
  std::set<std::pair<int, int>> pairs;
  for (const TaskEvent& event : graph.events) {
    for (const auto& [from, triggering] : event.in.groups)
      for (const auto& [to, waiting] : event.out.groups) pairs.emplace(from, to);
  }
  for (const auto& [from, to] : pairs) result.events.push_back({whole(from), whole(to)});
  return result;
}

TaskGraph fuse_events(const TaskGraph& graph) {
  TaskGraph result = graph;
  bool changed = true;
  while (changed) {
    changed = fuse(result.events, &TaskEvent::out, &TaskEvent::in);
    changed = fuse(result.events, &TaskEvent::in, &TaskEvent::out) || changed;
  }
  return result;
}

}  // namespace strata::megakernel
