#include "superopt/superoptimize.h"

#include <chrono>
#include <numeric>

#include "interpret/interpret.h"
#include "interpret/work.h"
#include "ir/text.h"
#include "ir/validate.h"
#include "runtime/compile.h"
#include "superopt/codegen/libraries.h"
#include "superopt/part_record.h"
#include "superopt/partition/canonical.h"
#include "superopt/partition/fusible.h"
#include "superopt/partition/hoist.h"
#include "superopt/prove.h"
#include "superopt/verify/floats.h"
#include "superopt/verify/shrink.h"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;

/// Of the time limit of a program of several parts; the rest is for proofs.
constexpr double kSearchShare = 0.85;
/// Operators of a piece of a part for which nothing was found, and the share of the time that is kept for pieces.
constexpr int kPiece = 6;
constexpr double kPiecesShare = 0.2;
/// The share of the time for what is left of a program without the products that a library computes, and how many of
/// the results are kept beside the others.
constexpr double kLibraryShare = 0.1;
constexpr size_t kMostWithLibrary = 4;
/// The library's products alone may be estimated so much slower than all that is known, and are tried.
constexpr double kLibraryDoubt = 1.2;
/// Different parts for which the other of library and generated code is tried.
constexpr int kMostFlips = 6;
/// Seconds that a part is searched even where others have used up the time. Small parts need no more.
constexpr double kLeastSearch = 0.2;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A part that was searched, in canonical form.
struct Found {
  GraphPtr canonical;
  OptimizedPart part;
};

/// By canonical text.
using FoundParts = std::map<std::string, Found>;

/// Gives products to cuBLASLt and convolutions to cuDNN where the model rates that better.
void rate_with_library(Candidate& candidate, const SuperoptimizeOptions& options) {
  const Target& target = *options.search.target;
  candidate.schedules = library_schedules(*candidate.graph, target, options.passes);
  if (!candidate.schedules.empty()) candidate.cost = scheduled_cost(*candidate.graph, target, candidate.schedules);
}

/// What a program costs as it is given, with what libraries compute of it: the same as of the candidate that it is.
CostEstimate cost_as_given(const GraphPtr& program, const SuperoptimizeOptions& options) {
  Candidate itself = as_candidate(program, *options.search.target);
  rate_with_library(itself, options);
  return itself.cost;
}

