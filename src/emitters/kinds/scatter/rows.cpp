// The scatter emitter that writes each row of the output once.
#include "emitters/kinds/scatter/rows.h"

#include <fmt/format.h>

#include <cmath>

#include "emitters/elemental/scalar_operators.h"
#include "emitters/kinds/combiners.h"
#include "emitters/kinds/in_place.h"
#include "indexing/thread_maps.h"

namespace strata::emitters {
namespace {

using hlo::ElementType;
using indexing::ceil_div;

constexpr int kThreads = 256;
constexpr int kRowsThreads = 128;     // of the last kernel: measured on an H200 (docs/benchmarks-emitters.md)
constexpr int kTallyThreads = 512;    // of blocks that count before they add up
constexpr int kStartsThreads = 1024;  // of blocks that add up what their rows need
constexpr int64_t kMaxPositions = (int64_t{1} << 31) - 1;  // temporaries are s32

/// What a scatter costs, in microseconds, by a model.
struct Costs {
  double atomics = 0, rows = 0;
};

Costs costs_of(const Fusion& fusion, const ScatterRowsPlan& plan, const RowCombination& combination, size_t launches) {
  const hlo::Computation& computation = fusion.computation();
  const ScatterRows& shape = plan.shape;
  double out = 0, operand = 0, updates = 0;
  for (size_t i = 0; i < shape.operands.size(); ++i) {
    const hlo::Instruction& from = computation[shape.operands[i]];
    const double bytes = static_cast<double>(from.shape.element_count()) * hlo::byte_width(from.shape.type);
    out += bytes;
    if (from.opcode == hlo::Opcode::Parameter) operand += bytes;
    updates += static_cast<double>(shape.count) * static_cast<double>(shape.window) * hlo::byte_width(from.shape.type);
  }
  const auto rows = static_cast<double>(shape.rows), count = static_cast<double>(shape.count);
  const double touched = std::min(out, updates);
  Costs costs;
  const Target& target = fusion.target;
  // Copies and fills come before, with which no kernel overlaps.
  const double launch = 1e6 * target.rates.kernel, bandwidth = 1e-6 * target.rates.copy_bandwidth;
  double atomics = (updates + 2 * touched) / bandwidth;
  if (!combination.replaces && plan.index != RowIndex::Inverse) {
    const ElementType type = computation[shape.operands[0]].shape.type;
    atomics =
        std::max(atomics, 1e6 * count * static_cast<double>(shape.window) /
                              atomics_rate(target, combination.name, type, std::min(plan.vector, plan.chunk_vector)));
  }
  costs.atomics = 2 * launch + (operand + out) / bandwidth + atomics;
  const double index_bytes = plan.index == RowIndex::Counted  ? 16 * rows + 48 * count
                             : plan.index == RowIndex::Sorted ? 16 * rows + 12 * count
                                                              : 8 * rows + 36 * count;
  costs.rows = static_cast<double>(launches + 1) * launch + (operand + out + updates + index_bytes) / bandwidth;
  return costs;
}

std::string text_of(const Costs& costs) {
  return fmt::format("{:.0f} µs by rows, {:.0f} µs in place, by a model", costs.rows, costs.atomics);
}

/// Whether the other emitter is better.
bool is_better_in_place(const Fusion& fusion, const ScatterRowsPlan& plan, const RowCombination& combination,
                        const Costs& costs) {
  const ElementType type = fusion.computation()[plan.shape.operands[0]].shape.type;
  // Sums of narrow floats that take many updates would be rounded by each.
  const bool rounds = combination.name && (*combination.name == Combiner::Add || *combination.name == Combiner::Mul) &&
                      hlo::is_float(type) && hlo::byte_width(type) < 4;
  return costs.rows > costs.atomics && !(rounds && plan.shape.count >= 4 * plan.shape.rows);
}

/// Whether rows take many updates on average.
bool is_crowded(const ScatterRows& shape) { return shape.count >= 8 * shape.rows; }

/// Whether the GPU has enough threads in flight where each takes the updates of one vector of a row, one after the
/// other.
bool rows_fill(const ScatterRows& shape, const Fusion& fusion) {
  const ElementType type = fusion.computation()[shape.operands[0]].shape.type;
  const int64_t vector = std::min<int64_t>(std::max(16 / hlo::byte_width(type), 1), shape.output_run);
  const int64_t threads = int64_t{fusion.target.multiprocessors} * fusion.target.threads_per_multiprocessor;
  return shape.rows * (shape.window / std::max<int64_t>(vector, 1)) >= threads;
}

/// Slots of a row: enough for random indices, so that lists are not needed, but no more than half as many bytes as the
/// arrays have.
int64_t slots_of(const ScatterRowsPlan& plan, int64_t array_bytes) {
  const double rows = static_cast<double>(plan.shape.rows);
  const int64_t most = likely_most(static_cast<double>(plan.shape.count) / rows, rows);
  const int64_t slots = std::min(most, array_bytes / 2 / (4 * plan.shape.rows));
  if (plan.chunk > 0 && slots > plan.chunk) return plan.chunk * ceil_div(slots, plan.chunk);
  return std::max<int64_t>(2, 2 * ceil_div(slots, 2));
}

/// The chunks into which long lists are cut: about the root of the longest possible list, so that neither chunks nor
/// what combines them are long.
void choose_chunks(ScatterRowsPlan& plan, const Fusion& fusion) {
  const ScatterRows& shape = plan.shape;
  const int64_t of_chunk = std::max<int64_t>(shape.window / plan.chunk_vector, 1);  // threads
  const bool complex = hlo::is_complex(fusion.computation()[shape.operands[0]].shape.type);
  const bool crowded = is_crowded(shape);
  plan.chunk = 4;
  if (plan.index == RowIndex::Counted && !complex && kThreads % of_chunk == 0 && kThreads / of_chunk <= 32) {
    plan.chunk_groups = kThreads / of_chunk;
    while (plan.chunk < 512 && plan.chunk * plan.chunk * 4 <= shape.count) plan.chunk *= 2;
    // Two for slots at least, and enough for all multiprocessors.
    const int64_t least = std::min<int64_t>(plan.chunk, plan.chunk_batch * plan.chunk_groups);
    const auto is_long = [&](int64_t chunk) {
      return 2 * chunk > shape.count / shape.rows || shape.count / chunk < 4 * fusion.target.multiprocessors;
    };
    while (crowded && plan.chunk > least && is_long(plan.chunk)) plan.chunk /= 2;
    plan.longest = crowded ? 2 * plan.chunk : std::max<int64_t>(plan.chunk / 4, 4);
    return;
  }
  while (plan.chunk < 512 && plan.chunk * plan.chunk * 16 < shape.count) plan.chunk *= 2;
  plan.longest = 2 * plan.chunk;
  const int64_t threads = int64_t{1024} * fusion.target.multiprocessors;
  while (crowded && plan.chunk > 16 && shape.count / plan.chunk * of_chunk < threads) {
    plan.chunk /= 2;
  }
}

ScatterRowsPlan choose(const Fusion& fusion, ScatterRows shape, const RowCombination& combination) {
  const auto& attributes = fusion.computation()[shape.scatter].as<hlo::ScatterAttributes>();
  ScatterRowsPlan plan;
  plan.shape = std::move(shape);
  plan.replaces = combination.replaces;
  const bool crowded = is_crowded(plan.shape);
  if (combination.replaces || attributes.unique_indices) {
    plan.index = RowIndex::Inverse;
  } else if (attributes.indices_are_sorted && (!crowded || rows_fill(plan.shape, fusion))) {
    plan.index = RowIndex::Sorted;
  }
  choose_row_widths(plan, fusion);
  if (combination.name && plan.index != RowIndex::Inverse) choose_chunks(plan, fusion);
  if (plan.index == RowIndex::Sorted) {
    plan.first = 2;
    plan.record = 2;
  } else if (plan.index == RowIndex::Counted) {
    int64_t bytes = 0;
    for (const hlo::InstructionId id : plan.shape.operands) {
      const hlo::Shape& operand = fusion.computation()[id].shape;
      bytes += hlo::byte_width(operand.type) * (operand.element_count() + plan.shape.count * plan.shape.window);
    }
    plan.slots = slots_of(plan, bytes);
    plan.first = plan.slots_are_cut() || plan.batch > 4 ? 0 : 2;
    while (plan.record < 16 && plan.shape.rows * plan.record < (1 << 14)) plan.record *= 2;
    // Where all have slots, blocks that have nothing to do are few.
    if (plan.shape.count >= (1 << 16)) plan.windows_per_thread = crowded ? 8 : 4;
    // A block that has two windows a row and more spares half the atomics.
    const int64_t windows =
        std::clamp<int64_t>(ceil_div(plan.shape.count, kTallyThreads * fusion.target.multiprocessors), 1, 16);
    if (crowded && plan.shape.rows <= 4096 && windows * kTallyThreads >= 2 * plan.shape.rows) plan.tally = windows;
  }
  return plan;
}

hlo::Shape integers(int64_t count, ElementType type = ElementType::S32) {
  return hlo::array_shape(type, {std::max<int64_t>(count, 1)});
}

using Emitter = Result<void> (*)(const RowsEmission&, size_t);

struct Kernels {
  std::vector<Launch> launches;
  std::vector<Emitter> emitters;

