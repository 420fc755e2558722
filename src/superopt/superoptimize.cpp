#include "superopt/superoptimize.h"

#include <chrono>
#include <numeric>

#include "ir/text.h"
#include "ir/validate.h"
#include "runtime/compile.h"
#include "superopt/codegen/all_schedules.h"
#include "superopt/codegen/glue_operators.h"
#include "superopt/codegen/libraries.h"
#include "superopt/part_record.h"
#include "superopt/partition/canonical.h"
#include "superopt/partition/fusible.h"
#include "superopt/partition/hoist.h"
#include "superopt/partition/identities.h"
#include "superopt/prove.h"
#include "superopt/sized_parts.h"
#include "superopt/whole_programs.h"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;

/// Seconds that a run has to put together the best so far when the user asks it to stop.
constexpr double kGrace = 1.2;
/// How much later than the limit compiling may end.
constexpr double kOvertime = 1.05;
constexpr double kCompileSeconds = 1;

// Each stage may take a share of the time that is left, and what it leaves goes to those after it.

/// What parts leave to proofs at full shape and to code: seconds, and the largest share of the time limit.
constexpr double kEndSeconds = 6;
constexpr double kEndShare = 0.2;
/// The share for the proof that lets the program be prepared.
constexpr double kPrepareShare = 0.1;
/// The shares for the first partition, where pieces or a library may come after it; for the second; for pieces.
constexpr double kFirstShare = 0.85;
constexpr double kInsideShare = 0.5;
constexpr double kPiecesShare = 0.7;
/// Shares of the time after the parts: the whole in float64, proofs at full shape; the rest compiles.
constexpr double kWholeShare = 0.3;
constexpr double kFullShare = 0.6;

/// The share of the time limit that the parts of each partition have together at least, whatever those before take. The
/// cache counts effort by it. It is half of what the shares above say, because work ends a little late.
constexpr double kLeast = 0.5 * (1 - kEndShare) * (1 - kPrepareShare);
constexpr double kLeastOfFirst = kLeast * kFirstShare;
constexpr double kLeastOfInside = kLeast * (1 - kFirstShare) * kInsideShare;
constexpr double kLeastOfPieces = kLeast * (1 - kFirstShare) * (1 - kInsideShare) * kPiecesShare;
constexpr double kLeastOfRest = kLeast * (1 - kFirstShare) * (1 - kInsideShare) * (1 - kPiecesShare);

/// The share of the grace for proofs of parts.
constexpr double kPartsGrace = 0.5;

/// Operators of a piece of a part for which nothing was found.
constexpr int kPiece = 6;
/// How many of the results with a library's products are kept beside the others.
constexpr size_t kMostWithLibrary = 4;
/// A cut at the library's products is tried where these alone are estimated at no more than this times the best known.
constexpr double kLibraryDoubt = 1.2;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A part that was searched, in canonical form.
struct Found {
  GraphPtr canonical;
  OptimizedPart part;
};

/// By canonical text.
using FoundParts = std::map<std::string, Found>;

/// What a part costs as it is given: every operator a kernel of its own, or a library's.
CostEstimate cost_as_given(const GraphPtr& part, const SuperoptimizeOptions& options) {
  const Target& target = *options.search.target;
  return scheduled_cost(*part, target, library_schedules(*part, target, options.passes));
}

/// A searched part with the names and the order of outputs of one of the places where it stands.
OptimizedPart named(const Found& found, const CanonicalProgram& form, const Part& part) {
  OptimizedPart result = found.part;
  for (Candidate& candidate : result.candidates) {
    candidate.graph =
        candidate.graph == found.canonical ? part.graph : restore(*candidate.graph, form, part.graph->name());
  }
  return result;
}

/// Searches and proofs of the parts of one program, each different one once.
class PartsOptimizer {
 public:
  PartsOptimizer(const SuperoptimizeOptions& options, const Deadline& deadline, double least, FoundParts& found,
                 Superoptimized& result)
      : options_(options), deadline_(deadline), least_(least), found_(found), result_(result) {}