void sort_by_cost(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return cheaper(a.cost, b.cost); });
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
  PartsOptimizer(const SuperoptimizeOptions& options, Clock::time_point start, FoundParts& found,
                 Superoptimized& result)
      : options_(options), start_(start), found_(found), result_(result) {}

  Result<void> run() {
    result_.parts.resize(result_.partition.parts.size());
    collect();
    // Short searches first: what they leave of their share of the time goes to the long ones.
    std::stable_sort(distinct_.begin(), distinct_.end(), [&](int a, int b) { return weight(a) < weight(b); });
    for (int p : distinct_) all_weight_ += weight(p);
    double left = all_weight_;
    for (size_t i = 0; i < distinct_.size(); ++i) {
      STRATA_CHECK(optimize(distinct_[i], i, left));
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

  /// The `number`-th search; `left` is the weight of it and those that follow.
  Result<void> optimize(int p, size_t number, double left) {
    const CanonicalProgram& form = forms_[static_cast<size_t>(p)];
    SuperoptimizeOptions options = options_;
    options.largest_full_proof = options_.largest_full_proof / static_cast<double>(distinct_.size());
    if (number > 0 && !options.search.checkpoint.empty()) options.search.checkpoint += fmt::format(".{}", number);
    // Of the limit, a part has a share of its own, equal in every run, and what those before it have left.
    double own_share = kExhaustive;
    if (options_.search.time_limit > 0) {
      // Proofs of the parts before have taken time too; those of the last ones need some.
      const double all = options_.search.time_limit * (distinct_.size() > 1 ? kSearchShare : 1);
      own_share = all * weight(p) / all_weight_;
      options.search.time_limit = std::max(kLeastSearch, (all - seconds_since(start_)) * weight(p) / left);
    }
    const std::string key = part_key(*form.graph, options);
    if (options.cache != nullptr) {
      if (auto known = find_part(*options.cache, key, own_share, form.graph, *options.search.target)) {
        found_[texts_[p]] = {form.graph, std::move(*known)};
        return {};
      }
    }
    if (options_.stage_done) {
      options.stage_done = [&](std::string_view stage, double seconds, const Graph& graph) {
        options_.stage_done(stage, seconds, *restore(graph, form, part(p).graph->name()));
      };
    }
    STRATA_TRY(OptimizedPart optimized, optimize_part(form.graph, options));
    if (options.cache != nullptr) {
      // Where others have used up the time, what was found with little of it is not kept as found with all.
      const double granted = options.search.time_limit;
      store_part(*options.cache, key, granted < own_share / 2 ? granted : std::max(own_share, granted), optimized,
                 form.graph);
    }
    found_[texts_[p]] = {form.graph, std::move(optimized)};
    return {};
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
    for (Candidate& candidate : outcome.optimized.candidates) rate_with_library(candidate, options_);
    sort_by_cost(outcome.optimized.candidates);
    outcome.best_cost = outcome.optimized.candidates.front().cost;
  }

  const SuperoptimizeOptions& options_;
  Clock::time_point start_;
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

/// Of each part, which of its candidates.
using Choice = std::vector<size_t>;

/// The whole program with every part's candidate of that rank, or its last. Composition is exact, so the error bounds
/// of the parts add up.
Result<Candidate> whole(const Superoptimized& result, const Choice& choice, const SuperoptimizeOptions& options) {
  const Target& target = *options.search.target;
  std::vector<GraphPtr> graphs;
  Candidate all;
  all.verification.verdict = Verdict::Equivalent;
  all.verification.error_bound = 0;
  all.errors.acceptable = true;
  int proved = 0;
  for (size_t p = 0; p < result.parts.size(); ++p) {
    const auto& candidates = result.parts[p].optimized.candidates;
    const Candidate& one = candidates[std::min(choice[p], candidates.size() - 1)];
    graphs.push_back(one.graph);
    if (one.graph == result.partition.parts[p].graph) continue;
    ++proved;
    all.verification.tests += one.verification.tests;
    all.verification.error_bound += one.verification.error_bound;
    all.verification.argument = one.verification.argument;
    if (one.verification.method == ProofMethod::Solver) all.verification.method = ProofMethod::Solver;
    all.errors.reference_own = std::max(all.errors.reference_own, one.errors.reference_own);
    all.errors.candidate_f32 = std::max(all.errors.candidate_f32, one.errors.candidate_f32);
    all.errors.candidate_own = std::max(all.errors.candidate_own, one.errors.candidate_own);
    all.errors.candidate_f64 = std::max(all.errors.candidate_f64, one.errors.candidate_f64);
  }
  if (proved == 0) {
    all = as_candidate(result.program, target);
    rate_with_library(all, options);
    return all;
  }
  if (result.parts.size() > 1) {
    all.verification.argument = fmt::format("part by part: {} of {} parts are replaced, each with a proof of its own",
                                            proved, result.parts.size());
  }
  STRATA_TRY(all.graph, compose(result.partition, graphs));
  STRATA_CHECK(validate(*all.graph, target));
  all.cost = scheduled_cost(*all.graph, target);
  rate_with_library(all, options);
  return all;
}

/// The best choice with one kind of part changed from the library to generated code or back, for each kind, and with
/// all parts generated: estimates of the two are not equally good.
std::vector<Choice> flipped_choices(const Superoptimized& result) {
  std::vector<Choice> choices;
  Choice generated(result.parts.size(), 0);
  int flips = 0;
  for (size_t p = 0; p < result.parts.size(); ++p) {
    const auto& candidates = result.parts[p].optimized.candidates;
    const bool library = uses_library(candidates.front().schedules);
    const auto other = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
      return uses_library(candidate.schedules) != library;
    });
    if (other == candidates.end()) continue;
    const auto rank = static_cast<size_t>(other - candidates.begin());
    if (library) generated[p] = rank;
    if (result.parts[p].equal_to >= 0 || flips++ >= kMostFlips) continue;
    Choice flipped(result.parts.size(), 0);
    for (size_t q = p; q < result.parts.size(); ++q) {
      if (q == p || result.parts[q].equal_to == static_cast<int>(p)) flipped[q] = rank;
    }
    choices.push_back(std::move(flipped));
  }
  choices.push_back(std::move(generated));
  return choices;
}

void add_new(std::vector<Candidate>& candidates, Candidate candidate) {
  const bool known = std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& other) {
    return other.graph == candidate.graph || same_structure(*other.graph, *candidate.graph);
  });
  if (!known) candidates.push_back(std::move(candidate));
}

