// The passes from a task graph to another (Mirage Persistent Kernel, section 4.1). Each keeps which tasks come before
// which, through however many events.
#pragma once

#include "megakernel/tgraph/machine.h"
#include "megakernel/tgraph/task_graph.h"

namespace strata::megakernel {

/// Tasks no longer wait for an event where another one that they wait for is only active after all that trigger the
/// first: a residual connection past a layer's reductions, say. Before fuse_events, which it leaves more to do. Errors:
/// Unsupported (more than kMostTasks tasks), InvalidInput (a cycle).
Result<TaskGraph> drop_implied(const TaskGraph& graph);

/// One event for each pair of groups of which a task waits for another: all tasks of the first trigger it, all of the
/// second wait for it. The baseline that events between tasks are measured against. No task of the graph waits for one
/// of its own group, as is so in what task_graph makes.
TaskGraph one_event_a_pair(const TaskGraph& graph);

/// Successor-set fusion (Definition 4.1: events that the same tasks wait for become one) and predecessor-set fusion
/// (Definition 4.2: events that the same tasks trigger become one), until neither changes anything.
TaskGraph fuse_events(const TaskGraph& graph);

struct Normalised {
  TaskGraph graph;
  int64_t empty_tasks = 0;
  /// What the events that were added cost on the path on which they cost most, on an idle machine.
  double seconds = 0;
};

/// Each task triggers one event at most and waits for `max_waits` at most (1, as in the paper's figure 6, to kMaxWaits
/// of plan.h), by empty tasks. Tasks that trigger the same events share these, as do tasks that wait for the same.
/// After fuse_events. Errors as of drop_implied.
Result<Normalised> normalise(const TaskGraph& graph, int max_waits, const Machine& machine);

}  // namespace strata::megakernel