  /// A kernel with a thread for each item.
  void add(const char* name, int64_t items, Emitter emitter, int threads = kThreads, int min_blocks = 0) {
    launches.push_back({name, ceil_div(items, threads), threads, 0, min_blocks});
    emitters.push_back(emitter);
  }
};

/// How many blocks of a kernel a multiprocessor shall hold whose threads have so many bytes on their way. Left to
/// itself the assembler takes few registers, and lets one load wait for the other's use; so it is told how many there
/// are. 0 where more is computed than this knows.
int blocks_held(const Fusion& fusion, const ScatterRowsPlan& plan, int64_t bytes, int threads) {
  const hlo::Instruction& it = fusion.computation()[plan.shape.scatter];
  const bool is_simple =
      fusion.module[it.called[0]].instructions.size() <= 8 && fusion.computation().instructions.size() <= 32;
  constexpr int64_t kOthers = 24;  // registers of addresses and the like
  const int64_t registers = indexing::ceil_div(kOthers + bytes / 4, int64_t{8}) * 8;
  if (!is_simple || registers > 128) return 0;
  return std::min(static_cast<int>(fusion.target.registers / (registers * threads)),
                  fusion.target.threads_per_multiprocessor / threads);
}

Kernels kernels_of(const Fusion& fusion, const ScatterRowsPlan& plan) {
  const hlo::Computation& computation = fusion.computation();
  const int64_t elements = computation[plan.shape.operands[0]].shape.element_count();
  int64_t bytes = 0;  // of an element of each array
  for (const hlo::InstructionId id : plan.shape.operands) bytes += hlo::byte_width(computation[id].shape.type);
  const ScatterRows& shape = plan.shape;
  Kernels kernels;
  switch (plan.index) {
    case RowIndex::Inverse:
      kernels.add("inverse", shape.count, emit_inverse);
      break;
    case RowIndex::Sorted:
      kernels.add("ends", shape.count, emit_ends);
      break;
    case RowIndex::Counted:
      kernels.add("count", ceil_div(shape.count, std::max<int64_t>(plan.tally, 1)), emit_count,
                  plan.tally > 0 ? kTallyThreads : kThreads);
      kernels.add("starts", std::min(shape.rows, shape.count), emit_starts, kStartsThreads);
      kernels.add("order", ceil_div(shape.count, plan.windows_per_thread), emit_order);
      break;
  }
  if (plan.chunks() > 0) {
    kernels.add("chunks", plan.chunks() * (shape.window / plan.chunk_vector) * plan.chunk_groups, emit_chunks, kThreads,
                blocks_held(fusion, plan, plan.chunk_vector * bytes * (1 + plan.chunk_batch), kThreads));
  }
  const int64_t together = plan.unroll * plan.vector * bytes * (1 + (plan.first > 0 ? plan.first : plan.batch));
  kernels.add("rows", ceil_div(elements, plan.vector * plan.unroll), emit_rows, kRowsThreads,
              blocks_held(fusion, plan, together, kRowsThreads));
  return kernels;
}

void add_temporaries(Decision& decision, const ScatterRowsPlan& plan, ElementType type) {
  const ScatterRows& shape = plan.shape;
  const ElementType record = plan.index == RowIndex::Counted ? ElementType::S64 : ElementType::S32;
  decision.temporaries = {integers(plan.records() * plan.record, record)};
  if (plan.index == RowIndex::Counted) {
    for (const int64_t count : {shape.rows * plan.slots, shape.count, shape.rows, plan.positions()}) {
      decision.temporaries.push_back(integers(count));
    }
  }
  if (plan.chunks() > 0) {
    decision.temporaries.push_back(hlo::array_shape(wide_type(type), {plan.chunks() * shape.window}));
  }
  Preparation zero;
  zero.kind = Preparation::Kind::Fill;
  zero.value = hlo::Literal(hlo::array_shape(record, {}));
  zero.temporary = true;
  decision.preparations = {zero};
}

const char* text_of(RowIndex index) {
  switch (index) {
    case RowIndex::Inverse:
      return "one update a row";
    case RowIndex::Sorted:
      return "runs of equal indices";
    case RowIndex::Counted:
      break;
  }
  return "slots of each row, and lists of what is more";
}

Decision decide(const ScatterRowsPlan& plan, const RowCombination& combination, const Kernels& kernels) {
  Decision decision;
  decision.emitter = "scatter rows";
  decision.reason = "windows are the same or disjoint: each row is read, combined with its updates, and written once";
  decision.launches = kernels.launches;
  decision.heroes = {plan.shape.scatter};
  const std::string name = plan.replaces      ? "replaces"
                           : combination.name ? stringifyCombiner(*combination.name).str()
                                              : "one update after the other";
  decision.details = {
      {"rows", fmt::format("{}, {} windows of {}", plan.shape.rows, plan.shape.count, plan.shape.window)},
      {"found by", text_of(plan.index)},
      {"combines", name},
      {"vector", std::to_string(plan.vector)},
      {"unroll", fmt::format("{} vectors, {} updates before others are looked for, {} of those", plan.unroll,
                             plan.first, plan.batch)}};
  if (plan.index == RowIndex::Counted) decision.details.emplace_back("slots", fmt::format("{} a row", plan.slots));
  if (plan.chunks() > 0) {
    decision.details.emplace_back("chunks",
                                  fmt::format("of {}, of lists longer than {}", plan.chunk,
                                              plan.index == RowIndex::Sorted ? plan.chunk : plan.longest_list()));
    if (plan.chunk_groups > 1) {
      decision.details.emplace_back("groups", fmt::format("{} of threads share a chunk", plan.chunk_groups));
    }
  }
  return decision;
}

Result<Plan> make_plan(const Fusion& fusion, bool at_any_cost) {
  const hlo::Computation& computation = fusion.computation();
  const hlo::Instruction& root = computation.root_instruction();
  if (root.opcode != hlo::Opcode::Scatter) return unsupported("the root is no scatter");
  STRATA_TRY(ScatterRows shape, scatter_rows(fusion));
  const int64_t elements = computation[shape.operands[0]].shape.element_count();
  if (elements == 0 || shape.count == 0 || shape.window == 0) return unsupported("nothing is scattered");
  STRATA_TRY(const RowCombination combination, row_combination(fusion));
  const ScatterRowsPlan made = choose(fusion, std::move(shape), combination);
  if (std::max({made.positions(), made.records() * made.record, made.shape.rows * made.slots}) > kMaxPositions) {
    return unsupported("{} windows and {} rows are more than 32 bits count", made.shape.count, made.shape.rows);
  }
  const Kernels kernels = kernels_of(fusion, made);
  for (const Launch& launch : kernels.launches) {
    if (launch.blocks > kMaxPositions) return unsupported("{} blocks are too many", launch.blocks);
  }
  const Costs costs = costs_of(fusion, made, combination, kernels.launches.size());
  if (!at_any_cost && is_better_in_place(fusion, made, combination, costs)) return unsupported("{}", text_of(costs));
  Plan plan;
  plan.decision = decide(made, combination, kernels);
  plan.decision.details.emplace_back("costs", text_of(costs));
  plan.decision.microseconds = costs.rows;
  add_temporaries(plan.decision, made, computation[made.shape.operands[0]].shape.type);
  plan.emit = [fusion, made, emitters = kernels.emitters, decision = plan.decision](
                  mlir::ModuleOp target, const std::string& name) -> Result<void> {
    indexing::PartitionOptions options;
    options.heroes = decision.heroes;
    STRATA_TRY(FusionFunctions functions, FusionFunctions::create(target, fusion.module, fusion.id, options));
    RowsEmission emission{functions, made, decision, name, {}};
    if (!made.replaces) {
      const hlo::ComputationId called = functions.computation()[made.shape.scatter].called[0];
      STRATA_TRY(emission.combine, functions.scalar_function(called, /*wide=*/true));
    }
    for (size_t i = 0; i < emitters.size(); ++i) STRATA_CHECK(emitters[i](emission, i));
    return {};
  };
  return plan;
}

}  // namespace

Result<RowCombination> row_combination(const Fusion& fusion) {
  const hlo::Instruction& it = fusion.computation().root_instruction();
  const hlo::Computation& body = fusion.module[it.called[0]];
  const size_t arrays = it.operands.size() / 2;
  for (size_t i = 0; i < body.parameters.size(); ++i) {
    const ElementType type = fusion.computation().operand_shape(it, static_cast<int>(i % arrays)).type;
    if (body[body.parameters[i]].shape.type != type)
      return unsupported("{} combines elements of another type", it.name);
  }
  RowCombination result;
  result.replaces = arrays == 1 && body.root == body.parameters[1];
  if (arrays == 1 && !result.replaces) result.name = named_combiner(fusion.module, it.called[0]);
  return result;
}

int64_t likely_most(double share, double rows) {
  if (share > 64) return static_cast<int64_t>(std::ceil(share + 4 * std::sqrt(share)));
  double probability = std::exp(-share), tail = 1 - probability;
  int64_t most = 0;
  while (tail * rows > 0.5 && most < 256) {
    probability *= share / static_cast<double>(++most);
    tail -= probability;
  }
  return most;
}

void choose_row_widths(ScatterRowsPlan& plan, const Fusion& fusion) {
  const ScatterRows& shape = plan.shape;
  int64_t bytes = 1;
  bool complex = false;
  for (const hlo::InstructionId id : shape.operands) {
    const ElementType type = fusion.computation()[id].shape.type;
    bytes = std::max<int64_t>(bytes, hlo::byte_width(type));
    complex |= hlo::is_complex(type);
  }
  const int64_t widest = complex ? 1 : std::max<int64_t>(16 / bytes, 1);
  plan.vector = std::min(widest, shape.output_run);
  plan.chunk_vector = std::min(widest, shape.update_run);
  const int64_t elements = fusion.computation()[shape.operands[0]].shape.element_count();
  const auto fits = [&](int64_t unroll) {
    const int64_t tile = unroll * plan.vector * kRowsThreads;
    return elements % tile == 0 && elements / tile >= 4 * fusion.target.multiprocessors;
  };
  if (fits(2)) plan.unroll = 2;
  // Registers of what few rows need must not be more than those of what all do.
  const ElementType type = fusion.computation()[shape.operands[0]].shape.type;
  plan.chunk_batch = 4;
  plan.batch = wide_type(type) == type ? 4 : 2;
  // Lists of several entries want loads of several on their way; others want those of several rows.
  if (shape.count >= 2 * shape.rows) {
    plan.batch = 8;
    plan.chunk_batch = 8;
    plan.unroll = 1;
  }
}

Result<Plan> plan_scatter_rows(const Fusion& fusion) { return make_plan(fusion, false); }
Result<Plan> plan_scatter_rows_at_any_cost(const Fusion& fusion) { return make_plan(fusion, true); }

}  // namespace strata::emitters