Result<void> put_together(const SuperoptimizeOptions& options, Superoptimized& result) {
  size_t ranks = 1;
  for (const PartOutcome& part : result.parts) ranks = std::max(ranks, part.optimized.candidates.size());
  for (size_t rank = 0; rank < ranks; ++rank) {
    STRATA_TRY(Candidate candidate, whole(result, Choice(result.parts.size(), rank), options));
    // The search finds the program too.
    if (same_structure(*candidate.graph, *result.program)) candidate.graph = result.program;
    add_new(result.candidates, std::move(candidate));
  }
  for (const Choice& choice : flipped_choices(result)) {
    STRATA_TRY(Candidate candidate, whole(result, choice, options));
    add_new(result.candidates, std::move(candidate));
  }
  Candidate itself = as_candidate(result.program, *options.search.target);
  rate_with_library(itself, options);
  const bool has_itself = std::any_of(result.candidates.begin(), result.candidates.end(),
                                      [&](const Candidate& c) { return c.graph == result.program; });
  if (!has_itself) result.candidates.push_back(std::move(itself));
  sort_by_cost(result.candidates);
  return {};
}

/// The best whole program against the input in float64: what would show a mistake in taking apart and composing.
std::string check_whole(const Superoptimized& result, const SuperoptimizeOptions& options) {
  GraphPtr reference = result.program;
  GraphPtr candidate = result.candidates.front().graph;
  if (result.parts.size() <= 1 || candidate == reference) return {};
  std::string shapes = "full shapes";
  if (execution_work(*reference) > options.largest_full_proof) {
    auto small = shrink(*reference, *candidate);
    if (!small) return "not run: " + small.error().message;
    std::tie(reference, candidate) = *small;
    shapes = "shrunk shapes";
    if (execution_work(*reference) > options.largest_full_proof) return "not run: too large, at shrunk shapes too";
  }
  auto differ = differ_over_reals(*reference, *candidate, options.search.seed, options.search.stop);
  if (!differ) return "not run: " + differ.error().message;
  return *differ ? "DIFFERENT at " + shapes : "agrees in float64 at " + shapes;
}

/// check_whole, from the cache where it was run on the same two programs.
std::string checked_whole(const Superoptimized& result, const SuperoptimizeOptions& options) {
  if (options.cache == nullptr || result.parts.size() <= 1) return check_whole(result, options);
  const std::string key =
      fmt::format("{}\nseed={} {}\n{}{}", build_identity(), options.search.seed, options.largest_full_proof,
                  print(*result.program), print(*result.candidates.front().graph));
  if (auto known = options.cache->find("whole", key)) return known->value;
  std::string shown = check_whole(result, options);
  if (shown.starts_with("agrees")) options.cache->store("whole", key, shown);
  return shown;
}

Result<Superoptimized> optimize_parts(const GraphPtr& program, const SuperoptimizeOptions& options,
                                      const PartitionLimits& limits, Clock::time_point start, FoundParts& found) {
  Superoptimized result;
  result.program = program;
  result.program_cost = cost_as_given(program, options);
  STRATA_TRY(result.partition, partition(program, limits));
  STRATA_CHECK(PartsOptimizer(options, start, found, result).run());
  sum_up(result, options.search.threads);
  STRATA_CHECK(put_together(options, result));
  return result;
}

/// The program cut at the products that a library computes, the rest searched; beside what is known, or before it where
/// it is better.
Result<void> try_library(const GraphPtr& program, const SuperoptimizeOptions& options, FoundParts& found,
                         Superoptimized& result) {
  // A shard's work is in its checkpoint, and has none of this.
  if (options.search.shard_count > 1 || options.search.stop.stop_requested()) return {};
  const Schedules given = library_schedules(*program, *options.search.target, options.passes);
  if (given.empty()) return {};
  const LibraryPlan plan = plan_libraries(*program, given);
  const std::vector<bool>& apart = plan.covered;
  if (std::find(apart.begin(), apart.end(), false) == apart.end()) return {};
  double least = 0;
  for (const LibraryCall& call : plan.calls) least += library_seconds(call, *options.search.target);
  if (least > kLibraryDoubt * result.candidates.front().cost.seconds) return {};
  SuperoptimizeOptions rest = options;
  if (options.search.time_limit > 0) rest.search.time_limit = kLibraryShare * options.search.time_limit;
  if (!rest.search.checkpoint.empty()) rest.search.checkpoint += ".library";
  STRATA_TRY(Superoptimized beside, optimize_parts(program, rest, {.apart = apart}, Clock::now(), found));
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

/// Whether nothing better was found for a part that could be something better.
bool is_stuck(const Superoptimized& result, const PartOutcome& outcome) {
  const Part& part = part_of(result, outcome);
  return part.searchable() && part.operations.size() > 1 && outcome.optimized.candidates.front().graph == part.graph;
}

bool any_stuck(const Superoptimized& result) {
  return std::any_of(result.parts.begin(), result.parts.end(),
                     [&](const PartOutcome& outcome) { return is_stuck(result, outcome); });
}

/// By operator, the part that it stays in; −1 in parts for which nothing better was found.
std::vector<int> parts_that_stay(const Superoptimized& result) {
  std::vector<int> stay(result.partition.program->operations().size(), -1);
  for (size_t p = 0; p < result.parts.size(); ++p) {
    if (is_stuck(result, result.parts[p])) continue;
    for (int i : result.partition.parts[p].operations) stay[static_cast<size_t>(i)] = static_cast<int>(p);
  }
  return stay;
}

/// The program with transposes at its inputs, if that is proved to be the same program.
GraphPtr hoisted_program(const GraphPtr& program, const SuperoptimizeOptions& options) {
  auto hoisted = hoist_transposes(program);
  if (!hoisted || *hoisted == program) return program;
  return prove(program, *hoisted, options) ? *hoisted : program;
}

}  // namespace

