#include "megakernel/decode/step_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "megakernel/decode/step_parts.h"
#include "megakernel/runtime/cuda/words.h"

namespace strata::megakernel {
namespace {

/// Marks the operators whose tasks come just in time.
Result<void> label_operators(const std::vector<std::string>& named, OperatorGraph& graph) {
  const auto is_named = [&](const std::string& name) {
    return std::find(named.begin(), named.end(), name) != named.end();
  };
  std::set<std::string> functions{"all"};
  for (Operator& op : graph.operators) {
    op.data_dependent = is_named("all") || is_named(op.function);
    functions.insert(op.function);
  }
  for (const std::string& name : named) {
    if (!functions.contains(name))
      return with_remedy(invalid("there is no function '{}' in a step", name),
                         fmt::format("the functions are {}", fmt::join(functions, ", ")));
  }
  return {};
}

/// One block to a multiprocessor. Where nobody asked for a number, the schedulers' multiprocessors stay free even
/// without schedulers: a few less stream as fast (docs/benchmarks-decoding.md, Rates).
int workers_of(const Target& target, const DecodeOptions& options) {
  const int others = (options.machine.schedulers + kBlockSchedulers - 1) / kBlockSchedulers;
  // Without tasks that are just in time there are no schedulers.
  const bool has_schedulers = !options.without.ahead_of_time.empty();
  const int most = target.multiprocessors - (has_schedulers ? others : 0);
  return options.machine.workers > 0 ? std::min(options.machine.workers, most) : target.multiprocessors - others;
}

}  // namespace

Result<StepPlan> plan_step(const ModelConfig& config, const DecodeOptions& options, const Target& target) {
  StepPlan step;
  step.machine = options.machine;
  step.machine.rates = target.rates;
  step.machine.workers = workers_of(target, options);
  step.capacity = cache_positions(config, options.batch, options.capacity, {.workers = step.machine.workers});
  STRATA_TRY(step.image, decode_image(config, {options.batch, step.capacity, DType::BF16}, step.machine, target));
  divide_shared_memory(step.image.operators, target, step.machine);
  STRATA_CHECK(label_operators(options.without.ahead_of_time, step.image.operators));
  CompileOptions plans;
  plans.events_of_tasks = !options.without.events_of_tasks;
  plans.choose_hand_offs = !options.without.tagged_words && !options.without.constants_ahead;
  STRATA_TRY(step.compiled, compile(step.image.operators, step.machine, plans));
  return step;
}

}  // namespace strata::megakernel