  Result<void> run() {
    result_.parts.resize(result_.partition.parts.size());
    collect();
    // Short searches first: what they leave of their share of the time goes to the long ones.
    std::stable_sort(distinct_.begin(), distinct_.end(), [&](int a, int b) { return weight(a) < weight(b); });
    for (int p : distinct_) all_weight_ += weight(p);
    double left = all_weight_;
    for (size_t i = 0; i < distinct_.size(); ++i) {
      STRATA_CHECK(optimize(distinct_[i], left));
      left -= weight(distinct_[i]);
    }
    for (size_t p = 0; p < result_.parts.size(); ++p) finish(p);
    return {};
  }

 private:
  const Part& part(int p) const { return result_.partition.parts[static_cast<size_t>(p)]; }
  PartOutcome& outcome(int p) const { return result_.parts[static_cast<size_t>(p)]; }

  double weight(int p) const { return static_cast<double>(part(p).operations.size()); }

  void collect() {
    std::map<std::string, int> first;
    for (int p = 0; p < static_cast<int>(result_.parts.size()); ++p) {
      forms_.push_back(canonicalize(*part(p).graph));
      if (!part(p).searchable()) continue;
      texts_[p] = print(*forms_.back().graph);
      const auto [known, fresh] = first.emplace(texts_[p], p);
      if (fresh) {
        if (found_.count(texts_[p]) == 0) distinct_.push_back(p);
      } else {
        outcome(p).equal_to = known->second;
      }
    }
  }

  /// `left` is the weight of this search and those that follow.
  Result<void> optimize(int p, double left) {
    const CanonicalProgram& form = forms_[static_cast<size_t>(p)];
    SuperoptimizeOptions options = options_;
    // A part has a share of what those before it have left; the cache counts by one that is equal in every run, or by
    // what a search would have now.
    const Deadline deadline = deadline_.share(weight(p) / left);
    const double limit = options_.search.time_limit > 0 ? options_.search.time_limit : Deadline::kNever;
    const double effort = effort_of(deadline.seconds_left(), limit, least_ * weight(p) / all_weight_);
    const std::string key = part_key(*form.graph, options);
    if (options.cache != nullptr) {
      if (auto known = find_part(*options.cache, key, effort, form.graph, options, deadline)) {
        keep(p, std::move(*known));
        keep_for_other_sizes(p, effort, options, deadline);
        return {};
      }
    }
    std::string why_searched;
    if (options.sized) {
      auto made = part_of_other_sizes(*part(p).graph, form, effort, options, deadline);
      if (made) {
        keep(p, *std::move(made));
        return {};
      }
      why_searched = made.error().message;
    }
    if (options_.stage_done) {
      options.stage_done = [&](std::string_view stage, double seconds, const Graph& graph) {
        options_.stage_done(stage, seconds, *restore(graph, form, part(p).graph->name()));
      };
    }
    if (deadline.interrupted() || deadline.passed()) {
      keep(p, not_searched(form.graph, deadline));
      return {};
    }
    STRATA_TRY(OptimizedPart optimized, optimize_part(form.graph, options, deadline));
    if (options.cache != nullptr) {
      store_part(*options.cache, key, effort, optimized, form.graph, deadline.interrupted());
    }
    optimized.why_searched = why_searched;
    keep(p, std::move(optimized));
    keep_for_other_sizes(p, effort, options, deadline);
    return {};
  }

  /// Of programs with dims: what was found for a part, by its place in the program.
  void keep_for_other_sizes(int p, double effort, const SuperoptimizeOptions& options, const Deadline& deadline) const {
    if (!options.sized) return;
    const OptimizedPart with_names = named(found_.at(texts_.at(p)), forms_[static_cast<size_t>(p)], part(p));
    store_part_of_size(*part(p).graph, with_names, effort, options, deadline.interrupted());
  }

