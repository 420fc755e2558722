// The scan emitter: cumulative reductions (hlo::scan_window) of linear work. Warps scan vectors by shuffles, blocks the
// totals of warps in shared memory, and where lines are few and long, a kernel before finds the totals of chunks.
#include "emitters/kinds/scan.h"

#include <fmt/format.h>

#include "emitters/elemental/scalar_operators.h"
#include "hlo/indexing/evaluations.h"
#include "hlo/indexing/operand_maps.h"
#include "hlo/scan_window.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;

constexpr int64_t kLeastLength = 16;  ///< shorter windows are left to a loop

const hlo::Shape& first_array(const hlo::Shape& shape) { return indexing::element_shape(shape, 0); }

size_t arrays_of(const hlo::Instruction& it) { return it.operands.size() / 2; }

/// The dimensions of a scan's result in memory: before, along and behind the scanned one.
struct ScanShape {
  int64_t outer = 1, inner = 1;
  hlo::ScanWindow window;
  hlo::Shape shape;

  bool same_as(const ScanShape& other) const {
    return hlo::same_dims(shape, other.shape) && shape.minor_to_major == other.shape.minor_to_major &&
           window.dimension == other.window.dimension && window.reverse == other.window.reverse;
  }
};

std::optional<ScanShape> scan_shape(const hlo::Computation& computation, InstructionId id) {
  const std::optional<hlo::ScanWindow> window = hlo::scan_window(computation, computation[id]);
  if (!window || window->length < kLeastLength) return std::nullopt;
  ScanShape result;
  result.window = *window;
  result.shape = first_array(computation[id].shape);
  for (const hlo::Shape& one : computation[id].shape.elements) {
    if (one.minor_to_major != result.shape.minor_to_major) return std::nullopt;
  }
  if (result.shape.element_count() == 0) return std::nullopt;
  bool behind = true;
  for (const int64_t dimension : result.shape.minor_to_major) {
    if (dimension == window->dimension) {
      behind = false;
    } else {
      (behind ? result.inner : result.outer) *= result.shape.dims[static_cast<size_t>(dimension)];
    }
  }
  return result;
}

/// A scan of several arrays whose values are what the fusion returns: the root, or its elements.
std::optional<InstructionId> variadic_root(const hlo::Computation& computation) {
  InstructionId found = computation.root;
  for (InstructionId id : root_values(computation)) {
    if (computation[id].opcode == hlo::Opcode::GetTupleElement) id = computation[id].operands[0];
    if (found != computation.root && found != id) return std::nullopt;
    found = id;
  }
  if (!computation[found].shape.is_tuple() || computation[found].opcode != hlo::Opcode::ReduceWindow)
    return std::nullopt;
  return found;
}

/// Bytes of the widest element that is read or written at each place.
int64_t element_bytes(const HeroSplit& split) {
  const hlo::Computation& computation = (*split.module)[split.computation];
  const int64_t count = first_array(computation[split.heroes[0]].shape).element_count();
  int64_t bytes = 1;
  const auto consider = [&](const hlo::Shape& shape) {
    if (shape.is_array() && shape.element_count() == count)
      bytes = std::max<int64_t>(bytes, hlo::byte_width(shape.type));
  };
  for (const InstructionId id : computation.parameters) consider(computation[id].shape);
  for (const InstructionId id : root_values(computation)) {
    consider(computation[id].shape);
    for (const hlo::Shape& one : computation[id].shape.elements) consider(one);
  }
  return bytes;
}

bool has_complex(const HeroSplit& split) {
  const hlo::Computation& computation = (*split.module)[split.computation];
  return llvm::any_of(split.heroes, [&](InstructionId id) {
    return llvm::any_of(computation[id].operands,
                        [&](InstructionId operand) { return hlo::is_complex(computation[operand].shape.type); });
  });
}

/// The kernels need what they write to lie at the scans' places, and to have no other scan within.
Result<void> check_split(const HeroSplit& split) {
  const hlo::Computation& computation = (*split.module)[split.computation];
  const int64_t count = first_array(computation[split.heroes[0]].shape).element_count();
  for (const InstructionId id : root_values(computation)) {
    if (first_array(computation[id].shape).element_count() == count) continue;
    return unsupported("{} has not as many elements as {}", computation[id].name, computation[split.heroes[0]].name);
  }
  for (InstructionId id = 0; id <= computation.root; ++id) {
    if (!hlo::scan_window(computation, computation[id]) || llvm::is_contained(split.heroes, id)) continue;
    if (!indexing::is_long_reduction(computation, computation[id])) continue;
    return unsupported("{} is no scan of the same elements as {}, or is read by it", computation[id].name,
                       computation[split.heroes[0]].name);
  }
  return {};
}

Result<HeroSplit> split_scans(const Fusion& fusion, std::vector<InstructionId>& heroes) {
  const hlo::Computation& from = fusion.computation();
  if (const auto variadic = variadic_root(from); variadic && scan_shape(from, *variadic)) {
    HeroSplit split;
    split.module = std::make_shared<hlo::Module>(fusion.module);
    split.computation = fusion.id;
    split.heroes = heroes = {*variadic};
    split.has_hero.assign(root_values(from).size(), true);
    split.options.heroes = split.heroes;
    STRATA_TRY(split.partition, indexing::partition_functions(*split.module, split.computation, split.options));
    return split;
  }
  std::optional<ScanShape> first;
  return split_at_heroes(fusion, [&](InstructionId id) {
    const std::optional<ScanShape> shape = scan_shape(from, id);
    if (!shape) return false;
    if (!first) first = shape;
    if (!first->same_as(*shape)) return false;
    heroes.push_back(id);
    return true;
  });
}

