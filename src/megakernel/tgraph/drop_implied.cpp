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
  const int step = sources_at_once(precedence);
  for (int first = 0; first < numbers.count(); first += step) {
    const Ancestors ancestors(precedence, *order, first, std::min(step, numbers.count() - first));
    for (auto& [pair, holds] : implies) {
      const uint64_t* row = ancestors.before_event(pair.second);
      for (const auto& [from, to] : runs[static_cast<size_t>(pair.first)]) {
        if (!holds) break;
        holds = ancestors.has_all(row, from, to);
      }
    }
  }

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
