#include <algorithm>
#include <limits>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/types.h"
#include "emitters/kinds/scatter/rows.h"
#include "emitters/kinds/scatter/scanned.h"
#include "emitters/kinds/scatter/windows.h"
#include "hlo/indexing/evaluations.h"
#include "indexing/memory_access.h"

namespace strata::emitters {
namespace {

struct Kind {
  const char* name;
  Planner planner;
  Planner if_asked_for = nullptr;  ///< whatever it costs: asked alone, or where no other emitter can
  bool scatters = false;           ///< it takes fusions whose root is a scatter, and no others
  bool iterates = false;           ///< it takes fusions that are a loop, and no others
};

/// In the order in which they are asked. The loop emitter takes all. Emitters after dynamic-update-slice write whole
/// arrays, so it is asked before them.
constexpr Kind kKinds[] = {
    {"product", plan_product},
    {"reduction", plan_reduction},
    {"scan", plan_scan},
    {"window", plan_window},
    {"dynamic-update-slice", plan_dynamic_update_slice},
    {"transpose", plan_transpose},
    {"concatenate", plan_concatenate},
    {"input slices", plan_input_slices},
    {"sort", plan_sort},
    {"scatter windows", plan_scatter_windows, plan_scatter_windows_at_any_cost, true},
    {"scatter scan", plan_scatter_scan, plan_scatter_scan_at_any_cost, true},
    {"scatter copies", plan_scatter_copies, nullptr, true},
    {"scatter rows", plan_scatter_rows, plan_scatter_rows_at_any_cost, true},
    {"scatter", plan_scatter, nullptr, true},
    {"loop of elements", plan_element_loop, nullptr, false, true},
    {"loop", plan_loop},
    {"reshape", plan_reshape_unasked, plan_reshape},
};

/// Emitters know tuples of arrays, as results of variadic operators and of the whole.
Result<void> check_tuples(const Fusion& fusion) {
  for (const hlo::Instruction& it : fusion.computation().instructions) {
    if (!it.shape.is_tuple()) continue;
    for (const hlo::Shape& element : it.shape.elements) {
      if (!element.is_array())
        return unsupported("{} is {}: emitters know arrays only, and tuples of them", it.name,
                           hlo::to_string_without_layout(it.shape));
    }
    switch (it.opcode) {
      case hlo::Opcode::Parameter:
      case hlo::Opcode::Reduce:
      case hlo::Opcode::ReduceWindow:
      case hlo::Opcode::Scatter:
      case hlo::Opcode::Sort:
      case hlo::Opcode::TopK:
      case hlo::Opcode::Tuple:
      case hlo::Opcode::While:
        break;
      default:
        return unsupported("the emitters have no code for {} of a tuple ({})", hlo::name(it.opcode), it.name);
    }
  }
  return {};
}

/// Which updates an element of a scatter has is nowhere to be read, so no function of the fusion can compute one.
Result<void> check_scatters(const Fusion& fusion, const Kind& kind) {
  if (kind.scatters) return {};
  for (const hlo::Instruction& it : fusion.computation().instructions)
    if (it.opcode == hlo::Opcode::Scatter) return unsupported("{} is a scatter", it.name);
  return {};
}

bool has_loop(const Fusion& fusion) {
  return std::ranges::count(fusion.computation().instructions, hlo::Opcode::While, &hlo::Instruction::opcode) > 0;
}

/// No kernel computes long reductions again for each of their readers. Where a plan is only priced, its price says so
/// (kernel_work), and no other emitter is asked for one.
Result<void> check_repeats(const Fusion& fusion, const Decision& decision) {
  const hlo::Computation& computation = fusion.computation();
  const auto is_long = [&](const hlo::Instruction& it) { return indexing::is_long_reduction(computation, it); };
  if (std::none_of(computation.instructions.begin(), computation.instructions.end(), is_long)) return {};
  const indexing::CountedComputation counted(fusion.module, fusion.id);
  const indexing::EvaluationCounts counts(counted.graph(), decision.heroes, decision.launch().blocks);
  for (const indexing::RepeatedReduction& one : counts.repeated_reductions(counts.whole())) {
    return with_remedy(unsupported("{}, a reduction of {} terms, would be computed {:.0f} times for each element",
                                   computation[one.instruction].name, one.terms, one.times),
                       "leave it out of the fusion: `strata run` and `strata emit` of the whole module do so");
  }
  return {};
}

}  // namespace

int64_t shared_bytes(mlir::Operation* kernel) {
  int64_t total = 0;
  kernel->walk([&](AllocateSharedOp allocation) {
    const auto type = llvm::cast<mlir::RankedTensorType>(allocation.getType());
    indexing::SharedTile tile{{type.getShape().begin(), type.getShape().end()}, element_bytes(type.getElementType())};
    if (const auto lie = llvm::dyn_cast_or_null<SharedTileAttr>(type.getEncoding())) {
      tile.padding = lie.getPadding();
      tile.swizzle_chunk = lie.getChunk();
    }
    total += (tile.bytes() + 15) / 16 * 16;
  });
  return total;
}

Result<Plan> choose_plan(const Fusion& fusion, const std::string& only) {
  STRATA_CHECK(check_tuples(fusion));
  std::vector<std::pair<std::string, std::string>> refused;
  std::string names;
  const bool iterates = has_loop(fusion);
  for (const Kind& kind : kKinds) {
    names += (names.empty() ? "" : ", ") + std::string(kind.name);
    if (!only.empty() && only != kind.name) continue;
    if (kind.iterates != iterates && only.empty()) continue;
    if (iterates && !kind.iterates) return unsupported("it has a loop, which only the emitter of loops takes");
    Result<Plan> plan = check_scatters(fusion, kind).and_then([&] {
      return (only.empty() || !kind.if_asked_for ? kind.planner : kind.if_asked_for)(fusion);
    });
    if (plan && fusion.explained) {
      if (auto once = check_repeats(fusion, plan->decision); !once) plan = tl::unexpected(once.error());
    }
    if (plan) {
      plan->decision.refused = std::move(refused);
      return plan;
    }
    if (plan.error().code != ErrorCode::Unsupported || !only.empty()) return plan;
    refused.emplace_back(kind.name, plan.error().message);
  }
  if (refused.empty()) return invalid("there is no emitter '{}': they are {}", only, names);
  // Fusions that an emitter leaves to others because of its cost, and that no other emitter takes.
  std::optional<Plan> best;
  const auto time = [](const Plan& plan) {
    return plan.decision.microseconds.value_or(std::numeric_limits<double>::infinity());
  };
  for (const Kind& kind : kKinds) {
    if (!kind.if_asked_for || iterates) continue;
    Result<Plan> plan = kind.if_asked_for(fusion);
    if (plan && (!best || time(*plan) < time(*best))) best = *std::move(plan);
  }
  if (best) {
    best->decision.refused = std::move(refused);
    return *std::move(best);
  }
  std::string reasons;
  for (const auto& [name, why] : refused) reasons += "\n  " + name + ": " + why;
  return unsupported("no emitter takes {}:{}", fusion.computation().name, reasons);
}

}  // namespace strata::emitters