/// Launch::min_blocks where lines are cut into chunks: these are so many that all threads run at once, so registers
/// must suffice for that. What a thread has of a tile needs its registers.
int min_blocks(const ScanPlan& plan, const Launch& launch, const Target& target) {
  constexpr int64_t kOtherRegisters = 36;
  if (plan.tiling.chunks == 1) return 0;
  const hlo::Computation& computation = (*plan.split.module)[plan.split.computation];
  int64_t bytes = 0;
  for (const InstructionId id : plan.split.heroes) {
    const hlo::Instruction& it = computation[id];
    for (size_t i = 0; i < arrays_of(it); ++i)
      bytes += hlo::byte_width(wide_type(indexing::element_shape(it.shape, static_cast<int>(i)).type));
  }
  const int64_t registers = bytes / 4 * (plan.tiling.elements_of_thread() / plan.tiling.tiles) + kOtherRegisters;
  if (registers * kScanThreadsToFill > target.registers) return 0;
  const int64_t blocks =
      std::min(kScanThreadsToFill / launch.threads, indexing::ceil_div(launch.blocks, target.multiprocessors));
  return blocks > 1 ? static_cast<int>(blocks) : 0;
}

Decision decision_of(const ScanPlan& plan, std::vector<InstructionId> heroes, const Target& target) {
  const hlo::Computation& computation = (*plan.split.module)[plan.split.computation];
  const ScanTiling& tiling = plan.tiling;
  Decision decision;
  decision.emitter = tiling.inner == 1 ? "row scan" : "column scan";
  decision.reason = "each element is combined with those before it once";
  decision.heroes = std::move(heroes);
  std::vector<std::string> names;
  for (const InstructionId id : plan.split.heroes) names.push_back(computation[id].name);
  decision.details = {{"scans", fmt::format("{}{}", fmt::join(names, ", "), tiling.reverse ? ", from the end" : "")},
                      {"lines", fmt::format("{} of {} elements", tiling.lines() * tiling.columns, tiling.length)},
                      {"vector", fmt::format("{} along the scan, {} beside it", tiling.vector, tiling.columns)},
                      {"unroll", std::to_string(tiling.unroll)},
                      {"a line", fmt::format("{} lanes, {} warps, {} tiles, {} chunks", tiling.lanes, tiling.warps,
                                             tiling.tiles, tiling.chunks)},
                      {"elements of a thread", std::to_string(tiling.elements_of_thread())}};
  Launch& launch = decision.launch();
  launch.threads = static_cast<int>(tiling.threads());
  launch.blocks = tiling.line_blocks() * tiling.chunks;
  launch.shared_bytes = scan_shared_bytes(plan);
  launch.min_blocks = min_blocks(plan, launch, target);
  if (tiling.chunks == 1) return decision;
  launch.name = "scan";
  Launch totals = launch;
  totals.name = "totals";
  totals.blocks = tiling.line_blocks() * (tiling.chunks - 1);
  decision.launches.insert(decision.launches.begin(), totals);
  const int64_t count = (tiling.chunks - 1) * tiling.lines() * tiling.columns;
  for (const InstructionId id : plan.split.heroes) {
    const hlo::Instruction& it = computation[id];
    for (size_t i = 0; i < arrays_of(it); ++i) {
      const hlo::ElementType type = wide_type(indexing::element_shape(it.shape, static_cast<int>(i)).type);
      decision.temporaries.push_back(hlo::array_shape(type, {count}));
    }
  }
  return decision;
}

}  // namespace

Result<Plan> plan_scan(const Fusion& fusion) {
  const hlo::Computation& from = fusion.computation();
  const auto is_scan = [&](const hlo::Instruction& it) { return hlo::scan_window(from, it).has_value(); };
  if (llvm::none_of(from.instructions, is_scan)) return unsupported("there is no scan");
  ScanPlan made;
  std::vector<InstructionId> heroes;
  STRATA_TRY(made.split, split_scans(fusion, heroes));
  if (made.split.heroes.empty()) return unsupported("no scan stands behind a root by operators that keep places");
  STRATA_CHECK(check_split(made.split));
  const ScanShape shape = *scan_shape((*made.split.module)[made.split.computation], made.split.heroes[0]);
  made.tiling = choose_scan_tiling(shape.outer, shape.window.length, shape.inner, element_bytes(made.split),
                                   has_complex(made.split), fusion.target);
  made.tiling.reverse = shape.window.reverse;
  Plan plan;
  plan.decision = decision_of(made, std::move(heroes), fusion.target);
  if (plan.decision.launch().shared_bytes > fusion.target.shared_memory)
    return unsupported("{} bytes of shared memory are more than a block has", plan.decision.launch().shared_bytes);
  plan.emit = [made, decision = plan.decision](mlir::ModuleOp target, const std::string& name) -> Result<void> {
    STRATA_TRY(FusionFunctions functions,
               FusionFunctions::create(target, *made.split.module, made.split.computation, made.split.options));
    return emit_scan(functions, made, name, decision);
  };
  return plan;
}

}  // namespace strata::emitters