  OptimizedPart not_searched(const GraphPtr& graph, const Deadline& deadline) const {
    OptimizedPart part;
    part.candidates = {as_candidate(graph, *options_.search.target)};
    part.stop_reason = deadline.interrupted() ? StopReason::Interrupted : StopReason::TimeLimit;
    part.left_out = "everything: there was no time to search it";
    return part;
  }

  /// A part's result, each candidate with the step that proves it.
  void keep(int p, OptimizedPart optimized) {
    const GraphPtr& canonical = forms_[static_cast<size_t>(p)].graph;
    for (Candidate& candidate : optimized.candidates) {
      if (candidate.graph == canonical) continue;
      candidate.steps = {std::make_shared<ProofStep>(ProofStep{
          canonical, candidate.graph, candidate.verification, candidate.errors, candidate.full_shape, {}, {}})};
    }
    found_[texts_[p]] = {canonical, std::move(optimized)};
  }

  /// Whether an input takes the place of one of the program's outputs, which then would have the input's name.
  bool loses_output(const Graph& graph, const Part& part) const {
    const Graph& program = *result_.partition.program;
    for (size_t o = 0; o < part.outputs.size(); ++o) {
      const bool is_output =
          std::find(program.outputs().begin(), program.outputs().end(), part.outputs[o]) != program.outputs().end();
      if (is_output && graph.tensor(graph.outputs()[o]).producer < 0) return true;
    }
    return false;
  }

  void finish(size_t p) {
    PartOutcome& outcome = result_.parts[p];
    const Part& part = result_.partition.parts[p];
    const Target& target = *options_.search.target;
    outcome.program_cost = cost_as_given(part.graph, options_);
    if (part.searchable()) {
      outcome.optimized = named(found_.at(texts_.at(static_cast<int>(p))), forms_[p], part);
    } else {
      outcome.optimized.candidates = {as_candidate(part.graph, target)};
    }
    auto& candidates = outcome.optimized.candidates;
    std::erase_if(candidates, [&](const Candidate& candidate) { return loses_output(*candidate.graph, part); });
    if (candidates.empty()) candidates.push_back(as_candidate(part.graph, target));
    for (Candidate& candidate : candidates) rate_as_generated(candidate, options_);
    sort_by_cost(outcome.optimized.candidates);
    outcome.best_cost = outcome.optimized.candidates.front().cost;
  }

  const SuperoptimizeOptions& options_;
  const Deadline& deadline_;
  const double least_;  ///< share of the time limit that the parts have together
  FoundParts& found_;
  Superoptimized& result_;
  double all_weight_ = 0;
  std::map<int, std::string> texts_;     ///< canonical, by part
  std::vector<CanonicalProgram> forms_;  ///< by part
  std::vector<int> distinct_;            ///< parts to search
};

void sum_up(Superoptimized& result, int threads) {
  result.statistics.threads = threads;
  for (size_t p = 0; p < result.parts.size(); ++p) {
    if (!result.partition.parts[p].searchable() || result.parts[p].equal_to >= 0) continue;
    const OptimizedPart& part = result.parts[p].optimized;
    const Graph& graph = *result.partition.parts[p].graph;
    const std::string where =
        result.parts.size() == 1 ? "" : fmt::format("part of '{}': ", graph.tensor(graph.outputs().back()).name);
    result.statistics += part.statistics;
    result.stop_reason = std::max(result.stop_reason, part.stop_reason);
    result.unproved += part.unproved;
    if (result.unproved_reason.empty() && part.unproved > 0) result.unproved_reason = where + part.unproved_reason;
    if (!part.left_out.empty()) result.left_out += (result.left_out.empty() ? "" : "; ") + where + part.left_out;
  }
}

Result<Superoptimized> optimize_parts(const GraphPtr& program, const SuperoptimizeOptions& options,
                                      const PartitionLimits& limits, const Deadline& deadline, double least,
                                      FoundParts& found) {
  Superoptimized result;
  result.program = program;
  rate_program(result, options);
  PartitionLimits all_limits = limits;
  all_limits.glue_apart = options.passes.emission && options.passes.emitter;
  STRATA_TRY(result.partition, partition(program, all_limits));
  STRATA_CHECK(PartsOptimizer(options, deadline, least, found, result).run());
  sum_up(result, options.search.threads);
  STRATA_CHECK(put_together(options, deadline, result));
  return result;
}

