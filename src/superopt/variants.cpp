#include "superopt/variants.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ir/validate.h"
#include "ir/views.h"
#include "superopt/codegen/block_memory.h"
#include "superopt/codegen/known_schedules.h"
#include "superopt/in_parallel.h"
#include "superopt/optimize/epilogue.h"
#include "superopt/optimize/norms.h"
#include "superopt/optimize/retile.h"
#include "superopt/optimize/thread_graphs.h"

namespace strata {
namespace {

constexpr int64_t kThreadsPerBlock = 128;
/// Elements of a tile along the loop: what fits the registers of a warp beside a product's results.
constexpr std::array<int64_t, 4> kLoopExtents{64, 32, 16, 128};
/// How many of the search's graphs are looked at, cheapest first.
constexpr size_t kMostFound = 256;
/// Variants of one kind before others' turn.
constexpr int kOfOneKind = 2;

struct Variant {
  GraphPtr graph;
  CostEstimate cost;
  std::vector<std::vector<int64_t>> grids;
};

std::vector<std::vector<int64_t>> grids_of(const Graph& graph) {
  std::vector<std::vector<int64_t>> grids;
  for (const Operation& op : graph.operations()) {
    if (op.body) grids.push_back(op.body->launch().grid);
  }
  return grids;
}

/// Whether code can be generated of every block graph: with its values in shared memory, or in registers.
bool has_code(const Graph& graph, const Passes& passes, KnownSchedules& schedules) {
  const Target& target = schedules.target();
  std::vector<MemoryView> lies;  // once it is asked for
  const auto in_registers = [&](const Operation& op) {
    if (!passes.registers || !passes.schedules) return false;
    if (lies.empty()) lies = memory_views(graph);
    const std::vector<BlockSchedule>& offered = schedules.of(op, operand_strides(lies, op));
    return std::any_of(offered.begin(), offered.end(),
                       [&](const BlockSchedule& schedule) { return passes.bulk || !schedule.bulk; });
  };
  return std::all_of(graph.operations().begin(), graph.operations().end(), [&](const Operation& op) {
    return !op.body || shared_memory_bytes(*op.body) <= target.shared_memory || in_registers(op) ||
           plan_block_memory(*op.body, passes.memory_plan).bytes <= target.shared_memory;
  });
}

/// Different ways to cut a graph's loops.
std::vector<GraphPtr> retiled(const GraphPtr& graph, const Passes& passes) {
  if (!passes.finer_loops) return {graph};
  std::vector<GraphPtr> variants;
  for (const int64_t extent : kLoopExtents) {
    const auto one = retile_loops(*graph, extent);
    const GraphPtr& variant = one ? *one : graph;
    const bool known = std::any_of(variants.begin(), variants.end(),
                                   [&](const GraphPtr& other) { return same_structure(*variant, *other); });
    if (!known) variants.push_back(variant);
  }
  return variants;
}

/// Of the graph, with kernels at the ends of blocks, and with norms in them too.
std::vector<GraphPtr> retiled_and_joined(const GraphPtr& graph, const Passes& passes) {
  std::vector<GraphPtr> variants = retiled(graph, passes);
  if (!passes.epilogues) return variants;
  GraphPtr last = graph;
  for (const auto& join : {join_epilogues, join_norms}) {
    const auto joined = join(last);
    if (!joined || *joined == last) continue;
    last = *joined;
    for (GraphPtr& variant : retiled(last, passes)) variants.push_back(std::move(variant));
  }
  return variants;
}

}  // namespace

Result<std::vector<GraphPtr>> best_variants(const std::vector<GraphPtr>& found, const SuperoptimizeOptions& options,
                                            const Deadline& deadline, KnownSchedules& schedules) {
  const size_t count = std::min(found.size(), kMostFound);
  std::vector<Result<std::vector<Variant>>> of_graph(count);
  const auto variants_of = [&](const GraphPtr& found_one) -> Result<std::vector<Variant>> {
    std::vector<Variant> variants;
    for (const GraphPtr& one : retiled_and_joined(found_one, options.passes)) {
      if (deadline.passed() || (deadline.interrupted() && !variants.empty())) break;
      GraphPtr graph = one;
      if (options.passes.thread_graphs) {
        STRATA_TRY(graph, form_thread_graphs(*one, kThreadsPerBlock));
      }
      if (!has_code(*graph, options.passes, schedules)) continue;
      const CostEstimate cost = scheduled_cost(*graph, schedules);
      variants.push_back({graph, cost, grids_of(*graph)});
    }
    return variants;
  };
  std::atomic<size_t> done = 0;
  std::atomic<size_t> made = 0;
  in_parallel(options.search.threads, count, [&](size_t i) {
    // What is there when the user interrupts is enough: its proof needs the time.
    if (deadline.passed() || (deadline.interrupted() && made > 0)) return;
    of_graph[i] = variants_of(found[i]);
    if (of_graph[i]) made += of_graph[i]->size();
    if (options.stage_progress) options.stage_progress("thread graphs", ++done, count);
  });
  std::vector<Variant> variants;
  for (auto& one : of_graph) {
    if (!one) return tl::unexpected(one.error());
    variants.insert(variants.end(), one->begin(), one->end());
  }
  // Equal estimates keep the order of the search, which does not depend on threads.
  std::stable_sort(variants.begin(), variants.end(),
                   [](const Variant& a, const Variant& b) { return cheaper(a.cost, b.cost); });
  std::map<std::vector<std::vector<int64_t>>, int> of_kind;
  std::vector<GraphPtr> first;
  std::vector<GraphPtr> later;
  std::unordered_multimap<uint64_t, GraphPtr> taken;  // by structural_hash
  for (Variant& variant : variants) {
    // Finer loops of graphs that differ in their loops alone are equal.
    const uint64_t hash = variant.graph->structural_hash();
    const auto [begin, end] = taken.equal_range(hash);
    if (std::any_of(begin, end, [&](const auto& one) { return same_structure(*one.second, *variant.graph); })) continue;
    taken.emplace(hash, variant.graph);
    (of_kind[variant.grids]++ < kOfOneKind ? first : later).push_back(std::move(variant.graph));
  }
  first.insert(first.end(), later.begin(), later.end());
  return first;
}

}  // namespace strata
