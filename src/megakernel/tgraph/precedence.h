// Which tasks come before which: reachability through events, by bit sets, for many sources at once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "megakernel/tgraph/task_graph.h"

namespace strata::megakernel {

/// The tasks of a graph by number: groups one after the other, blocks of a group in row-major order.
class TaskNumbers {
 public:
  explicit TaskNumbers(const TaskGraph& graph);

  int count() const { return bases_.back(); }
  int base(int group) const { return bases_[static_cast<size_t>(group)]; }
  int group_of(int task) const;
  Coordinates block_of(int task) const;
  /// Calls `visit` for the numbers of a set as intervals [first, last], in order.
  void for_each_run(const TaskSet& set, const std::function<void(int, int)>& visit) const;
  std::vector<int> tasks_of(const TaskSet& set) const;
  /// `tasks` are sorted, none twice.
  TaskSet set_of(const std::vector<int>& tasks) const;

 private:
  const TaskGraph& graph_;
  std::vector<int> bases_;
};

/// Passes that number tasks take graphs of so many at most.
inline constexpr int64_t kMostTasks = 1 << 18;
/// Error (Unsupported) where a graph has more.
Result<void> check_size(const TaskGraph& graph);

/// Tasks, what they wait for, and who triggers that.
struct Precedence {
  std::vector<std::vector<int>> waits;     ///< of each task: events
  std::vector<std::vector<int>> triggers;  ///< of each event: tasks
  std::vector<int> previous;  ///< of each task: one that comes before it anyhow, −1 for none; empty: none have one

  explicit Precedence(const TaskGraph& graph);
  Precedence() = default;

  /// The tasks in an order in which they may run; nothing where there is a cycle.
  std::optional<std::vector<int>> order() const;
};

/// For some tasks, the sources, which of them come before other tasks and events.
class Ancestors {
 public:
  /// `order` is precedence.order(); the sources are [first, first + count). Rows are made of its first `until` tasks,
  /// and of the events that these trigger alone.
  Ancestors(const Precedence& precedence, const std::vector<int>& order, int first, int count, size_t until);

  /// The numbers of words of a row. Bit i of word w is source first + 64 w + i.
  size_t words() const { return words_; }
  /// Sources that come before a task, without itself.
  const uint64_t* before_task(int task) const { return row(task_rows_[static_cast<size_t>(task)]); }
  /// Sources that end before an event is active.
  const uint64_t* before_event(int event) const { return row(event_rows_[static_cast<size_t>(event)]); }
  /// Whether all sources in [from, to] are in a row; others than sources do not count.
  bool has_all(const uint64_t* row, int from, int to) const;
  bool has_any(const uint64_t* row, int from, int to) const;

 private:
  static constexpr int kNone = -1;  ///< no source comes before it

  const uint64_t* row(int number) const {
    return number == kNone ? none_.data() : &bits_[static_cast<size_t>(number) * words_];
  }
  int new_row();
  /// Calls `visit` with each word and the bits of [from, to] in it, until it returns false.
  bool for_words(int from, int to, const std::function<bool(size_t, uint64_t)>& visit) const;

  int first_;
  int count_;
  size_t words_;
  std::vector<uint64_t> none_;
  std::vector<int> task_rows_;
  std::vector<int> event_rows_;
  std::vector<uint64_t> bits_;
};

/// A question about sources [first, last]: rows of tasks and events among the first `until` of the order answer it.
struct SourceQuestion {
  int first = 0;
  int last = -1;
  size_t until = 0;
};

/// Answers questions for a window of sources after the other: most are about tasks that stand close to each other, so
/// that bit sets of all tasks at once would be mostly empty or full. `answer` has the numbers of the questions about
/// some of a window's sources, in order, and ends all by returning false.
void for_each_window(
    const Precedence& precedence, const std::vector<int>& order, const std::vector<SourceQuestion>& questions,
    const std::function<bool(const Ancestors& ancestors, const std::vector<size_t>& questions)>& answer);

}  // namespace strata::megakernel
