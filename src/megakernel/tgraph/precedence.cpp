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

Ancestors::Ancestors(const Precedence& precedence, const std::vector<int>& order, int first, int count, size_t until)
    : first_(first),
      count_(count),
      words_((static_cast<size_t>(count) + 63) / 64),
      none_(words_, 0),
      task_rows_(precedence.waits.size(), kNone),
      event_rows_(precedence.triggers.size(), kNone) {
  const auto is_source = [&](int task) { return task >= first && task - first < count; };
  // Before the first source no task has any before it.
  const auto begin = static_cast<size_t>(std::find_if(order.begin(), order.end(), is_source) - order.begin());
  std::vector<bool> is_ordered(precedence.waits.size(), false), known(precedence.triggers.size(), false);
  for (size_t at = 0; at < std::min(begin, until); ++at) is_ordered[static_cast<size_t>(order[at])] = true;
  const auto add = [&](int to, int from) {
    if (from == kNone) return;
    uint64_t* const into = &bits_[static_cast<size_t>(to) * words_];
    const uint64_t* const of = row(from);
    for (size_t w = 0; w < words_; ++w) into[w] |= of[w];
  };
  const auto add_task = [&](int to, int task) {
    add(to, task_rows_[static_cast<size_t>(task)]);
    const int bit = task - first_;
    if (is_source(task)) bits_[static_cast<size_t>(to) * words_ + bit / 64] |= uint64_t{1} << (bit % 64);
  };
  const auto event_row = [&](int event) {
    const auto e = static_cast<size_t>(event);
    if (known[e]) return event_rows_[e];
    known[e] = true;
    const auto matters = [&](int task) { return is_source(task) || task_rows_[static_cast<size_t>(task)] != kNone; };
    if (!std::ranges::any_of(precedence.triggers[e], matters)) return kNone;
    const int made = event_rows_[e] = new_row();
    for (int task : precedence.triggers[e]) add_task(made, task);
    return made;
  };
  if (begin < until) bits_.reserve((until - begin) * words_);
  for (size_t at = begin; at < until; ++at) {
    const auto t = static_cast<size_t>(order[at]);
    const int made = new_row();
    for (int event : precedence.waits[t]) add(made, event_row(event));
    if (!precedence.previous.empty() && precedence.previous[t] >= 0) add_task(made, precedence.previous[t]);
    task_rows_[t] = made;
    is_ordered[t] = true;
  }
  for (size_t e = 0; e < known.size(); ++e) {
    const auto is_known = [&](int task) { return is_ordered[static_cast<size_t>(task)]; };
    if (std::ranges::all_of(precedence.triggers[e], is_known)) event_row(static_cast<int>(e));
  }
}

int Ancestors::new_row() {
  const size_t number = bits_.size() / std::max<size_t>(words_, 1);
  bits_.resize(bits_.size() + words_, 0);
  return static_cast<int>(number);
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

void for_each_window(
    const Precedence& precedence, const std::vector<int>& order, const std::vector<SourceQuestion>& questions,
    const std::function<bool(const Ancestors& ancestors, const std::vector<size_t>& questions)>& answer) {
  // About a layer of a model: rows are short, and few tasks between the sources and who asks for them have any.
  constexpr int kSources = 2048;
  const int count = static_cast<int>(precedence.waits.size());
  for (int first = 0; first < count; first += kSources) {
    const int last = std::min(first + kSources, count) - 1;
    std::vector<size_t> some;
    size_t until = 0;
    for (size_t n = 0; n < questions.size(); ++n) {
      if (questions[n].first > last || questions[n].last < first) continue;
      some.push_back(n);
      until = std::max(until, questions[n].until);
    }
    if (some.empty()) continue;
    if (!answer(Ancestors(precedence, order, first, last - first + 1, until), some)) return;
  }
}

}  // namespace strata::megakernel