/// The program cut at the products that a library computes, the rest searched; beside what is known, or before it where
/// it is better.
Result<void> try_library(const GraphPtr& program, const SuperoptimizeOptions& options, const Deadline& deadline,
                         FoundParts& found, Superoptimized& result) {
  // A shard's work is in its checkpoint, and has none of this.
  if (options.search.shard_count > 1 || deadline.interrupted() || deadline.passed()) return {};
  const Schedules given = library_schedules(*program, *options.search.target, options.passes);
  if (given.empty()) return {};
  const LibraryPlan plan = plan_libraries(*program, given);
  const std::vector<bool>& apart = plan.covered;
  if (std::find(apart.begin(), apart.end(), false) == apart.end()) return {};
  double least = 0;
  for (const LibraryCall& call : plan.calls) least += library_seconds(call, *options.search.target);
  if (least > kLibraryDoubt * result.candidates.front().cost.seconds) return {};
  SuperoptimizeOptions rest = options;
  STRATA_TRY(Superoptimized beside, optimize_parts(program, rest, {.apart = apart}, deadline, kLeastOfRest, found));
  const StopReason stopped = std::max(beside.stop_reason, result.stop_reason);
  if (beside.candidates.front().cost.seconds < result.candidates.front().cost.seconds) std::swap(beside, result);
  result.stop_reason = stopped;
  for (size_t i = 0; i < std::min(beside.candidates.size(), kMostWithLibrary); ++i) {
    add_new(result.candidates, std::move(beside.candidates[i]));
  }
  sort_by_cost(result.candidates);
  return {};
}

const Part& part_of(const Superoptimized& result, const PartOutcome& outcome) {
  return result.partition.parts[static_cast<size_t>(&outcome - result.parts.data())];
}

/// Whether nothing better was found for a part that could be something better. What emitters write without a product in
/// between is no kernel of each operator.
bool is_stuck(const Superoptimized& result, const PartOutcome& outcome, const Passes& passes) {
  const Part& part = part_of(result, outcome);
  if (!part.searchable() || part.operations.size() <= 1) return false;
  if (outcome.optimized.candidates.front().graph != part.graph) return false;
  const auto& operations = part.graph->operations();
  return !passes.emission || !passes.emitter || !std::all_of(operations.begin(), operations.end(), is_glue);
}

bool any_stuck(const Superoptimized& result, const Passes& passes) {
  return std::any_of(result.parts.begin(), result.parts.end(),
                     [&](const PartOutcome& outcome) { return is_stuck(result, outcome, passes); });
}

/// By operator, the part that it stays in; −1 in parts for which nothing better was found.
std::vector<int> parts_that_stay(const Superoptimized& result, const Passes& passes) {
  std::vector<int> stay(result.partition.program->operations().size(), -1);
  for (size_t p = 0; p < result.parts.size(); ++p) {
    if (is_stuck(result, result.parts[p], passes)) continue;
    for (int i : result.partition.parts[p].operations) stay[static_cast<size_t>(i)] = static_cast<int>(p);
  }
  return stay;
}

/// The program as it is searched: without statements that change nothing and with transposes at its inputs, and the
/// step that proves it; else with what can be proved of the two, at last the program itself without a step.
std::pair<GraphPtr, std::shared_ptr<ProofStep>> prepared_program(const GraphPtr& program,
                                                                 const SuperoptimizeOptions& options,
                                                                 const Deadline& deadline) {
  const GraphPtr simple = without_identities(program).value_or(program);
  const GraphPtr hoisted = hoist_transposes(simple).value_or(simple);
  for (const GraphPtr& form : {hoisted, simple}) {
    if (form == program) break;
    const auto proved = prove(program, form, options, deadline);
    if (!proved) continue;
    return {form, std::make_shared<ProofStep>(
                      ProofStep{program, form, proved->verification, proved->errors, proved->full_shape, {}, {}})};
  }
  return {program, nullptr};
}

