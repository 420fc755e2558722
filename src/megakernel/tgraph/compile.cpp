#include "megakernel/tgraph/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "megakernel/tgraph/check.h"
#include "megakernel/tgraph/linearise.h"

namespace strata::megakernel {
namespace {

Result<Compiled> compile_with(const Stages& stages, Policy policy, const OperatorGraph& operators,
                              const Machine& machine, const CompileOptions& options) {
  Compiled made{stages, {}, {}, policy};
  STRATA_TRY(Plan plan, linearise(made.stages.normalised.graph, operators));
  STRATA_TRY(plan, label(plan, operators, machine));
  STRATA_TRY(Scheduled scheduled, schedule(plan, operators, machine, policy));
  made.plan = std::move(scheduled.plan);
  made.estimate = scheduled.estimate;
  if (options.choose_hand_offs) {
    STRATA_TRY(made.plan, choose_hand_offs(made.plan, operators, machine));
    STRATA_TRY(made.estimate, simulate(made.plan, operators, machine));
  }
  return made;
}

}  // namespace

Result<Compiled> compile(const OperatorGraph& operators, const Machine& machine, const CompileOptions& options) {
  STRATA_CHECK(validate(operators));
  Stages stages;
  STRATA_TRY(TaskGraph graph, task_graph(operators));
  if (!options.events_of_tasks) graph = one_event_a_pair(graph);
  stages.dependences = with_step_end(std::move(graph));
  STRATA_TRY(stages.dropped, drop_implied(stages.dependences));
  stages.fused = fuse_events(stages.dropped);

  std::optional<Compiled> best;
  for (int max_waits : {kMaxWaits, 1}) {
    if (options.max_waits != 0) max_waits = options.max_waits;
    STRATA_TRY(Normalised normalised, normalise(stages.fused, max_waits, machine));
    if (best && normalised.graph == stages.normalised.graph) break;
    stages.normalised = std::move(normalised);
    for (const Policy policy : {Policy::LongestPath, Policy::RoundRobin}) {
      if (options.policy && *options.policy != policy) continue;
      STRATA_TRY(Compiled made, compile_with(stages, policy, operators, machine, options));
      if (!best || made.estimate.seconds < best->estimate.seconds) best = std::move(made);
    }
    if (options.max_waits != 0) break;
  }
  if (auto checked = check(best->plan, operators, machine); !checked)
    return tl::unexpected(checked.error().within("the plan made of '" + operators.name + "' is wrong"));
  return *std::move(best);
}

std::string passes_text(const Compiled& compiled) {
  const Stages& stages = compiled.stages;
  const Plan& plan = compiled.plan;
  std::string text;
  const auto line = [&](std::string_view pass, int64_t tasks, size_t events, const std::string& more) {
    text += fmt::format("{:<14} {:>7} tasks {:>6} events{}\n", pass, tasks, events, more);
  };
  line("dependences", stages.dependences.task_count(), stages.dependences.events.size(), "");
  line("implied waits", stages.dropped.task_count(), stages.dropped.events.size(), "");
  line("fusion", stages.fused.task_count(), stages.fused.events.size(), "");
  size_t most_waits = 0, just_in_time = 0, marked = 0, longest = 0;
  for (const Task& task : plan.tasks) {
    most_waits = std::max(most_waits, task.waits.size());
    just_in_time += task.mode == LaunchMode::JustInTime ? 1 : 0;
    marked += task.after_just_in_time ? 1 : 0;
  }
  for (const std::vector<int>& queue : plan.queues) longest = std::max(longest, queue.size());
  line("normalisation", stages.normalised.graph.task_count(), stages.normalised.graph.events.size(),
       fmt::format(", {} empty tasks, {} waits of a task at most", stages.normalised.empty_tasks, most_waits));
  const auto tasks = static_cast<int64_t>(plan.tasks.size());
  line("linearisation", tasks, plan.events.size(), "");
  text +=
      fmt::format("{:<14} {:>7} tasks just in time, {} ahead of time, of which {} only when their events are active\n",
                  "labels", just_in_time, plan.tasks.size() - just_in_time, marked);
  text += fmt::format("{:<14} {:>7} workers, {} tasks in a queue at most, by {}; {:.1f} us a step by estimate\n",
                      "schedule", plan.workers, longest,
                      compiled.policy == Policy::LongestPath ? "longest path" : "round robin",
                      compiled.estimate.seconds * 1e6);
  std::array<size_t, kHandOffs.size()> hand_offs{};
  for (const Event& event : plan.events) ++hand_offs[static_cast<size_t>(event.hand_off)];
  return text + fmt::format("{:<14} {:>7} events by counter, {} by tagged words, {} within a worker\n", "hand-offs",
                            hand_offs[0], hand_offs[1], hand_offs[2]);
}

Result<PlanFile> compile_batches(const std::string& name, int64_t most_sequences,
                                 const std::function<Result<Plan>(int64_t batch)>& plan_of) {
  constexpr int64_t kMostSequences = 1 << 16;
  if (most_sequences < 1 || most_sequences > kMostSequences)
    return invalid("a plan is for 1 to {} sequences, not {}", kMostSequences, most_sequences);
  PlanFile file{name, {}};
  for (int64_t batch = 1; file.find(most_sequences) == nullptr; batch *= 2) {
    auto plan = plan_of(batch);
    if (!plan) return tl::unexpected(plan.error().within(fmt::format("batch {}", batch)));
    file.by_batch.emplace(batch, std::move(*plan));
  }
  return file;
}

}  // namespace strata::megakernel
