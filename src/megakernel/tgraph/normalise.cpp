#include <map>

#include "megakernel/plan.h"
#include "megakernel/tgraph/passes.h"
#include "megakernel/tgraph/precedence.h"

namespace strata::megakernel {
namespace {

/// For tasks by number, the events that each is in: in `in` (it triggers them) or in `out` (it waits for them).
std::vector<std::vector<int>> events_of(const TaskGraph& graph, TaskSet TaskEvent::*side) {
  const TaskNumbers numbers(graph);
  std::vector<std::vector<int>> events(static_cast<size_t>(numbers.count()));
  for (size_t e = 0; e < graph.events.size(); ++e) {
    numbers.for_each_run(graph.events[e].*side, [&](int from, int to) {
      for (int task = from; task <= to; ++task) events[static_cast<size_t>(task)].push_back(static_cast<int>(e));
    });
  }
  return events;
}

/// Puts one event and `k` empty tasks between tasks and the events that they all trigger (or wait for), where these are
/// more than `most`. For a fan-out (`side` is in) the tasks trigger the new event, and each empty task waits for it and
/// triggers one of the others; for a fan-in the reverse, and the last `most` − 1 of the events are waited for directly.
void reduce_fan(TaskGraph& graph, TaskSet TaskEvent::*side, int most, std::vector<size_t>& added_events) {
  TaskSet TaskEvent::*const other = side == &TaskEvent::in ? &TaskEvent::out : &TaskEvent::in;
  const TaskNumbers numbers(graph);
  std::map<std::vector<int>, std::vector<int>> classes;
  const auto events = events_of(graph, side);
  for (size_t t = 0; t < events.size(); ++t) {
    if (events[t].size() > static_cast<size_t>(most)) classes[events[t]].push_back(static_cast<int>(t));
  }
  std::vector<std::pair<std::vector<int>, TaskSet>> found;
  for (const auto& [set, tasks] : classes) found.emplace_back(set, numbers.set_of(tasks));
  for (const auto& [set, tasks] : found) {
    const int group = static_cast<int>(graph.groups.size());
    const auto count = static_cast<int64_t>(set.size()) - most + 1;
    const std::string& of = graph.groups[static_cast<size_t>(tasks.groups.begin()->first)].name;
    graph.groups.push_back({(side == &TaskEvent::in ? "fan-out of " : "fan-in of ") + of, -1, {count}});
    TaskEvent between;
    between.*side = tasks;
    (between.*other).add(group, GridSet::all({count}));
    for (int64_t k = 0; k < count; ++k) {
      TaskEvent& event = graph.events[static_cast<size_t>(set[static_cast<size_t>(k)])];
      event.*side = subtract(event.*side, tasks);
      (event.*side).add(group, GridSet::of(std::vector<int64_t>{k}, {count}));
    }
    added_events.push_back(graph.events.size());
    graph.events.push_back(std::move(between));
  }
}

}  // namespace

Result<Normalised> normalise(const TaskGraph& graph, int max_waits, const Machine& machine) {
  if (max_waits < 1 || max_waits > kMaxWaits)
    return invalid("a task may wait for 1 to {} events, not {}", kMaxWaits, max_waits);
  STRATA_CHECK(check_size(graph));
  Normalised result{graph, 0, 0};
  std::vector<size_t> added;
  reduce_fan(result.graph, &TaskEvent::in, 1, added);
  reduce_fan(result.graph, &TaskEvent::out, max_waits, added);
  STRATA_CHECK(check_size(result.graph));
  result.empty_tasks = result.graph.task_count() - graph.task_count();

  const Precedence precedence(result.graph);
  const auto order = precedence.order();
  if (!order) return invalid("tasks wait for each other in a cycle");
  std::vector<double> own(result.graph.events.size(), 0);
  for (size_t e : added) own[e] = machine.counter().seconds(static_cast<int64_t>(precedence.triggers[e].size()), 0);
  std::vector<double> by_task(precedence.waits.size(), 0), by_event(own.size(), -1);
  for (int task : *order) {
    for (int event : precedence.waits[static_cast<size_t>(task)]) {
      double& seconds = by_event[static_cast<size_t>(event)];
      if (seconds < 0) {
        seconds = 0;
        for (int before : precedence.triggers[static_cast<size_t>(event)])
          seconds = std::max(seconds, by_task[static_cast<size_t>(before)]);
        seconds += own[static_cast<size_t>(event)];
      }
      double& mine = by_task[static_cast<size_t>(task)];
      mine = std::max(mine, seconds);
      result.seconds = std::max(result.seconds, mine);
    }
  }
  return result;
}

}  // namespace strata::megakernel