/// Says of what was found for another form of the program that it computes the program.
void relate_to(const GraphPtr& program, const std::shared_ptr<ProofStep>& step, const SuperoptimizeOptions& options,
               Superoptimized& result) {
  for (Candidate& candidate : result.candidates) {
    candidate.steps.insert(candidate.steps.begin(), step);
    combine_steps(candidate);
  }
  result.program = program;
  result.candidates.push_back(as_candidate(program, *options.search.target));
  rate_as_generated(result.candidates.back(), options);
  sort_by_cost(result.candidates);
}

/// Candidates whose costs differ by less than the model can tell keep the order in which they were found. The program
/// itself comes before all that it is estimated to be faster than, by however little.
void prefer_program(Superoptimized& result) {
  const auto itself = std::find_if(result.candidates.begin(), result.candidates.end(),
                                   [&](const Candidate& c) { return c.graph == result.program; });
  if (itself == result.candidates.end()) return;
  const double seconds = itself->cost.seconds;
  std::stable_partition(result.candidates.begin(), itself + 1,
                        [&](const Candidate& c) { return c.cost.seconds <= seconds; });
}

/// What was the fastest where it was measured comes first, as far as there are candidates of its structure.
void prefer_measured(Superoptimized& result, const SizedRun& run) {
  if (run.preferred.empty()) return;
  std::stable_partition(result.candidates.begin(), result.candidates.end(),
                        [&](const Candidate& c) { return structure_of(*c.graph) == run.preferred; });
}

/// The schedule with which it was the fastest, where the first candidate has one of this name.
void take_measured_schedule(Superoptimized& result, const SuperoptimizeOptions& options) {
  Candidate& first = result.candidates.front();
  if (options.sized->preferred_schedule.empty() || structure_of(*first.graph) != options.sized->preferred) return;
  for (const Schedules& schedules : all_schedules(*first.graph, *options.search.target, options.passes)) {
    if (label(schedules) == options.sized->preferred_schedule) first.schedules = schedules;
  }
}

}  // namespace

Deadline deadline_of(const SearchOptions& options) {
  const double limit = options.time_limit > 0 ? options.time_limit : Deadline::kNever;
  return Deadline(kOvertime * limit + kCompileSeconds, options.stop, kGrace);
}

