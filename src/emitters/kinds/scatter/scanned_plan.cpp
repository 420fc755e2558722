// Whether each block of a scatter looks through all indices, and how many rows a block has.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "emitters/elemental/scalar_operators.h"
#include "emitters/kinds/scatter/in_place_plan.h"
#include "emitters/kinds/scatter/scanned.h"
#include "hlo/indexing/evaluations.h"
#include "indexing/memory_access.h"

namespace strata::emitters {
namespace {

using indexing::ceil_div;

constexpr int64_t kMostWindows = 1 << 16;  ///< 16 bits number them; shared memory holds fewer
/// Times the model's time, where updates are more than rows: those in the middle of an image get most updates of its
/// patches, and the block that has them is waited for. By 14,700 of them on 50 × 50 places it takes 33 µs, where
/// atomics take 13 (H200, 2026-11-30).
constexpr double kUneven = 1.5;

/// Instructions that a window's index takes of one thread; none where it is not computed but by reductions and the
/// like, which no block shall do again.
std::optional<double> index_operations(const hlo::Computation& computation, hlo::InstructionId indices) {
  std::vector<bool> seen(computation.instructions.size());
  std::vector<hlo::InstructionId> open{indices};
  double operations = 0;
  while (!open.empty()) {
    const hlo::InstructionId id = open.back();
    open.pop_back();
    if (seen[static_cast<size_t>(id)]) continue;
    seen[static_cast<size_t>(id)] = true;
    const hlo::Instruction& it = computation[id];
    if (!it.called.empty() || it.opcode == hlo::Opcode::Dot || indexing::is_long_reduction(computation, it)) {
      return std::nullopt;
    }
    ++operations;
    open.insert(open.end(), it.operands.begin(), it.operands.end());
  }
  return operations;
}

/// What the model knows of a scatter.
struct Facts {
  double bytes = 0;             ///< of operands that are read, updates and results
  double index_bytes = 0;       ///< of the indices, as each block reads them
  double index_operations = 0;  ///< of a window
  int64_t wide_bytes = 4;       ///< of an element while it is combined
  const Target* target = nullptr;
};

Facts facts_of(const Fusion& fusion, const ScatterRows& shape, double operations) {
  const hlo::Computation& computation = fusion.computation();
  Facts facts;
  for (const hlo::InstructionId id : shape.operands) {
    const hlo::Instruction& from = computation[id];
    const auto bytes = static_cast<double>(hlo::byte_width(from.shape.type));
    const auto elements = static_cast<double>(from.shape.element_count());
    facts.bytes += bytes * elements * (from.opcode == hlo::Opcode::Parameter ? 2 : 1);
    facts.bytes += bytes * static_cast<double>(shape.count) * static_cast<double>(shape.window);
    facts.wide_bytes = hlo::byte_width(wide_type(from.shape.type));
  }
  const hlo::Shape& indices = computation[shape.indices].shape;
  facts.index_bytes = static_cast<double>(indices.element_count()) * hlo::byte_width(indices.type);
  facts.index_operations = operations;
  facts.target = &fusion.target;
  return facts;
}

int64_t shared_bytes_of(const ScannedPlan& plan, int64_t wide_bytes) {
  const int64_t integers = plan.threads * plan.thread_windows() + plan.shape().count + 2 * plan.block_rows +
                           2 * plan.threads / indexing::kWarpSize + 4;
  const int64_t meeting =
      plan.longest == 0 ? 0 : plan.thread_groups() * plan.part_vectors() * plan.rows_plan.vector * wide_bytes;
  constexpr int64_t kPadding = 6 * 16;  // of the tiles
  return 4 * integers + meeting + kPadding;
}

/// Seconds that a plan takes, or nothing where a block has not enough shared memory. Bytes and instructions of all
/// blocks come beside each other; what a thread of a block waits for comes once in each round of blocks.
std::optional<double> seconds_of(const ScannedPlan& plan, const Facts& facts) {
  constexpr double kMark = 24, kRead = 12;  // instructions of a window: marking it, and both times that it is read
  constexpr double kBlock = 120;            // of a thread, beside its windows: sums over the block, and barriers
  constexpr double kEntry = 5;              // of a row's thread, for each entry of the block's list
  constexpr double kVector = 40;            // cycles of a vector: its row, where that begins, its store
  constexpr double kOfVector = 60;          // instructions of the same, and of its elements
  constexpr double kCycles = 4;             // of Rates::dependent_operation
  const Target& target = *facts.target;
  const Rates& rates = target.rates;
  const int64_t shared = shared_bytes_of(plan, facts.wide_bytes);
  if (shared > target.shared_memory) return std::nullopt;
  const int64_t each = std::min({int64_t{target.threads_per_multiprocessor} / plan.threads,
                                 target.multiprocessor_shared_memory / (shared + target.reserved_shared_memory),
                                 int64_t{target.blocks_per_multiprocessor}});
  const ScatterRows& shape = plan.shape();
  const auto blocks = static_cast<double>(plan.blocks());
  const auto windows = static_cast<double>(plan.thread_windows()), threads = static_cast<double>(plan.threads);
  const double share = static_cast<double>(shape.count) / static_cast<double>(shape.rows);
  const double entries = share * static_cast<double>(plan.block_rows);
  const double of_window = kMark + facts.index_operations + kRead;
  const double row_warps = static_cast<double>(ceil_div(plan.block_rows, indexing::kWarpSize) * indexing::kWarpSize);
  const auto vectors = static_cast<double>(ceil_div(plan.block_rows * plan.part_vectors(), plan.threads));
  const double operations =
      threads * (windows * of_window + kBlock + vectors * kOfVector) + row_warps * entries * kEntry;
  // Multiprocessors that have a block more than others are waited for.
  const auto most_blocks = static_cast<double>(ceil_div(plan.blocks(), int64_t{target.multiprocessors}));
  // A multiply-add counts two, and half of what the multiprocessors can issue is what such code does.
  const double issued = most_blocks * target.multiprocessors * operations / (rates.scalar_rate / 4);
  const double bytes = std::max(facts.bytes / rates.copy_bandwidth,
                                most_blocks * facts.bytes / blocks / rates.multiprocessor_bandwidth) +
                       blocks * facts.index_bytes / rates.l2_bandwidth;
  const double one_cycle = rates.dependent_operation / kCycles;
  const double chain =
      2 * rates.load_latency + (windows * of_window + kBlock * kCycles + entries * 2 * kEntry) * one_cycle;
  const auto rounds = static_cast<double>(ceil_div(plan.blocks(), each * target.multiprocessors));
  // A warp waits for the updates of each vector of its threads that has some, or for those of the row with the most,
  // where indices are at random.
  const auto batch = static_cast<double>(std::max<int64_t>(plan.rows_plan.batch, 1));
  const double warp_rows = std::max(1.0, indexing::kWarpSize / static_cast<double>(plan.part_vectors()));
  const double waits = vectors * (1 - std::exp(-share * warp_rows)) * std::max(1.0, share / batch);
  const double most = std::ceil(static_cast<double>(likely_most(share, static_cast<double>(shape.rows))) / batch);
  const double updates = std::max(waits, most) * rates.load_latency;
  return rates.kernel + std::max(bytes, issued) + rounds * (chain + vectors * kVector * one_cycle + updates);
}

/// How many rows a block may have: powers of two, and as many as give each multiprocessor the same number of blocks.
std::vector<int64_t> row_candidates(int64_t rows, int64_t threads, const Target& target) {
  std::vector<int64_t> candidates;
  for (int64_t each = 1; each < 2 * rows; each *= 2) candidates.push_back(ceil_div(rows, ceil_div(rows, each)));
  for (int64_t blocks = 1; blocks <= 8; ++blocks) candidates.push_back(ceil_div(rows, blocks * target.multiprocessors));
  std::erase_if(candidates, [&](int64_t each) { return each >= threads; });
  return candidates;
}

/// The plan with the least time, of those whose blocks have so many rows and threads.
std::optional<std::pair<ScannedPlan, double>> choose_scan(const ScatterRowsPlan& rows_plan,
                                                          const RowCombination& combination, const Facts& facts) {
  std::optional<std::pair<ScannedPlan, double>> best;
  const double share = static_cast<double>(rows_plan.shape.count) / static_cast<double>(rows_plan.shape.rows);
  const int64_t most = likely_most(share, static_cast<double>(rows_plan.shape.rows));
  for (int64_t threads = 128; threads <= 512; threads *= 2) {
    for (const int64_t block_rows : row_candidates(rows_plan.shape.rows, threads, *facts.target)) {
      for (int64_t parts = 1; parts <= 64; parts *= 2) {
        ScannedPlan plan{rows_plan};
        plan.threads = threads;
        plan.block_rows = block_rows;
        plan.parts = parts;
        // Parts of fewer vectors than half of the threads only look through the indices once more.
        if (parts > 1 && block_rows * plan.row_vectors() < parts * threads / 2) break;
        if (parts > plan.row_vectors()) break;
        if (combination.name && plan.thread_groups() >= 2) {
          plan.longest = std::max({4 * rows_plan.batch, 2 * most, plan.thread_groups()});
        }
        const std::optional<double> seconds = seconds_of(plan, facts);
        if (seconds && (!best || *seconds < best->second)) best = {plan, *seconds};
      }
    }
  }
  return best;
}

/// The least time of the other emitters, by their models; without copies before them, which a caller that gives the
/// operand away saves (written_over.cpp). This emitter reads and writes all of it in any case.
double microseconds_otherwise(const Fusion& fusion) {
  const hlo::Computation& computation = fusion.computation();
  const Rates& rates = fusion.target.rates;
  double least = std::numeric_limits<double>::infinity();
  for (const Planner planner : {plan_scatter, plan_scatter_copies, plan_scatter_rows_at_any_cost}) {
    const Result<Plan> plan = planner(fusion);
    if (!plan || !plan->decision.microseconds) continue;
    double microseconds = *plan->decision.microseconds;
    for (const Preparation& one : plan->decision.preparations) {
      if (one.kind != Preparation::Kind::Copy) continue;
      const hlo::Shape& shape = computation[computation.parameters[static_cast<size_t>(one.input)]].shape;
      const auto bytes = static_cast<double>(shape.element_count() * hlo::byte_width(shape.type));
      microseconds -= 1e6 * rates.kernel + copy_microseconds(fusion.target, bytes);
    }
    least = std::min(least, microseconds);
  }
  return least;
}

Decision decide(const ScannedPlan& plan, const RowCombination& combination, double microseconds) {
  const ScatterRows& shape = plan.shape();
  Decision decision;
  decision.emitter = "scatter scan";
  decision.reason = "indices are few: each block looks through all of them for the windows of its rows";
  decision.launch().threads = static_cast<int>(plan.threads);
  decision.launch().blocks = plan.blocks();
  decision.heroes = {shape.scatter};
  decision.microseconds = microseconds;
  decision.details = {{"rows", fmt::format("{}, {} windows of {}", shape.rows, shape.count, shape.window)},
                      {"of a block", fmt::format("{} rows, in {} parts", plan.block_rows, plan.parts)},
                      {"combines", plan.rows_plan.replaces ? "replaces"
                                   : combination.name      ? stringifyCombiner(*combination.name).str()
                                                           : "one update after the other"},
                      {"vector", std::to_string(plan.rows_plan.vector)}};
  if (plan.longest > 0) {
    decision.details.emplace_back(
        "groups", fmt::format("{} of threads share rows of more than {} updates", plan.thread_groups(), plan.longest));
  }
  return decision;
}

Result<Plan> make_plan(const Fusion& fusion, bool at_any_cost) {
  const hlo::Computation& computation = fusion.computation();
  if (computation.root_instruction().opcode != hlo::Opcode::Scatter) return unsupported("the root is no scatter");
  ScatterRowsPlan rows_plan;
  STRATA_TRY(rows_plan.shape, scatter_rows(fusion));
  const ScatterRows& shape = rows_plan.shape;
  if (shape.rows == 0 || shape.width == 0 || shape.count == 0 || shape.window == 0) {
    return unsupported("nothing is scattered");
  }
  if (shape.count > kMostWindows) return unsupported("{} windows are many for each block to look at", shape.count);
  STRATA_TRY(const RowCombination combination, row_combination(fusion));
  rows_plan.replaces = combination.replaces;
  choose_row_widths(rows_plan, fusion);
  const std::optional<double> operations = index_operations(computation, shape.indices);
  if (!operations) return unsupported("each block would compute the indices again");
  const int64_t together = shape.output_run * hlo::byte_width(computation[shape.operands[0]].shape.type);
  constexpr int64_t kSector = 32;
  if (!at_any_cost && !shape.rows_are_outermost && together < kSector) {
    return unsupported("{} bytes of a row lie together", together);
  }
  const auto chosen = choose_scan(rows_plan, combination, facts_of(fusion, shape, *operations));
  if (!chosen) return unsupported("{} indices do not fit into shared memory", shape.count);
  const bool combines = !rows_plan.replaces && shape.count > shape.rows;
  const double microseconds = 1e6 * chosen->second * (combines ? kUneven : 1);
  std::string costs = fmt::format("{:.1f} µs", microseconds);
  if (!at_any_cost) {
    const double instead = microseconds_otherwise(fusion);
    costs += fmt::format(" by looking through indices, {:.1f} µs otherwise, by a model", instead);
    if (microseconds >= instead) return unsupported("{}", costs);
  }
  Plan plan;
  plan.decision = decide(chosen->first, combination, microseconds);
  plan.decision.details.emplace_back("costs", costs);
  plan.emit = [fusion, made = chosen->first, decision = plan.decision](mlir::ModuleOp target,
                                                                       const std::string& name) -> Result<void> {
    indexing::PartitionOptions options;
    options.heroes = decision.heroes;
    STRATA_TRY(FusionFunctions functions, FusionFunctions::create(target, fusion.module, fusion.id, options));
    RowsEmission emission{functions, made.rows_plan, decision, name, {}};
    if (!made.rows_plan.replaces) {
      const hlo::ComputationId called = functions.computation()[made.shape().scatter].called[0];
      STRATA_TRY(emission.combine, functions.scalar_function(called, /*wide=*/true));
    }
    return emit_scanned(emission, made);
  };
  return plan;
}

}  // namespace

Result<Plan> plan_scatter_scan(const Fusion& fusion) { return make_plan(fusion, false); }
Result<Plan> plan_scatter_scan_at_any_cost(const Fusion& fusion) { return make_plan(fusion, true); }

}  // namespace strata::emitters
