#include "superopt/part_record.h"

#include <nlohmann/json.hpp>

#include "interpret/work.h"
#include "ir/text.h"
#include "ir/validate.h"
#include "superopt/codegen/generate.h"
#include "superopt/verify/inputs.h"

namespace strata {
namespace {

using Json = nlohmann::json;

constexpr const char* kKind = "part";

Json candidate_json(const Candidate& candidate, const GraphPtr& canonical) {
  return {{"graph", candidate.graph == canonical ? "" : print(*candidate.graph)},
          {"tests", candidate.verification.tests},
          {"error_bound", candidate.verification.error_bound},
          {"argument", candidate.verification.argument},
          {"solver", candidate.verification.method == ProofMethod::Solver},
          {"stable", candidate.errors.stable},
          {"reference_own", candidate.errors.reference_own},
          {"candidate_f32", candidate.errors.candidate_f32},
          {"candidate_own", candidate.errors.candidate_own},
          {"candidate_f64", candidate.errors.candidate_f64}};
}

/// Checked again for all that is cheap to check: legality, interface and cost.
Candidate candidate_of(const Json& json, const GraphPtr& canonical, const Target& target) {
  const std::string text = json.at("graph");
  Candidate candidate = as_candidate(canonical, target);
  if (text.empty()) return candidate;
  auto graph = parse_graph(text);
  if (!graph || !validate(**graph, target) || !check_interface(*canonical, **graph)) {
    throw std::invalid_argument("a graph that does not fit");
  }
  candidate.graph = *graph;
  candidate.cost = scheduled_cost(**graph, target);
  candidate.verification.tests = json.at("tests");
  candidate.verification.error_bound = json.at("error_bound");
  candidate.verification.argument = json.at("argument");
  if (json.at("solver")) candidate.verification.method = ProofMethod::Solver;
  candidate.errors.stable = json.at("stable");
  candidate.errors.reference_own = json.at("reference_own");
  candidate.errors.candidate_f32 = json.at("candidate_f32");
  candidate.errors.candidate_own = json.at("candidate_own");
  candidate.errors.candidate_f64 = json.at("candidate_f64");
  return candidate;
}

Json statistics_json(const SearchStatistics& s) {
  return {s.seconds,     s.threads,          s.generated, s.pruned_shape, s.pruned_memory, s.pruned_expression,
          s.pruned_axes, s.pruned_stability, s.verified,  s.rejected,     s.spaces_total,  s.spaces_searched};
}

SearchStatistics statistics_of(const Json& json) {
  SearchStatistics s;
  s.seconds = json.at(0);
  s.threads = json.at(1);
  size_t at = 2;
  for (int64_t* count : {&s.generated, &s.pruned_shape, &s.pruned_memory, &s.pruned_expression, &s.pruned_axes,
                         &s.pruned_stability, &s.verified, &s.rejected, &s.spaces_total, &s.spaces_searched}) {
    *count = json.at(at++);
  }
  return s;
}

}  // namespace

std::string part_key(const Graph& canonical, const SuperoptimizeOptions& options) {
  const SearchOptions& search = options.search;
  const PruningRules& rules = search.rules;
  const bool full = execution_work(canonical) <= options.largest_full_proof;
  // With every member by name: one that is added does not compile before it is here.
  const auto& [expression, maps, axes, products, sizes, cost, stability] = rules;
  return fmt::format(
      "{}\n{} kernel_ops={} block_ops={} seed={} rules={}{}{}{}{}{}{} unstable={} delta={} solver={} candidates={} "
      "full={} passes={}{}\n{}",
      build_identity(), search.target->name, search.max_kernel_ops, search.max_block_ops, search.seed, expression, maps,
      axes, products, sizes, cost, stability, options.allow_unstable, options.delta, options.solver_time_limit,
      options.candidates, full, options.passes.thread_graphs, options.passes.finer_loops, print(canonical));
}

std::optional<OptimizedPart> find_part(ResultCache& cache, const std::string& key, double effort,
                                       const GraphPtr& canonical, const Target& target) {
  const auto entry = cache.find(kKind, key);
  if (!entry || entry->effort < effort) return std::nullopt;
  try {
    const Json json = Json::parse(entry->value);
    OptimizedPart part;
    for (const Json& candidate : json.at("candidates")) {
      part.candidates.push_back(candidate_of(candidate, canonical, target));
    }
    if (part.candidates.empty()) return std::nullopt;
    part.unproved = json.at("unproved");
    part.unproved_reason = json.at("unproved_reason");
    part.statistics = statistics_of(json.at("statistics"));
    part.stop_reason = json.at("exhausted") ? StopReason::Exhausted : StopReason::TimeLimit;
    part.left_out = json.at("left_out");
    part.cached_at = entry->created;
    return part;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void store_part(ResultCache& cache, const std::string& key, double effort, const OptimizedPart& part,
                const GraphPtr& canonical) {
  if (part.stop_reason == StopReason::Interrupted) return;
  Json json{{"candidates", Json::array()},
            {"unproved", part.unproved},
            {"unproved_reason", part.unproved_reason},
            {"statistics", statistics_json(part.statistics)},
            {"exhausted", part.stop_reason == StopReason::Exhausted},
            {"left_out", part.left_out}};
  for (const Candidate& candidate : part.candidates) {
    json["candidates"].push_back(candidate_json(candidate, canonical));
  }
  cache.store(kKind, key, json.dump(), part.stop_reason == StopReason::Exhausted ? kExhaustive : effort);
}

}  // namespace strata
