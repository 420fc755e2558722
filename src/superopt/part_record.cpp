#include "superopt/part_record.h"

#include <nlohmann/json.hpp>

#include "interpret/work.h"
#include "ir/text.h"
#include "ir/validate.h"
#include "superopt/prove.h"
#include "superopt/verify/inputs.h"

namespace strata {
namespace {

using Json = nlohmann::json;

constexpr const char* kKind = "part";

/// A graph that is legal and has the part's interface; that it computes the same is proved by the caller.
GraphPtr graph_of(const Json& json, const Graph& canonical, const Target& target) {
  const auto graph = parse_graph(json.get<std::string>());
  if (!graph || !validate(**graph, target) || !check_replacement(canonical, **graph)) {
    throw std::invalid_argument("a graph that does not fit");
  }
  return *graph;
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

std::string search_key(const SuperoptimizeOptions& options) {
  const SearchOptions& search = options.search;
  const PruningRules& rules = search.rules;
  // With every member by name: one that is added does not compile before it is here.
  const auto& [expression, maps, axes, products, sizes, cost, stability] = rules;
  return fmt::format(
      "{}\n{} kernel_ops={} block_ops={} seed={} all={} rules={}{}{}{}{}{}{} unstable={} delta={} solver={} "
      "candidates={} passes={}{}{}",
      build_identity(), search.target->identity(), search.max_kernel_ops, search.max_block_ops, search.seed,
      search.keep_all, expression, maps, axes, products, sizes, cost, stability, options.allow_unstable, options.delta,
      options.solver_time_limit, options.candidates, options.passes.thread_graphs, options.passes.finer_loops,
      options.passes.epilogues);
}

std::string part_key(const Graph& canonical, const SuperoptimizeOptions& options) {
  const bool full = execution_work(canonical) <= options.largest_full_proof;
  return fmt::format("{} full={}\n{}", search_key(options), full, print(canonical));
}

double effort_of(double granted, double limit, double share) { return std::min({granted, share * limit, kExhaustive}); }

std::optional<OptimizedPart> find_part(ResultCache& cache, const std::string& key, double effort,
                                       const GraphPtr& canonical, const SuperoptimizeOptions& options,
                                       const Deadline& deadline) {
  const auto entry = cache.find(kKind, key);
  if (!entry || entry->effort < effort) return std::nullopt;
  const Target& target = *options.search.target;
  try {
    const Json json = Json::parse(entry->value);
    std::vector<GraphPtr> graphs;
    for (const Json& graph : json.at("graphs")) graphs.push_back(graph_of(graph, *canonical, target));
    OptimizedPart part;
    prove_cheapest(canonical, graphs, options, deadline, part);
    if (part.unproved > 0) throw std::invalid_argument("a graph that differs");
    part.candidates.push_back(as_candidate(canonical, target));
    std::stable_sort(part.candidates.begin(), part.candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return cheaper(a.cost, b.cost); });
    part.unproved = json.at("unproved");
    part.unproved_reason = json.at("unproved_reason");
    part.statistics = statistics_of(json.at("statistics"));
    part.stop_reason = json.at("exhausted") ? StopReason::Exhausted : StopReason::TimeLimit;
    const std::string known = json.at("left_out");
    part.left_out = known + (known.empty() || part.left_out.empty() ? "" : "; ") + part.left_out;
    part.cached_at = entry->created;
    return part;
  } catch (const std::exception&) {
    cache.forget(kKind, key);
    return std::nullopt;
  }
}

void store_part(ResultCache& cache, const std::string& key, double effort, const OptimizedPart& part,
                const GraphPtr& canonical, bool interrupted) {
  const bool complete = part.stop_reason == StopReason::Exhausted && !part.cut;
  if (part.stop_reason == StopReason::Interrupted || (interrupted && !complete)) return;
  Json json{{"graphs", Json::array()},
            {"unproved", part.unproved},
            {"unproved_reason", part.unproved_reason},
            {"statistics", statistics_json(part.statistics)},
            {"exhausted", part.stop_reason == StopReason::Exhausted},
            {"left_out", part.left_out}};
  for (const Candidate& candidate : part.candidates) {
    if (candidate.graph != canonical) json["graphs"].push_back(print(*candidate.graph));
  }
  cache.store(kKind, key, json.dump(), complete ? kExhaustive : effort);
}

}  // namespace strata
