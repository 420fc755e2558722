// A plan as people look at it: what its operators wait for and trigger, in words, and a layer of it to draw.
#pragma once

#include <string>

#include "megakernel/plan_file.h"
#include "megakernel/tgraph/task_graph.h"

namespace strata::megakernel {

/// For each batch the numbers of tasks, events and hand-offs, and those of each operator. Operators of several layers
/// (NAME.0, NAME.1, …) with equal numbers are one line:
///
///   norm_qkv × 16: 128 tasks; wait for 1 event (tagged), trigger 8 events (tagged)
std::string to_text(const PlanFile& file);

/// Layers of the plan: the largest number behind a dot in its operators' names, and one; 0: none has one.
int64_t layer_count(const Plan& plan);

/// The tasks of a layer and the events that they wait for or trigger, with the tasks of others that are on the other
/// side of these; blocks of a group are its tasks in the plan's order. Error (InvalidInput): there is no such layer.
Result<TaskGraph> layer_of(const Plan& plan, int64_t layer);

}  // namespace strata::megakernel
