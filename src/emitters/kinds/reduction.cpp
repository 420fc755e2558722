// Reductions: rows (registers, then lanes of a warp, then shared memory), several short rows a warp, columns; and
// chains of reductions of the same rows with what is computed from them, such as softmax and layer normalisation.
#include <fmt/format.h>

#include <algorithm>

#include "emitters/elemental/scalar_operators.h"
#include "emitters/kinds/plan.h"
#include "emitters/kinds/reduction_kernel.h"
#include "emitters/kinds/reduction_staging.h"
#include "emitters/kinds/reduction_tiling.h"
#include "hlo/element_work.h"
#include "hlo/indexing/evaluations.h"
#include "hlo/indexing/operand_maps.h"
#include "indexing/map_checks.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using indexing::IndexingMap;

constexpr int64_t kLeastElements = 64;  ///< fewer are left to a loop

/// The arrays that are read or written element by element: parameters and outputs.
void consider_arrays(const Fusion& fusion, int64_t elements, ReductionLoad& load) {
  const hlo::Computation& computation = fusion.computation();
  load.element_bytes = 1;
  const auto consider = [&](const hlo::Shape& shape, bool written) {
    if (!shape.is_array() || shape.element_count() * 2 < elements) return;
    load.element_bytes = std::max<int64_t>(load.element_bytes, hlo::byte_width(shape.type));
    load.all_bytes += hlo::byte_width(shape.type);
    if (written) load.store_bytes += hlo::byte_width(shape.type);
  };
  for (const InstructionId id : computation.parameters) consider(computation[id].shape, false);
  const hlo::Shape& root = computation.root_instruction().shape;
  consider(root, true);
  for (const hlo::Shape& one : root.elements) consider(one, true);
}

/// What a thread has of an element: of arrays that lie as what is reduced does, and of those that all rows read.
void consider_rows(const hlo::Computation& computation, const ReductionHeroes& heroes, ReductionLoad& load) {
  const auto registers = [](int64_t bytes) { return std::max<int64_t>(bytes / 4, 1); };
  for (const InstructionId id : staged_parameters(computation, heroes)) {
    const int64_t bytes = hlo::byte_width(computation[id].shape.type);
    load.kept_bytes += bytes;
    load.kept_registers += registers(bytes);
  }
  // Where rows are as many as their elements, numbers of rows count, too.
  for (const InstructionId id : computation.parameters) {
    const hlo::Shape& shape = computation[id].shape;
    if (shape.is_array() && shape.element_count() == heroes.length())
      load.repeated_registers += registers(hlo::byte_width(shape.type));
  }
}

/// What an element of what is reduced takes, and a row.
void consider_work(const Fusion& fusion, const ReductionHeroes& heroes, ReductionLoad& load) {
  const hlo::Computation& computation = fusion.computation();
  const indexing::CountedComputation counted(fusion.module, fusion.id);
  const indexing::Evaluations evaluated = indexing::EvaluationCounts(counted.graph(), heroes.ids()).whole();
  const auto rows = static_cast<double>(std::max<int64_t>(heroes.rows(), 1));
  const double elements = rows * static_cast<double>(heroes.length());
  const auto bytes_of = [](const hlo::Shape& shape) {
    return shape.is_array() ? static_cast<double>(shape.element_count() * hlo::byte_width(shape.type)) : 0;
  };
  for (size_t i = 0; i < evaluated.size(); ++i) {
    const hlo::Instruction& it = computation.instructions[i];
    if (it.opcode == hlo::Opcode::Tuple) continue;
    const bool is_parameter = it.opcode == hlo::Opcode::Parameter;
    const double operations = is_parameter ? 1 : hlo::element_operations(computation, it);
    if (is_parameter) load.moved_bytes += bytes_of(it.shape);
    if (evaluated[i] * 2 < elements) {
      load.row_operations += evaluated[i] / rows * operations;
      continue;
    }
    (is_parameter ? load.loads : load.operations) += evaluated[i] / elements * operations;
    if (is_parameter) load.load_bytes = std::max<int64_t>(load.load_bytes, hlo::byte_width(it.shape.type));
  }
  load.operations += static_cast<double>(heroes.heroes.size());  // combined with the others
  const hlo::Shape& root = computation.root_instruction().shape;
  load.moved_bytes += bytes_of(root);
  for (const hlo::Shape& one : root.elements) load.moved_bytes += bytes_of(one);
}

