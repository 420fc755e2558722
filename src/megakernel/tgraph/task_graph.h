// Tasks and the events between them (Mirage Persistent Kernel, section 3): a task may run when all events that it waits
// for are active, and an event is active when all tasks that trigger it have ended.
//
// Tasks are held by groups, one for each operator: a group is a grid, and events name sets of tasks. So a graph of 10⁸
// tasks is small where its dependencies are simple.
#pragma once

#include <string>
#include <vector>

#include "megakernel/tgraph/grid_set.h"
#include "megakernel/tgraph/operator_graph.h"

namespace strata::megakernel {

/// Tasks of one operator, or empty tasks.
struct TaskGroup {
  std::string name;
  int op = -1;  ///< of the operator graph; −1: empty tasks, which only wait and trigger
  std::vector<int64_t> grid;

  int64_t count() const { return *indexing::element_count(grid); }
  bool operator==(const TaskGroup&) const = default;
};

struct TaskEvent {
  TaskSet in;   ///< InTasks: they trigger it
  TaskSet out;  ///< OutTasks: they wait for it
  bool operator==(const TaskEvent&) const = default;
};

struct TaskGraph {
  std::vector<TaskGroup> groups;  ///< in an order in which they can be executed, but for groups of empty tasks
  std::vector<TaskEvent> events;

  int64_t task_count() const;
  bool operator==(const TaskGraph&) const = default;
};

/// Why a task must come after another.
enum class DependenceKind : uint8_t {
  ReadAfterWrite,
  WriteAfterRead,
  WriteAfterWrite,
};

/// That tasks of an operator come after tasks of another before it. For each pair of sets: all of `in`, before all of
/// `out`.
struct Dependence {
  DependenceKind kind = DependenceKind::ReadAfterWrite;
  int from = 0;  ///< operators
  int to = 0;
  int tensor = 0;  ///< that `to` touches
  std::vector<std::pair<GridSet, GridSet>> pairs;
  /// Whether all these tasks do touch common elements. Else the maps do not tell, or the tensors have different shapes.
  bool exact = true;
};

/// What the operators' regions ask for: read after write of one tensor; write after read and after write of one tensor
/// or of tensors of one buffer. From BlockOverlap, by sets of blocks: all to all is one pair of sets; else there is one
/// for each distinct set of producers. Error (Unsupported) where there are more distinct sets than can be told apart.
/// The operator graph is valid.
Result<std::vector<Dependence>> dependences(const OperatorGraph& graph);

/// A group for each operator and an event for each pair of sets of the dependences (section 4.1).
Result<TaskGraph> task_graph(const OperatorGraph& graph);

/// The graph with one empty task after all others, where there is not one such task already. A step ends with it: the
/// next may then write the memory of this one.
TaskGraph with_step_end(TaskGraph graph);

}  // namespace strata::megakernel