Result<std::vector<char>> cubin_of(const std::string& source, const Target& target, ResultCache* cache) {
  if (cache == nullptr) return compile_cubin(source, target);
  const std::string key = fmt::format("{}\n{}", target.name, source);
  if (auto known = cache->find("cubin", key)) return std::vector<char>(known->value.begin(), known->value.end());
  auto cubin = compile_cubin(source, target);
  if (cubin) cache->store("cubin", key, {cubin->data(), cubin->size()}, 0, ResultCache::Keep::WhileThereIsRoom);
  return cubin;
}

Result<Superoptimized> superoptimize(const GraphPtr& program, const SuperoptimizeOptions& options) {
  const Target& target = *options.search.target;
  auto last = Clock::now();
  const auto done = [&](std::string_view stage, const Graph& graph) {
    if (options.stage_done) options.stage_done(stage, seconds_since(last), graph);
    last = Clock::now();
  };

  // The program must be legal by itself: it is what everything is compared with, and the last resort.
  STRATA_CHECK(validate(*program, target));
  // Take apart; search and prove each different part; put together. Where nothing better was proved of a part outside
  // the Lax fragment, what is inside it is tried by itself.
  FoundParts found;
  const GraphPtr hoisted = hoisted_program(program, options);
  const auto start = Clock::now();
  SuperoptimizeOptions first = options;
  if (program->operations().size() > kPiece) first.search.time_limit *= 1 - kPiecesShare;
  STRATA_TRY(Superoptimized result, optimize_parts(hoisted, first, {}, start, found));
  const bool stuck = std::any_of(result.parts.begin(), result.parts.end(), [&](const PartOutcome& outcome) {
    return is_stuck(result, outcome) && outside_lax(*part_of(result, outcome).graph);
  });
  if (stuck) {
    STRATA_TRY(Superoptimized inside, optimize_parts(hoisted, first, {.outside_lax = false}, start, found));
    if (inside.candidates.front().cost.seconds < result.candidates.front().cost.seconds) result = std::move(inside);
  }
  if (any_stuck(result)) {
    // Pieces are better than nothing: each can be a kernel. What was found for other parts stays.
    SuperoptimizeOptions rest = options;
    rest.search.time_limit =
        std::max(kPiecesShare * options.search.time_limit, options.search.time_limit - seconds_since(start));
    const PartitionLimits limits{.max_operators = kPiece, .given = parts_that_stay(result)};
    STRATA_TRY(Superoptimized pieces, optimize_parts(hoisted, rest, limits, Clock::now(), found));
    if (pieces.candidates.front().cost.seconds < result.candidates.front().cost.seconds) result = std::move(pieces);
  }
  STRATA_CHECK(try_library(hoisted, options, found, result));
  result.program = program;
  result.program_cost = cost_as_given(program, options);
  last = Clock::now();
  result.whole_check = checked_whole(result, options);
  if (result.whole_check.starts_with("DIFFERENT")) {
    // A mistake of ours: what is known to be right is the program.
    result.candidates = {as_candidate(program, target)};
    rate_with_library(result.candidates.front(), options);
  }
  const Graph& best = *result.candidates.front().graph;
  done("compose", best);

  // Generate code and compile it; a missing compiler leaves the source.
  STRATA_TRY(result.code, generate_cuda(best, target, result.candidates.front().schedules, options.passes));
  done("codegen", best);
  if (auto cubin = cubin_of(result.code.source, target, options.cache)) {
    result.cubin = std::move(*cubin);
  } else {
    result.compile_error = cubin.error();
  }
  done("compile", best);
  return result;
}

}  // namespace strata
