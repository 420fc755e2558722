// The product emitter: dots of few rows, with what their operands are computed of and what follows from them.
#include "emitters/kinds/product/product.h"

#include <fmt/format.h>

#include <algorithm>

#include "emitters/elemental/scalar_operators.h"
#include "hlo/indexing/evaluations.h"

namespace strata::emitters {

using hlo::InstructionId;
using indexing::ceil_div;

namespace {

/// Launch::min_blocks: as many as registers allow, where that is more than one, up to those that there are. Without it
/// ptxas takes registers for loads that need not be early, and fewer warps wait for memory at once. Where weights are
/// computed, that needs the registers.
int min_blocks(const ProductPlan& plan, const Launch& launch, const Target& target) {
  if (plan.tiling.computed) return 0;
  const int64_t shared = launch.shared_bytes + target.reserved_shared_memory;
  const int64_t blocks =
      std::min<int64_t>({product_blocks(plan.tiling, plan.shape, target), target.multiprocessor_shared_memory / shared,
                         ceil_div(plan.blocks(), target.multiprocessors)});
  return blocks > 1 ? static_cast<int>(blocks) : 0;
}

}  // namespace

Result<Plan> plan_product(const Fusion& fusion) {
  const auto made = std::make_shared<ProductPlan>();
  const hlo::Computation& original = fusion.computation();
  const bool multiplies = std::any_of(original.instructions.begin(), original.instructions.end(),
                                      [](const hlo::Instruction& it) { return it.opcode == hlo::Opcode::Dot; });
  if (!multiplies) return unsupported("there is no product");
  InstructionId hero = -1;
  const auto is_hero = [&](InstructionId id) {
    if (!product_shape(original, id)) return false;
    hero = id;
    return true;
  };
  STRATA_TRY(made->split, split_at_heroes(fusion, is_hero));
  if (made->split.heroes.size() != 1) {
    return unsupported("no product of few rows and many terms stands behind all roots by operators that keep places");
  }
  if (!root_functions(made->split, false).empty()) return unsupported("some results are not computed of the product");
  const hlo::Computation& computation = (*made->split.module)[made->split.computation];
  const InstructionId id = made->split.heroes[0];
  // A product that is read at other places too is there twice.
  for (InstructionId other = 0; other <= computation.root; ++other) {
    if (other != id && indexing::is_long_reduction(computation, computation[other]))
      return unsupported("{} would be computed by single threads", computation[other].name);
  }
  made->shape = *product_shape(computation, id);
  made->tiling = choose_product_tiling(computation, made->shape, fusion.target);
  const ProductShape& shape = made->shape;
  const ProductTiling& tiling = made->tiling;

  Plan plan;
  Decision& decision = plan.decision;
  decision.emitter = "product";
  decision.reason = fmt::format("{} rows share each weight that is read", shape.row_count());
  decision.heroes = {hero};
  decision.launch().blocks = made->blocks();
  decision.launch().threads = tiling.threads();
  decision.launch().shared_bytes = made->shared_bytes(hlo::byte_width(wide_type(computation[id].shape.type)));
  if (decision.launch().shared_bytes > fusion.target.shared_memory)
    return unsupported("{} bytes of shared memory are more than a block has", decision.launch().shared_bytes);
  decision.launch().min_blocks = min_blocks(*made, decision.launch(), fusion.target);
  decision.details = {
      {"product",
       fmt::format("{} of {}x{}x{}", shape.batches(), shape.row_count(), shape.column_count(), shape.term_count())},
      {"multiplied by", tiling.matrix ? "matrix instructions" : "multiply-adds"},
      {"inside", shape.terms_inside ? "terms" : "columns"},
      {"a lane", fmt::format("{} columns by {} terms, {} steps at once", tiling.columns, tiling.terms, tiling.steps)},
      {"warps", fmt::format("{} along the terms, {} along the columns", tiling.term_warps, tiling.column_warps)}};
  plan.emit = [made, decision](mlir::ModuleOp target, const std::string& name) -> Result<void> {
    const HeroSplit& split = made->split;
    STRATA_TRY(FusionFunctions functions,
               FusionFunctions::create(target, *split.module, split.computation, split.options));
    return emit_product(*made, functions, name, decision);
  };
  return plan;
}

}  // namespace strata::emitters