/// What each output must hold if blocks share it, or nothing if they cannot.
std::optional<std::vector<Preparation>> atomic_preparations(const Fusion& fusion, const ReductionHeroes& heroes,
                                                            const ReductionOutputs& outputs) {
  if (!outputs.bare) return std::nullopt;
  const hlo::Computation& computation = fusion.computation();
  std::vector<Preparation> preparations;
  for (const ReductionHero& hero : heroes.heroes) {
    const hlo::Instruction& it = computation[hero.id];
    if (it.operands.size() != 2 || !named_combiner(fusion.module, it.called[0])) return std::nullopt;
    const hlo::TypeKind kind = hlo::kind(it.shape.type);
    const bool number =
        kind == hlo::TypeKind::Float || kind == hlo::TypeKind::Signed || kind == hlo::TypeKind::Unsigned;
    if (!number || hlo::bit_width(it.shape.type) < 32) return std::nullopt;  // narrow sums would be rounded each time
    if (computation[it.operands[1]].opcode != hlo::Opcode::Constant) return std::nullopt;
  }
  for (size_t i = 0; i < outputs.partition.roots.size(); ++i) {
    const InstructionId id = source_of(computation, outputs.partition, i);
    if (heroes.find(id) == nullptr) continue;
    const hlo::Literal& initial = computation[computation[id].operands[1]].as<hlo::ConstantAttributes>().value;
    preparations.push_back({Preparation::Kind::Fill, static_cast<int>(i), false, 0, initial});
  }
  return preparations;
}

Result<void> check(const std::string& what, IndexingMap map, const TiledReduction& tiled, bool kept_only) {
  std::vector<indexing::Expr> results;
  std::vector<int64_t> shape;
  for (size_t i = 0; i < tiled.rank(); ++i) {
    if (kept_only && tiled.reduced[i]) continue;
    results.push_back(map.results[i]);
    shape.push_back(tiled.tiling.shape[i]);
  }
  map.results = std::move(results);
  const indexing::Verdict verdict = indexing::writes_bijectively(map, shape);
  if (verdict.kind == indexing::Verdict::Kind::Refuted)
    return invalid("internal error: {} of a reduction: {}", what, verdict.reason);
  return {};
}

/// Passes through the banks of shared memory, against the least.
std::string bank_conflicts(const TiledReduction& tiled) {
  const indexing::AccessCost cost = indexing::shared_access(tiled.part_reads(), tiled.part_tile(4));
  return fmt::format("{} passes, at least {}", cost.units, cost.least);
}

/// Outputs whose rows have several elements beside each other, which one thread writes. Elements of a row that lie far
/// from each other, its threads write beside other threads' rows.
std::vector<InstructionId> written_apart(const hlo::Computation& computation, const ReductionOutputs& outputs) {
  std::vector<InstructionId> apart;
  for (const ReductionWrite& write : outputs.writes) {
    if (write.elementwise || write.index.ranges.empty()) continue;
    const auto& results = outputs.partition.functions[static_cast<size_t>(write.function)].results;
    const hlo::Shape& shape = indexing::element_shape(computation[results[0].instruction].shape, 0);
    const auto innermost = std::ranges::find_if(shape.minor_to_major, [&](int64_t d) { return shape.dim(d) > 1; });
    if (innermost == shape.minor_to_major.end()) continue;
    if (!write.index.results[static_cast<size_t>(*innermost)].uses(indexing::ExprKind::Range)) continue;
    for (const indexing::FunctionResult& result : results) apart.push_back(result.instruction);
  }
  return apart;
}

