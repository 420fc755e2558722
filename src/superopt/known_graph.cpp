#include "superopt/known_graph.h"

#include <algorithm>

#include "ir/validate.h"
#include "runtime/compile.h"
#include "superopt/codegen/all_schedules.h"
#include "superopt/codegen/libraries.h"
#include "superopt/prove.h"
#include "superopt/whole_programs.h"

namespace strata {
namespace {

Result<Candidate> candidate_of(const GraphPtr& program, const GraphPtr& graph, const SuperoptimizeOptions& options,
                               const Deadline& deadline) {
  if (same_structure(*program, *graph)) return as_candidate(program, *options.search.target);
  auto proved = prove(program, graph, options, deadline);
  if (!proved) {
    const std::string why =
        fmt::format("'{}' is not proved to compute the program: {}", graph->name(), proved.error().reason);
    if (proved.error().out_of_time) return unsupported("{}", why);
    return with_remedy(invalid("{}", why), "search again: it belongs to another program");
  }
  proved->steps = {std::make_shared<ProofStep>(
      ProofStep{program, graph, proved->verification, proved->errors, proved->full_shape, {}, {}})};
  return *std::move(proved);
}

Result<Schedules> schedules_named(const std::string& name, const Graph& graph, const SuperoptimizeOptions& options) {
  const std::vector<Schedules> all = all_schedules(graph, *options.search.target, options.passes);
  const auto found = std::find_if(all.begin(), all.end(), [&](const Schedules& one) { return label(one) == name; });
  if (found != all.end()) return *found;
  return with_remedy(unsupported("this version of Strata has no schedule '{}' for '{}'", name, graph.name()),
                     "search again, or leave the schedule out for the model's choice");
}

}  // namespace

Result<Superoptimized> superoptimize_known(const GraphPtr& program, const KnownGraph& known,
                                           const SuperoptimizeOptions& options) {
  const Target& target = *options.search.target;
  STRATA_CHECK(validate(*program, target));
  STRATA_CHECK(validate(*known.graph, target));
  const Deadline deadline = options.deadline.value_or(deadline_of(options.search));
  Superoptimized result;
  result.program = program;
  rate_program(result, options);
  STRATA_TRY(Candidate candidate, candidate_of(program, known.graph, options, deadline));
  rate_as_generated(candidate, options);
  if (!known.schedule.empty()) {
    STRATA_TRY(candidate.schedules, schedules_named(known.schedule, *candidate.graph, options));
  }
  result.candidates.push_back(std::move(candidate));
  take_first_proved(result, options, deadline);
  Candidate& first = result.candidates.front();
  if (first.graph == program && !same_structure(*program, *known.graph))
    return invalid("'{}' does not compute the program: {}", known.graph->name(), result.unproved_reason);
  result.left_out = "everything: nothing was searched";
  Passes passes = options.passes;
  passes.grouping = passes.grouping && known.grouped;
  STRATA_TRY(result.code, generate_cuda(*first.graph, target, first.schedules, passes));
  first.cost = scheduled_cost(*first.graph, target, library_part(first.schedules));
  first.cost = generated_cost(first.cost, *first.graph, target, result.code);
  if (!options.compile) return result;
  if (auto cubin = cubin_of(result.code.source, target, options.cache, deadline.token())) {
    result.cubin = std::move(*cubin);
  } else {
    result.compile_error = cubin.error();
  }
  return result;
}

}  // namespace strata
