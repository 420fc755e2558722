#include "megakernel/tgraph/compile.h"

#include "megakernel/tgraph/check.h"
#include "megakernel/tgraph/linearise.h"

namespace strata::megakernel {
namespace {

Result<Compiled> compile_with(const Stages& stages, Policy policy, const OperatorGraph& operators,
                              const Machine& machine, const CompileOptions& options) {
  Compiled made{stages, {}, {}};
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

Result<PlanFile> compile_batches(const std::string& name, int64_t most_sequences,
                                 const std::function<Result<OperatorGraph>(int64_t batch)>& operators,
                                 const Machine& machine, const CompileOptions& options) {
  constexpr int64_t kMostSequences = 1 << 16;
  if (most_sequences < 1 || most_sequences > kMostSequences)
    return invalid("a plan is for 1 to {} sequences, not {}", kMostSequences, most_sequences);
  PlanFile file{name, {}};
  for (int64_t batch = 1; file.find(most_sequences) == nullptr; batch *= 2) {
    const auto within = [&](const Error& error) { return error.within(fmt::format("batch {}", batch)); };
    auto graph = operators(batch);
    if (!graph) return tl::unexpected(within(graph.error()));
    auto compiled = compile(*graph, machine, options);
    if (!compiled) return tl::unexpected(within(compiled.error()));
    file.by_batch.emplace(batch, std::move(compiled->plan));
  }
  return file;
}

}  // namespace strata::megakernel