std::string names(const hlo::Computation& computation, const ReductionHeroes& heroes, int stage) {
  std::vector<std::string> list;
  for (const ReductionHero& hero : heroes.heroes) {
    if (hero.stage == stage) list.push_back(computation[hero.id].name);
  }
  return fmt::format("{}", fmt::join(list, ", "));
}

/// Whether rows that are gone through several times are in registers meanwhile: loops over them disappear.
bool stays_in_registers(const Fusion& fusion, const ReductionPlan& plan) {
  const indexing::Tiling& tiling = plan.tiled.tiling;
  int64_t bytes = 0, points = 1;
  for (const InstructionId id : staged_parameters(fusion.computation(), plan.heroes))
    bytes += hlo::byte_width(fusion.computation()[id].shape.type);
  for (size_t i = 0; i < plan.tiled.rank(); ++i) {
    if (tiling.unroll[i] > kMostRepetitions) return false;
    points *= tiling.unroll[i] * tiling.vector[i];
  }
  return points * bytes <= kRowRegisterBytes && plan.tiled.in_registers == 0;
}

/// The fusion and its plan with inputs in shared memory, where rows are gone through several times and are too long for
/// registers, but not for shared memory.
std::optional<std::pair<hlo::ModulePtr, ReductionPlan>> stage_inputs(const Fusion& fusion, const ReductionPlan& plan) {
  const std::vector<InstructionId> parameters = staged_parameters(fusion.computation(), plan.heroes);
  int64_t bytes = 0;
  for (const InstructionId id : parameters) bytes += hlo::byte_width(fusion.computation()[id].shape.type);
  if (plan.tiled.outputs() * plan.tiled.most_in_shared() * bytes > fusion.target.shared_memory) return std::nullopt;
  const StagedModule staged = with_copies(fusion.module, fusion.id, parameters);
  auto heroes = find_reductions((*staged.module)[fusion.id]);
  if (!heroes) return std::nullopt;
  for (const InstructionId copy : staged.copies) heroes->staged.push_back({copy, heroes->heroes[0].operand});
  auto outputs = plan_reduction_outputs(*staged.module, fusion.id, *heroes);
  if (!outputs) return std::nullopt;
  const ReductionPlan changed{std::move(*heroes), std::move(*outputs), plan.tiled};
  if (reduction_shared_bytes(*staged.module, fusion.id, changed) > fusion.target.shared_memory) return std::nullopt;
  return std::pair(staged.module, changed);
}

}  // namespace

