// The emitter of input slices: a thread computes elements of what is sliced, once, and writes them to all slices that
// they lie in.
#include <fmt/format.h>

#include "emitters/dialect/dialect.h"
#include "emitters/kinds/access_width.h"
#include "emitters/kinds/epilogue.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/place_maps.h"
#include "emitters/kinds/plan.h"
#include "hlo/indexing/operand_maps.h"
#include "indexing/inverse.h"
#include "indexing/map_checks.h"
#include "indexing/simplify.h"
#include "indexing/thread_maps.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using indexing::IndexingMap;
using mlir::ValueRange;

/// Of the elements computed, at least this share must be written.
constexpr double kLeastShare = 0.5;

struct SlicesPlan {
  HeroSplit split;
  IndexingMap read;                 ///< (block, thread)[unroll, vector] → index of what is sliced
  std::vector<IndexingMap> placed;  ///< of each slice: index of what is sliced → index of the slice, where it has one
};

/// Whether the operands of two slices have the same dimensions and lie alike.
bool same_operand(const hlo::Computation& computation, InstructionId a, InstructionId b) {
  const hlo::Shape& x = computation.operand_shape(computation[a], 0);
  const hlo::Shape& y = computation.operand_shape(computation[b], 0);
  return hlo::same_dims(x, y) && x.minor_to_major == y.minor_to_major;
}

/// For each slice, where elements of its operand are in it.
Result<void> place_slices(SlicesPlan& plan) {
  const hlo::Computation& computation = (*plan.split.module)[plan.split.computation];
  for (const InstructionId hero : plan.split.heroes) {
    const hlo::Shape& operand = computation.operand_shape(computation[hero], 0);
    STRATA_TRY(const std::vector<indexing::Read> reads,
               indexing::operand_reads(*plan.split.module, plan.split.computation, hero));
    if (reads.empty()) return unsupported("{} is empty", computation[hero].name);
    plan.placed.push_back(indexing::inverse(reads[0].maps[0], indexing::positions(operand.dims)));
    if (!plan.placed.back().ranges.empty()) return unsupported("{} is no plain slice", computation[hero].name);
  }
  for (const int function : root_functions(plan.split, true)) {
    const auto& injected = plan.split.partition.functions[static_cast<size_t>(function)].injected;
    for (const InstructionId hero : injected) {
      if (plan.placed[plan.split.hero_number(hero)] == plan.placed[plan.split.hero_number(injected[0])]) continue;
      return unsupported("{} and {} are different parts of what is sliced", computation[injected[0]].name,
                         computation[hero].name);
    }
  }
  return {};
}

Result<Values> emit_slices(const SlicesPlan& plan, const FusionFunctions& functions, Kernel& kernel) {
  const hlo::Computation& computation = functions.computation();
  std::optional<Error> error;
  auto loop = create_loop(
      kernel.builder(), plan.read, kernel.place(), kernel.outputs(), /*vector=*/1,
      [&](mlir::ImplicitLocOpBuilder& inside, ValueRange, ValueRange index, ValueRange before) {
        std::map<InstructionId, mlir::Value> read;  // each operand once
        for (const InstructionId hero : plan.split.heroes) {
          const InstructionId operand = computation[hero].operands[0];
          if (read.contains(operand)) continue;
          const auto value = functions.read(inside, operand, kernel.inputs(), index);
          if (!value) {
            error = value.error();
            return Values(before);
          }
          read[operand] = (*value)[0];
        }
        Values after(before);
        for (const int number : root_functions(plan.split, true)) {
          const indexing::Function& function = functions.partition().functions[static_cast<size_t>(number)];
          const InstructionId hero = function.injected[0];
          IndexingMap placed = plan.placed[plan.split.hero_number(hero)];
          placed.results =
              indices_at_place(placed, computation[hero].shape, computation[function.results[0].instruction].shape);
          Values injected;
          for (const InstructionId id : function.injected) injected.push_back(read.at(computation[id].operands[0]));
          // No loop, but a guard: there are no range variables.
          auto guarded = create_loop(
              inside, placed, index, after, std::nullopt,
              [&](mlir::ImplicitLocOpBuilder& within, ValueRange, ValueRange at, ValueRange written) {
                return write_outputs(within, functions, number, kernel.inputs(), at, injected, Values(written));
              });
          after = Values(guarded.getResults());
        }
        return after;
      });
  if (error) return tl::unexpected(std::move(*error));
  return Values(loop.getResults());
}

}  // namespace

Result<Plan> plan_input_slices(const Fusion& fusion) {
  const hlo::Computation& from = fusion.computation();
  if (root_values(from).size() < 2) return unsupported("one result only: a loop over it reads no more than it needs");
  std::optional<InstructionId> first;
  const auto is_hero = [&](InstructionId id) {
    if (from[id].opcode != hlo::Opcode::Slice) return false;
    if (!first) first = id;
    return same_operand(from, *first, id);
  };
  SlicesPlan made;
  STRATA_TRY(made.split, split_at_heroes(fusion, is_hero, SharedRoots::None));
  if (made.split.heroes.empty()) return unsupported("no slice stands behind a root by operators that keep places");
  if (llvm::is_contained(made.split.has_hero, false)) return unsupported("not all results are slices of one shape");
  STRATA_CHECK(place_slices(made));
  const hlo::Computation& computation = (*made.split.module)[made.split.computation];
  const hlo::Shape& operand = computation.operand_shape(computation[made.split.heroes[0]], 0);
  const int64_t count = operand.element_count();
  int64_t written = 0;
  for (const InstructionId id : root_values(computation)) written += computation[id].shape.element_count();
  if (static_cast<double>(written) < kLeastShare * static_cast<double>(count)) {
    return unsupported("{} elements of {} are written: most would be computed in vain", written, count);
  }
  const AccessWidth width = choose_access_width(fusion, count);
  made.read = indexing::thread_map(indexing::linear_tiling({count}, width.threads, width.vector, width.unroll));
  made.read.results = indices_at(made.read, {count}, operand);
  made.read = indexing::simplify(made.read, indexing::UnusedVariables::Keep);
  const indexing::Verdict verdict = indexing::writes_bijectively(made.read, operand.dims);
  if (verdict.kind == indexing::Verdict::Kind::Refuted) {
    return unsupported("internal error: what is sliced: {}", verdict.reason);
  }
  Plan plan;
  plan.decision.emitter = "input slices";
  plan.decision.reason = "what is sliced is computed once for all slices";
  plan.decision.launch().threads = width.threads;
  plan.decision.launch().blocks = width.blocks(count);
  plan.decision.details = {{"slices", std::to_string(made.split.heroes.size())},
                           {"written", fmt::format("{} elements of {}", written, count)},
                           {"vector", std::to_string(width.vector)},
                           {"unroll", std::to_string(width.unroll)}};
  plan.emit = [made, decision = plan.decision](mlir::ModuleOp target, const std::string& name) -> Result<void> {
    STRATA_TRY(const FusionFunctions functions,
               FusionFunctions::create(target, *made.split.module, made.split.computation, made.split.options));
    Kernel kernel(functions, name, decision);
    STRATA_TRY(const Values outputs, emit_slices(made, functions, kernel));
    kernel.finish(outputs);
    return {};
  };
  return plan;
}

}  // namespace strata::emitters