void take_first_proved(Superoptimized& result, const SuperoptimizeOptions& options, const Deadline& deadline) {
  std::vector<size_t> order(result.candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto first = first_proved(result.candidates, order, options, deadline);
  if (!first) result.candidates.insert(result.candidates.begin(), as_candidate(result.program, *options.search.target));
  if (!first) rate_as_generated(result.candidates.front(), options);
  std::vector<Candidate> kept;
  if (first) kept.push_back(std::move(result.candidates[*first]));
  for (size_t i = 0; i < result.candidates.size(); ++i) {
    if (first == i) continue;
    const std::string against = refutation(result.candidates[i]);
    if (against.empty()) {
      kept.push_back(std::move(result.candidates[i]));
    } else if (result.unproved++ == 0) {
      result.unproved_reason = against;
    }
  }
  result.candidates = std::move(kept);
  // Parts share the steps.
  for (PartOutcome& part : result.parts) {
    for (Candidate& candidate : part.optimized.candidates) combine_steps(candidate);
  }
}

Result<Superoptimized> superoptimize(const GraphPtr& program, const SuperoptimizeOptions& given) {
  SuperoptimizeOptions options = given;
  const Target& target = *options.search.target;
  auto last = Clock::now();
  const auto done = [&](std::string_view stage, const Graph& graph) {
    if (options.stage_done) options.stage_done(stage, seconds_since(last), graph);
    last = Clock::now();
  };

  const auto working = [&](std::string_view stage) {
    if (options.stage_progress) options.stage_progress(stage, 0, 1);
  };

  // The program must be legal by itself: it is what everything is compared with, and the last resort.
  STRATA_CHECK(validate(*program, target));
  const double limit = options.search.time_limit > 0 ? options.search.time_limit : Deadline::kNever;
  const Deadline whole = options.deadline.value_or(deadline_of(options.search));
  if (options.passes.emitter) options.passes.emitter = options.passes.emitter->until(whole);
  const Deadline proofs = whole.within(limit);
  const Deadline parts = proofs.all_but(kEndSeconds, kEndShare).with_grace(kPartsGrace);
  // Take apart; search and prove each different part; put together. Where nothing better was proved of a part outside
  // the Lax fragment, what is inside it is tried by itself.
  FoundParts found;
  working("taking the program apart");
  const auto [prepared, preparing] = prepared_program(program, options, parts.share(kPrepareShare));
  STRATA_TRY(Superoptimized result,
             optimize_parts(prepared, options, {}, parts.share(kFirstShare), kLeastOfFirst, found));
  const auto time_left = [&] { return !parts.interrupted() && !parts.passed(); };
  const bool stuck = std::any_of(result.parts.begin(), result.parts.end(), [&](const PartOutcome& outcome) {
    return is_stuck(result, outcome, options.passes) && outside_lax(*part_of(result, outcome).graph);
  });
  if (stuck && time_left()) {
    const PartitionLimits limits{.outside_lax = false};
    STRATA_TRY(Superoptimized inside,
               optimize_parts(prepared, options, limits, parts.share(kInsideShare), kLeastOfInside, found));
    if (inside.candidates.front().cost.seconds < result.candidates.front().cost.seconds) result = std::move(inside);
  }
  if (any_stuck(result, options.passes) && time_left()) {
    // Pieces are better than nothing: each can be a kernel. What was found for other parts stays.
    const PartitionLimits limits{.max_operators = kPiece, .given = parts_that_stay(result, options.passes)};
    STRATA_TRY(Superoptimized pieces,
               optimize_parts(prepared, options, limits, parts.share(kPiecesShare), kLeastOfPieces, found));
    if (pieces.candidates.front().cost.seconds < result.candidates.front().cost.seconds) result = std::move(pieces);
  }
  STRATA_CHECK(try_library(prepared, options, parts, found, result));
  if (preparing) relate_to(program, preparing, options, result);
  rate_program(result, options);
  prefer_program(result);
  if (options.sized) prefer_measured(result, *options.sized);
  last = Clock::now();
  take_first_proved(result, options, proofs.share(kFullShare));
  if (options.sized) take_measured_schedule(result, options);
  working("the whole program in float64");
  result.whole_check = checked_whole(result, options, proofs.share(kWholeShare));
  if (result.whole_check.starts_with("DIFFERENT")) {
    // A mistake of ours: what is known to be right is the program.
    result.candidates = {as_candidate(program, target)};
    rate_as_generated(result.candidates.front(), options);
  }
  const Graph& best = *result.candidates.front().graph;
  done("compose", best);

  // Generate code and compile it; a missing compiler, or no time, leaves the source.
  working("generating code");
  Candidate& first = result.candidates.front();
  STRATA_TRY(result.code, generate_cuda(best, target, first.schedules, options.passes));
  first.cost = scheduled_cost(best, target, library_part(first.schedules));
  first.cost = generated_cost(first.cost, best, target, result.code);
  if (options.passes.emitter && options.passes.emitter->ran_out()) {
    result.left_out += (result.left_out.empty() ? "" : "; ");
    result.left_out += "kernels of several operators that there was no time to write: each operator has its own";
  }
  done("codegen", best);
  if (!options.compile) return result;
  working("compiling");
  if (auto cubin = cubin_of(result.code.source, target, options.cache, whole.token())) {
    result.cubin = std::move(*cubin);
  } else {
    result.compile_error = cubin.error();
  }
  done("compile", best);
  return result;
}

}  // namespace strata
