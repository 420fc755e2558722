#include "superopt/whole_programs.h"

#include <algorithm>

#include "interpret/work.h"
#include "ir/text.h"
#include "ir/validate.h"
#include "superopt/codegen/libraries.h"
#include "superopt/prove.h"
#include "superopt/verify/floats.h"
#include "superopt/verify/shrink.h"

namespace strata {
namespace {

/// Different parts for which the other of library and generated code is tried.
constexpr int kMostFlips = 6;

/// For each part, which of its candidates.
using Choice = std::vector<size_t>;

/// The whole program with every part's candidate of that rank, or its last.
Result<Candidate> whole(const Superoptimized& result, const Choice& choice, const SuperoptimizeOptions& options) {
  const Target& target = *options.search.target;
  std::vector<GraphPtr> graphs;
  Candidate all;
  int replaced = 0;
  for (size_t p = 0; p < result.parts.size(); ++p) {
    const auto& candidates = result.parts[p].optimized.candidates;
    const Candidate& one = candidates[std::min(choice[p], candidates.size() - 1)];
    graphs.push_back(one.graph);
    if (one.graph == result.partition.parts[p].graph) continue;
    ++replaced;
    for (const auto& step : one.steps) {
      if (std::find(all.steps.begin(), all.steps.end(), step) == all.steps.end()) all.steps.push_back(step);
    }
  }
  if (replaced == 0) {
    all = as_candidate(result.program, target);
    rate_as_generated(all, options);
    return all;
  }
  if (result.parts.size() > 1) {
    all.composition = fmt::format("part by part: {} of {} parts are replaced, each with a proof of its own", replaced,
                                  result.parts.size());
  }
  combine_steps(all);
  STRATA_TRY(all.graph, compose(result.partition, graphs));
  STRATA_CHECK(validate(*all.graph, target));
  all.cost = scheduled_cost(*all.graph, target);
  rate_as_generated(all, options);
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

/// The best whole program against the input in float64: what would show a mistake in taking apart and composing.
std::string check_whole(const Superoptimized& result, const SuperoptimizeOptions& options, const Deadline& deadline) {
  GraphPtr reference = result.program;
  GraphPtr candidate = result.candidates.front().graph;
  if (result.parts.size() <= 1 || candidate == reference) return {};
  std::string shapes = "full shapes";
  if (execution_work(*reference) > options.largest_full_proof) {
    auto small = shrink_to(options.largest_full_proof, *reference, *candidate);
    if (!small) return "not run: " + small.error().message;
    std::tie(reference, candidate) = *small;
    shapes = "shrunk shapes";
    if (execution_work(*reference) > options.largest_full_proof) return "not run: too large, at shrunk shapes too";
  }
  auto differ = differ_over_reals(*reference, *candidate, options.search.seed, deadline.token());
  if (!differ && differ.error().code == ErrorCode::Interrupted) return "not run: there was no time for it";
  if (!differ) return "not run: " + differ.error().message;
  return *differ ? "DIFFERENT at " + shapes : "agrees in float64 at " + shapes;
}

}  // namespace

void rate_as_generated(Candidate& candidate, const SuperoptimizeOptions& options) {
  const Target& target = *options.search.target;
  const Graph& graph = *candidate.graph;
  const auto& operations = graph.operations();
  if (std::all_of(operations.begin(), operations.end(), [](const Operation& op) { return op.body != nullptr; })) return;
  candidate.schedules = library_schedules(graph, target, options.passes);
  candidate.cost = emitted_cost(graph, target, candidate.schedules, options.passes);
  // Emitters call libraries for products too, with rows that are filled up to whole vectors and operands in another
  // order, together with what is around them.
  Schedules rest = without_products(graph, candidate.schedules);
  if (rest == candidate.schedules) return;
  const CostEstimate cost = emitted_cost(graph, target, rest, options.passes);
  if (cost.seconds >= candidate.cost.seconds) return;
  candidate.cost = cost;
  candidate.schedules = std::move(rest);
}

void rate_program(Superoptimized& result, const SuperoptimizeOptions& options) {
  const Target& target = *options.search.target;
  result.program_schedules = library_schedules(*result.program, target, options.passes);
  result.program_cost = scheduled_cost(*result.program, target, result.program_schedules);
}

void sort_by_cost(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return cheaper(a.cost, b.cost); });
}

void add_new(std::vector<Candidate>& candidates, Candidate candidate) {
  const bool known = std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& other) {
    return other.graph == candidate.graph || same_structure(*other.graph, *candidate.graph);
  });
  if (!known) candidates.push_back(std::move(candidate));
}

Result<void> put_together(const SuperoptimizeOptions& options, const Deadline& deadline, Superoptimized& result) {
  const auto enough = [&] { return !result.candidates.empty() && (deadline.interrupted() || deadline.passed()); };
  size_t ranks = 1;
  for (const PartOutcome& part : result.parts) ranks = std::max(ranks, part.optimized.candidates.size());
  for (size_t rank = 0; rank < ranks && !enough(); ++rank) {
    STRATA_TRY(Candidate candidate, whole(result, Choice(result.parts.size(), rank), options));
    // The search finds the program too.
    if (same_structure(*candidate.graph, *result.program)) {
      candidate = as_candidate(result.program, *options.search.target);
      rate_as_generated(candidate, options);
    }
    add_new(result.candidates, std::move(candidate));
  }
  for (const Choice& choice : flipped_choices(result)) {
    if (enough()) break;
    STRATA_TRY(Candidate candidate, whole(result, choice, options));
    add_new(result.candidates, std::move(candidate));
  }
  Candidate itself = as_candidate(result.program, *options.search.target);
  rate_as_generated(itself, options);
  const bool has_itself = std::any_of(result.candidates.begin(), result.candidates.end(),
                                      [&](const Candidate& c) { return c.graph == result.program; });
  if (!has_itself) result.candidates.push_back(std::move(itself));
  sort_by_cost(result.candidates);
  return {};
}

std::string checked_whole(const Superoptimized& result, const SuperoptimizeOptions& options, const Deadline& deadline) {
  if (options.cache == nullptr || result.parts.size() <= 1) return check_whole(result, options, deadline);
  const std::string key =
      fmt::format("{}\nseed={} {}\n{}{}", build_identity(), options.search.seed, options.largest_full_proof,
                  print(*result.program), print(*result.candidates.front().graph));
  if (auto known = options.cache->find("whole", key)) {
    return fmt::format("{} (from the cache; run of {})", known->value, known->created);
  }
  std::string shown = check_whole(result, options, deadline);
  if (shown.starts_with("agrees")) options.cache->store("whole", key, shown);
  return shown;
}

}  // namespace strata
