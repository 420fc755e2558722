// Operator graphs, task graphs and plans as text and as drawings, for people.
#pragma once

#include <string>
#include <string_view>

#include "megakernel/plan.h"
#include "megakernel/tgraph/task_graph.h"

namespace strata::megakernel {

/// "1 task", "2 tasks".
std::string plural(int64_t count, std::string_view what);

/// One line for each operator: grid, function, cost, and what it reads and writes.
std::string to_text(const OperatorGraph& graph);

/// Groups with their numbers of tasks, then the events; events between the same groups with as many tasks on each side
/// are one line with their number:
///
///   qkv: 128 tasks [128]
///   8 events: 16 of qkv -> 16 of attention
std::string to_text(const TaskGraph& graph);

/// Tasks in linear order, neighbours that do the same as one line; then the events and the workers' loads.
std::string to_text(const Plan& plan);

/// SVG: a column of nodes for each group, with events as circles between. Tasks that trigger and wait for like events
/// are one node with their number, as are events between the same nodes.
std::string to_svg(const TaskGraph& graph);

}  // namespace strata::megakernel
