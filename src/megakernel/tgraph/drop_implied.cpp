#include <map>

#include "megakernel/tgraph/passes.h"
#include "megakernel/tgraph/precedence.h"

namespace strata::megakernel {

Result<TaskGraph> drop_implied(const TaskGraph& graph) {
  STRATA_CHECK(check_size(graph));
  const TaskNumbers numbers(graph);
  const Precedence precedence(graph);
  const auto order = precedence.order();
  if (!order) return invalid("tasks wait for each other in a cycle");

  // That event `first` is active no later than event `second`, for those that some task waits for together.
  std::map<std::pair<int, int>, bool> implies;
  const std::vector<int>* last = nullptr;
  for (const std::vector<int>& waits : precedence.waits) {
    if (last != nullptr && *last == waits) continue;
    last = &waits;
    for (int a : waits) {
      for (int b : waits) {
        if (a != b) implies.emplace(std::pair(a, b), true);
      }
    }
  }
  if (implies.empty()) return graph;
  std::vector<std::vector<std::pair<int, int>>> runs(graph.events.size());
  for (size_t e = 0; e < graph.events.size(); ++e) {
    numbers.for_each_run(graph.events[e].in, [&](int from, int to) { runs[e].emplace_back(from, to); });
  }
  std::vector<size_t> active_from(graph.events.size(), 0);  // by event: places of the order, of all its triggers
  std::vector<size_t> place(order->size());
  for (size_t at = 0; at < order->size(); ++at) place[static_cast<size_t>((*order)[at])] = at;
  for (size_t e = 0; e < graph.events.size(); ++e) {
    for (int task : precedence.triggers[e])
      active_from[e] = std::max(active_from[e], place[static_cast<size_t>(task)] + 1);
  }
  std::vector<std::map<std::pair<int, int>, bool>::iterator> pairs;
  std::vector<SourceQuestion> questions;
  for (auto at = implies.begin(); at != implies.end(); ++at) {
    const auto& sources = runs[static_cast<size_t>(at->first.first)];
    if (sources.empty()) continue;
    SourceQuestion question{sources[0].first, sources[0].second, active_from[static_cast<size_t>(at->first.second)]};
    for (const auto& [from, to] : sources) {
      question.first = std::min(question.first, from);
      question.last = std::max(question.last, to);
    }
    pairs.push_back(at);
    questions.push_back(question);
  }
  for_each_window(precedence, *order, questions, [&](const Ancestors& ancestors, const std::vector<size_t>& asked) {
    for (const size_t number : asked) {
      auto& [events, holds] = *pairs[number];
      const uint64_t* row = ancestors.before_event(events.second);
      for (const auto& [from, to] : runs[static_cast<size_t>(events.first)])
        holds = holds && ancestors.has_all(row, from, to);
    }
    return true;
  });

  // Implication is transitive, so that what follows from a wait that is dropped later follows from what that follows
  // from.
  std::vector<std::vector<int>> out(graph.events.size());
  for (size_t t = 0; t < precedence.waits.size(); ++t) {
    std::vector<int> kept = precedence.waits[t];
    for (size_t i = 0; i < kept.size();) {
      const bool implied = std::any_of(kept.begin(), kept.end(), [&](int other) {
        return other != kept[i] && implies.at({kept[i], other});
      });
      if (implied) {
        kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    for (int event : kept) out[static_cast<size_t>(event)].push_back(static_cast<int>(t));
  }
  TaskGraph result{graph.groups, {}};
  for (size_t e = 0; e < out.size(); ++e) {
    if (!out[e].empty()) result.events.push_back({graph.events[e].in, numbers.set_of(out[e])});
  }
  return result;
}

}  // namespace strata::megakernel
