#include "megakernel/tgraph/precedence.h"

#include <algorithm>

namespace strata::megakernel {

TaskNumbers::TaskNumbers(const TaskGraph& graph) : graph_(graph), bases_{0} {
  for (const TaskGroup& group : graph.groups) bases_.push_back(bases_.back() + static_cast<int>(group.count()));
}

int TaskNumbers::group_of(int task) const {
  return static_cast<int>(std::upper_bound(bases_.begin(), bases_.end(), task) - bases_.begin()) - 1;
}

Coordinates TaskNumbers::block_of(int task) const {
  const int group = group_of(task);
  return megakernel::block_of(task - base(group), graph_.groups[static_cast<size_t>(group)].grid);
}

void TaskNumbers::for_each_run(const TaskSet& set, const std::function<void(int, int)>& visit) const {
  for (const auto& [group, blocks] : set.groups) {
    const int first = base(group);
    blocks.for_each_run(graph_.groups[static_cast<size_t>(group)].grid, [&](int64_t from, int64_t to) {
      visit(first + static_cast<int>(from), first + static_cast<int>(to));
    });
  }
}

std::vector<int> TaskNumbers::tasks_of(const TaskSet& set) const {
  std::vector<int> tasks;
  for_each_run(set, [&](int from, int to) {
    for (int task = from; task <= to; ++task) tasks.push_back(task);
  });
  return tasks;
}

TaskSet TaskNumbers::set_of(const std::vector<int>& tasks) const {
  TaskSet set;
  for (size_t i = 0; i < tasks.size();) {
    const int group = group_of(tasks[i]);
    std::vector<int64_t> numbers;
    for (; i < tasks.size() && tasks[i] < base(group + 1); ++i) numbers.push_back(tasks[i] - base(group));
    set.add(group, GridSet::of(numbers, graph_.groups[static_cast<size_t>(group)].grid));
  }
  return set;
}

Result<void> check_size(const TaskGraph& graph) {
  if (graph.task_count() <= kMostTasks) return {};
  return with_remedy(unsupported("the graph has {} tasks; at most {} are planned", graph.task_count(), kMostTasks),
                     "give the operators fewer and larger tasks");
}

Precedence::Precedence(const TaskGraph& graph) {
  const TaskNumbers numbers(graph);
  waits.resize(static_cast<size_t>(numbers.count()));
  for (size_t e = 0; e < graph.events.size(); ++e) {
    triggers.push_back(numbers.tasks_of(graph.events[e].in));
    numbers.for_each_run(graph.events[e].out, [&](int from, int to) {
      for (int task = from; task <= to; ++task) waits[static_cast<size_t>(task)].push_back(static_cast<int>(e));
    });
  }
}

std::optional<std::vector<int>> Precedence::order() const {
  const size_t tasks = waits.size();
  std::vector<std::vector<int>> waiting(triggers.size()), triggered(tasks), next(tasks);
  std::vector<size_t> task_left(tasks), event_left(triggers.size());
  for (size_t t = 0; t < tasks; ++t) {
    task_left[t] = waits[t].size();
    for (int event : waits[t]) waiting[static_cast<size_t>(event)].push_back(static_cast<int>(t));
    if (previous.empty() || previous[t] < 0) continue;
    ++task_left[t];
    next[static_cast<size_t>(previous[t])].push_back(static_cast<int>(t));
  }
  std::vector<int> order;
  order.reserve(tasks);
  const auto arrive = [&](int task) {
    if (--task_left[static_cast<size_t>(task)] == 0) order.push_back(task);
  };
  for (size_t e = 0; e < triggers.size(); ++e) {
    event_left[e] = triggers[e].size();
    for (int task : triggers[e]) triggered[static_cast<size_t>(task)].push_back(static_cast<int>(e));
  }
  for (size_t t = 0; t < tasks; ++t) {
    if (task_left[t] == 0) order.push_back(static_cast<int>(t));
  }
  for (size_t e = 0; e < triggers.size(); ++e) {
    if (event_left[e] == 0) std::for_each(waiting[e].begin(), waiting[e].end(), arrive);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const auto task = static_cast<size_t>(order[i]);
    for (int event : triggered[task]) {
      if (--event_left[static_cast<size_t>(event)] > 0) continue;
      const auto& out = waiting[static_cast<size_t>(event)];
      std::for_each(out.begin(), out.end(), arrive);
    }
    std::for_each(next[task].begin(), next[task].end(), arrive);
  }
  if (order.size() < tasks) return std::nullopt;
  return order;
}

Ancestors::Ancestors(const Precedence& precedence, const std::vector<int>& order, int first, int count)
    : first_(first), count_(count), words_((static_cast<size_t>(count) + 63) / 64) {
  tasks_.assign(precedence.waits.size() * words_, 0);
  events_.assign(precedence.triggers.size() * words_, 0);
  std::vector<bool> known(precedence.triggers.size(), false);
  const auto add = [&](uint64_t* to, const uint64_t* from) {
    for (size_t w = 0; w < words_; ++w) to[w] |= from[w];
  };
  const auto add_task = [&](uint64_t* to, int task) {
    add(to, before_task(task));
    const int bit = task - first_;
    if (bit >= 0 && bit < count_) to[bit / 64] |= uint64_t{1} << (bit % 64);
  };
  const auto event_row = [&](int event) {
    const auto e = static_cast<size_t>(event);
    if (!known[e]) {
      for (int task : precedence.triggers[e]) add_task(&events_[e * words_], task);
      known[e] = true;
    }
    return before_event(event);
  };
  for (int task : order) {
    const auto t = static_cast<size_t>(task);
    uint64_t* row = &tasks_[t * words_];
    for (int event : precedence.waits[t]) add(row, event_row(event));
    if (!precedence.previous.empty() && precedence.previous[t] >= 0) add_task(row, precedence.previous[t]);
  }
  for (size_t e = 0; e < known.size(); ++e) event_row(static_cast<int>(e));
}

bool Ancestors::for_words(int from, int to, const std::function<bool(size_t, uint64_t)>& visit) const {
  const int lo = std::max(from - first_, 0);
  const int hi = std::min(to - first_, count_ - 1);
  for (int at = lo; at <= hi;) {
    const int word = at / 64;
    const int last = std::min(hi, word * 64 + 63);
    const int bits = last - at + 1;
    const uint64_t mask = (bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1) << (at % 64);
    if (!visit(static_cast<size_t>(word), mask)) return false;
    at = last + 1;
  }
  return true;
}

bool Ancestors::has_all(const uint64_t* row, int from, int to) const {
  return for_words(from, to, [&](size_t word, uint64_t mask) { return (row[word] & mask) == mask; });
}

bool Ancestors::has_any(const uint64_t* row, int from, int to) const {
  return !for_words(from, to, [&](size_t word, uint64_t mask) { return (row[word] & mask) == 0; });
}

int sources_at_once(const Precedence& precedence) {
  constexpr int64_t kBits = int64_t{1} << 30;  // 128 MiB
  const auto rows = static_cast<int64_t>(precedence.waits.size() + precedence.triggers.size()) + 1;
  const int64_t count = std::max<int64_t>(kBits / rows / 64, 1) * 64;
  return static_cast<int>(std::min<int64_t>(count, kMostTasks));
}

}  // namespace strata::megakernel
