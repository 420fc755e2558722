#include "superopt/optimize_part.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "superopt/codegen/generate.h"
#include "superopt/partition/prologues.h"
#include "superopt/prove.h"
#include "superopt/search/stabilise.h"
#include "superopt/variants.h"

namespace strata {
namespace {

/// What the search of a part leaves to variants and proofs: seconds, and the largest share of the part's time.
constexpr double kProofSeconds = 10;
constexpr double kProofShare = 0.35;
/// The share of that for variants.
constexpr double kVariantsShare = 0.4;

Result<SearchResult> search_until(const GraphPtr& program, const SuperoptimizeOptions& options,
                                  const Deadline& deadline) {
  constexpr double kLeast = 1e-3;  // 0 is no limit
  SearchOptions timed = options.search;
  const double left = deadline.seconds_left();
  timed.time_limit = left == Deadline::kNever ? 0 : std::max(kLeast, left);
  timed.stop = deadline.interrupt();
  return search(program, timed, options.progress);
}

/// Searches the program with maxima subtracted where it exponentiates without; also as it is, where graphs that
/// overflow are wanted too.
Result<SearchResult> search_stable(const GraphPtr& program, const SuperoptimizeOptions& options,
                                   const Deadline& deadline) {
  const Deadline at_once = deadline.without_grace();
  const GraphPtr stable = stabilised(program, options.search.seed, at_once.token());
  if (!stable) return search_until(program, options, deadline);
  if (!options.allow_unstable) return search_until(stable, options, deadline);
  STRATA_TRY(SearchResult first, search_until(stable, options, deadline.share(0.5)));
  STRATA_TRY(SearchResult second, search_until(program, options, deadline));
  first.graphs.insert(first.graphs.end(), second.graphs.begin(), second.graphs.end());
  // Estimating a graph takes milliseconds, so each is estimated once, and after the time limit none: those stay last.
  std::vector<std::pair<double, GraphPtr>> estimated;
  for (GraphPtr& graph : first.graphs) {
    const bool late = deadline.passed();
    const double seconds = late ? HUGE_VAL : scheduled_cost(*graph, *options.search.target).seconds;
    estimated.emplace_back(seconds, std::move(graph));
  }
  std::stable_sort(estimated.begin(), estimated.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::transform(estimated.begin(), estimated.end(), first.graphs.begin(), [](auto& one) { return one.second; });
  first.statistics += second.statistics;
  first.stop_reason = std::max(first.stop_reason, second.stop_reason);
  if (!second.left_out.empty()) first.left_out += (first.left_out.empty() ? "" : "; ") + second.left_out;
  return first;
}

/// Programs of more operators are searched from their normalised operands on, if that leads anywhere.
constexpr size_t kMostWhole = 12;
/// The share of the time for the core of such a program.
constexpr double kCoreShare = 0.6;

/// What search_stable finds; of large programs the graphs of their core with the prologues put back.
Result<SearchResult> search_part(const GraphPtr& program, const SuperoptimizeOptions& options,
                                 const Deadline& deadline) {
  const bool counts = program->arguments().size() < program->inputs().size();
  const bool norms = program->operations().size() > kMostWhole;
  const auto peeled = norms || counts ? peel_prologues(*program, norms) : std::optional<PeeledProgram>{};
  if (!peeled) return search_stable(program, options, deadline);
  SuperoptimizeOptions of_core = options;
  STRATA_TRY(SearchResult found, search_stable(peeled->core, of_core, counts ? deadline : deadline.share(kCoreShare)));
  std::vector<GraphPtr> graphs;
  for (const GraphPtr& graph : found.graphs) {
    for (const PrologueForm form : {PrologueForm::BehindProducts, PrologueForm::InPlace}) {
      auto whole = with_prologues(*program, *peeled, *graph, form);
      if (whole && (graphs.empty() || !same_structure(**whole, *graphs.back()))) graphs.push_back(std::move(*whole));
    }
  }
  // Of a program with iotas there is no search but that of its core.
  if (counts || !graphs.empty() || found.stop_reason == StopReason::Interrupted) {
    found.graphs = std::move(graphs);
    if (!norms) return found;
    found.left_out += (found.left_out.empty() ? "" : "; ") +
                      std::string("graphs that do not normalise operands of products where blocks read them");
    return found;
  }
  return search_stable(program, options, deadline);
}

}  // namespace

Candidate as_candidate(const GraphPtr& program, const Target& target) {
  VerifyResult itself;
  itself.verdict = Verdict::Equivalent;
  itself.error_bound = 0;
  itself.argument = "the input program itself";
  FloatErrors errors;
  errors.acceptable = true;
  errors.stable = true;
  return {program, scheduled_cost(*program, target), std::move(itself), errors, {}, true};
}

Result<OptimizedPart> optimize_part(const GraphPtr& program, const SuperoptimizeOptions& options,
                                    const Deadline& deadline) {
  auto last = std::chrono::steady_clock::now();
  const auto done = [&](std::string_view stage, const Graph& graph) {
    const auto now = std::chrono::steady_clock::now();
    if (options.stage_done) options.stage_done(stage, std::chrono::duration<double>(now - last).count(), graph);
    last = now;
  };

  // Generate: µGraphs that compute the program's expressions and pass a random test, cheapest first.
  OptimizedPart result;
  STRATA_TRY(SearchResult found, search_part(program, options, deadline.all_but(kProofSeconds, kProofShare)));
  result.statistics = found.statistics;
  result.stop_reason = found.stop_reason;
  if (result.stop_reason == StopReason::Interrupted && !deadline.interrupted()) {
    // The search ended by itself just as its time did.
    const bool all = found.statistics.spaces_searched == found.statistics.spaces_total;
    result.stop_reason = all ? StopReason::Exhausted : StopReason::TimeLimit;
  }
  result.left_out = found.left_out;
  if (options.search.shard_count > 1) {  // its work is in the checkpoint
    result.candidates = {as_candidate(program, *options.search.target)};
    return result;
  }
  done("search", found.graphs.empty() ? *program : *found.graphs.front());

  // Optimise: finer loops, elementwise chains in registers, the cheapest with their schedules.
  KnownSchedules schedules(*options.search.target);
  const Deadline of_variants = deadline.share(kVariantsShare);
  STRATA_TRY(const std::vector<GraphPtr> graphs, best_variants(found.graphs, options, of_variants, schedules));
  result.cut = of_variants.passed() || of_variants.interrupted();
  done("thread-graphs", graphs.empty() ? *program : *graphs.front());

  // Prove: at shrunk shapes, where there are some, repeated until the error bound holds, then rounding errors. What
  // becomes the result is proved at full shape (first_proved).
  prove_cheapest(program, graphs, options, deadline, result);
  result.candidates.push_back(as_candidate(program, *options.search.target));
  std::stable_sort(result.candidates.begin(), result.candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return cheaper(a.cost, b.cost); });
  done("verify", *result.candidates.front().graph);
  return result;
}

}  // namespace strata
