// The product emitter: dots of few rows, with what their operands are computed of and what follows from them.
#include "emitters/kinds/product/product.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "emitters/elemental/scalar_operators.h"
#include "hlo/indexing/evaluations.h"
#include "hlo/indexing/serial_terms.h"

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

/// Bytes of what a lane reads of arrays for one term of a row: of each once, and once more for each operator that moves
/// its elements, as the halves of a row that is rotated. What has fewer elements than a row has terms, no term waits
/// for.
int64_t bytes_of_row_element(const hlo::Computation& computation, InstructionId rows, int64_t terms) {
  std::set<InstructionId> seen;
  std::vector<InstructionId> stack{rows};
  int64_t bytes = 0;
  while (!stack.empty()) {
    const InstructionId id = stack.back();
    stack.pop_back();
    const hlo::Instruction& it = computation[id];
    const bool reads = it.opcode == hlo::Opcode::Parameter && it.shape.element_count() >= terms;
    if (reads) bytes += hlo::byte_width(it.shape.type);
    for (const InstructionId operand : it.operands) {
      const hlo::Opcode opcode = computation[operand].opcode;
      const bool moved = !hlo::is_elementwise(it.opcode) && it.opcode != hlo::Opcode::Broadcast &&
                         it.opcode != hlo::Opcode::Reshape && opcode == hlo::Opcode::Parameter;
      if (moved || seen.insert(operand).second) stack.push_back(operand);
    }
  }
  return bytes;
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
  const std::vector<indexing::SerialTerms> terms = indexing::serial_terms(computation, {id});
  for (InstructionId other = 0; other <= computation.root; ++other) {
    if (terms[static_cast<size_t>(other)].all > indexing::kFewTerms)
      return unsupported("{} would be computed by single threads", computation[other].name);
  }
  made->shape = *product_shape(computation, id);
  made->tiling = choose_product_tiling(computation, made->shape, fusion.target);
  const ProductShape& shape = made->shape;
  const ProductTiling& tiling = made->tiling;
  // All that rows of one step are computed of is read at once; a kernel before writes them where that takes more
  // registers than a thread has.
  const InstructionId rows = computation[id].operands[static_cast<size_t>(1 - shape.weights)];
  const int64_t row_bytes = bytes_of_row_element(computation, rows, shape.term_count());
  const int64_t of_lane = tiling.matrix() ? ceil_div(shape.row_count(), 8) : shape.row_count();
  const int64_t registers = product_registers(tiling, shape) + ceil_div(tiling.terms * of_lane * row_bytes, 4);
  const int64_t most = fusion.target.registers / tiling.threads();
  if (computation[rows].opcode != hlo::Opcode::Parameter && registers > most)
    return unsupported("what rows are computed of takes {} registers, and a thread has {}", registers, most);

  Plan plan;
  Decision& decision = plan.decision;
  decision.emitter = "product";
  decision.reason = fmt::format("{} rows share each weight that is read", shape.row_count());
  decision.heroes = {hero};
  decision.launch().blocks = made->blocks();
  decision.launch().threads = tiling.threads();
  decision.launch().shared_bytes =
      product_shared_bytes(tiling, shape, hlo::byte_width(wide_type(computation[id].shape.type)));
  if (decision.launch().shared_bytes > fusion.target.shared_memory)
    return unsupported("{} bytes of shared memory are more than a block has", decision.launch().shared_bytes);
  decision.launch().min_blocks = min_blocks(*made, decision.launch(), fusion.target);
  decision.details = {
      {"product",
       fmt::format("{} of {}x{}x{}", shape.batches(), shape.row_count(), shape.column_count(), shape.term_count())},
      {"multiplied by", tiling.matrix() ? "matrix instructions" : "multiply-adds"},
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