Result<Plan> plan_reduction(const Fusion& fusion) {
  const hlo::Computation& computation = fusion.computation();
  STRATA_TRY(ReductionHeroes heroes, find_reductions(computation));
  const int64_t elements = heroes.rows() * heroes.length();
  if (elements < kLeastElements) return unsupported("only {} elements are reduced: a loop does it", elements);
  STRATA_TRY(ReductionOutputs outputs, plan_reduction_outputs(fusion.module, fusion.id, heroes));

  ReductionLoad load;
  consider_arrays(fusion, elements, load);
  std::optional<std::vector<Preparation>> preparations = atomic_preparations(fusion, heroes, outputs);
  load.may_split = preparations.has_value();
  for (const ReductionHero& hero : heroes.heroes) {
    const hlo::Shape& shape = computation[hero.id].shape;
    load.one_slot |= hlo::is_complex(shape.type);
    for (const hlo::Shape& element : shape.elements) load.one_slot |= hlo::is_complex(element.type);
  }
  load.rereads = std::any_of(outputs.writes.begin(), outputs.writes.end(),
                             [&](const auto& write) { return write.elementwise && write.stage > 0; }) ||
                 heroes.stages > 1;
  consider_rows(computation, heroes, load);
  constexpr int64_t kLongestShort = 32 * 8;  // a vector a lane of a warp
  if (heroes.groups.back().reduced && heroes.groups.back().size <= kLongestShort) consider_work(fusion, heroes, load);
  ReductionTiling chosen = choose_reduction_tiling(heroes, load, fusion.target);
  chosen.tiled.all_want_results = load.rereads;
  const TiledReduction& tiled = chosen.tiled;
  if (fusion.explained && !tiled.aligned_rows) STRATA_CHECK(check("reads", tiled.points(), tiled, false));
  const bool split = tiled.splits() > 1;
  if (fusion.explained && !split) STRATA_CHECK(check("results", tiled.holders(), tiled, true));

  Plan plan;
  Decision& decision = plan.decision;
  decision.emitter = chosen.emitter;
  decision.reason = chosen.reason;
  for (const ReductionHero& hero : heroes.heroes) decision.heroes.push_back(hero.id);
  decision.apart = written_apart(computation, outputs);
  decision.launch().blocks = tiled.tiling.blocks();
  decision.launch().threads = static_cast<int>(tiled.tiling.threads_per_block());
  decision.launch().min_blocks = chosen.min_blocks;
  for (int stage = 0; stage < heroes.stages; ++stage) {
    decision.details.emplace_back(heroes.stages == 1 ? "reduces" : fmt::format("stage {}", stage),
                                  names(computation, heroes, stage));
  }
  decision.details.emplace_back("tiling", indexing::to_string(tiled.tiling));
  decision.details.emplace_back("vector", std::to_string(tiled.tiling.vector.back()));
  if (tiled.aligned_rows) decision.details.emplace_back("rows", "vectors at multiples in memory, the rest one by one");
  decision.details.emplace_back("combined by",
                                fmt::format("{} lanes, then {} parts in shared memory", tiled.lanes(), tiled.parts()));
  if (fusion.explained && tiled.parts() > 1) decision.details.emplace_back("banks", bank_conflicts(tiled));
  if (split) {
    decision.details.emplace_back("shared outputs", fmt::format("{} blocks each, atomically", tiled.splits()));
    decision.preparations = *preparations;
  }
  ReductionPlan reduction{std::move(heroes), std::move(outputs), chosen.tiled};
  hlo::ModulePtr changed;
  decision.passes.assign(decision.heroes.size(), 0);  // one loop has them all
  if (load.rereads) {
    const bool in_registers = stays_in_registers(fusion, reduction);
    for (size_t i = 0; i < decision.passes.size() && !in_registers; ++i)
      decision.passes[i] = reduction.heroes.heroes[i].stage + 1;
    const std::vector<InstructionId> inputs = staged_parameters(computation, reduction.heroes);
    auto staged = in_registers ? std::nullopt : stage_inputs(fusion, reduction);
    if (staged) {
      std::tie(changed, reduction) = std::move(*staged);
      decision.staged = inputs;
    }
    std::string where = changed ? "shared memory" : "registers or caches";
    if (tiled.in_registers > 0) {
      where = fmt::format("registers ({} of {} repetitions) and {}", tiled.in_registers, tiled.tiling.unroll.back(),
                          changed ? "shared memory" : "caches");
    }
    decision.details.emplace_back("rows stay in", where);
  }
  decision.launch().shared_bytes = reduction_shared_bytes(changed ? *changed : fusion.module, fusion.id, reduction);
  if (decision.launch().shared_bytes > fusion.target.shared_memory)
    return unsupported("{} bytes of shared memory are more than a block has", decision.launch().shared_bytes);
  plan.emit = [fusion, changed, reduction, decision](mlir::ModuleOp target, const std::string& name) -> Result<void> {
    indexing::PartitionOptions options;
    options.heroes = reduction.heroes.ids();
    STRATA_TRY(FusionFunctions functions,
               FusionFunctions::create(target, changed ? *changed : fusion.module, fusion.id, options));
    return emit_reduction(functions, reduction, name, decision);
  };
  return plan;
}

}  // namespace strata::emitters
