// The loop emitter: a thread computes some elements of the output that lie together. It takes every fusion.
#include "emitters/dialect/dialect.h"
#include "emitters/kinds/access_width.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/plan.h"
#include "indexing/simplify.h"
#include "indexing/thread_maps.h"

namespace strata::emitters {
namespace {

using indexing::IndexingMap;
using indexing::Interval;
using mlir::ValueRange;

/// The loop of one root function: which elements of its first output a thread computes.
IndexingMap function_map(const FusionFunctions& functions, int function, const AccessWidth& width, int64_t blocks) {
  const indexing::Function& of = functions.partition().functions[static_cast<size_t>(function)];
  const hlo::Shape& shape = indexing::element_shape(functions.computation()[of.results[0].instruction].shape, 0);
  const IndexingMap positions =
      indexing::thread_map(indexing::linear_tiling({shape.element_count()}, width.threads, width.vector, width.unroll));
  IndexingMap map = indexing::compose(positions, index_at_position(shape));
  // The grid is that of the largest root: further blocks have nothing to do here.
  const Interval own = map.dims[indexing::kBlock];
  map.dims[indexing::kBlock] = indexing::below(blocks);
  if (own.hi + 1 < blocks) map.constraints.push_back({indexing::Expr::dim(indexing::kBlock), own});
  return indexing::simplify(map, indexing::UnusedVariables::Keep);
}

}  // namespace

Result<Plan> plan_loop(const Fusion& fusion) {
  for (const hlo::Instruction& it : fusion.computation().instructions) {
    // Which updates an element has is nowhere to be read.
    if (it.opcode == hlo::Opcode::Scatter) return unsupported("{} is a scatter", it.name);
  }
  int64_t elements = 0;
  const hlo::Shape& root = fusion.computation().root_instruction().shape;
  for (const hlo::Shape& shape : root.is_tuple() ? root.elements.list() : std::vector<hlo::Shape>{root}) {
    if (!shape.is_array()) return unsupported("{} is no array", hlo::to_string(shape));
    elements = std::max(elements, shape.element_count());
  }
  const AccessWidth width = choose_access_width(fusion, elements);
  Plan plan;
  plan.decision.emitter = "loop";
  plan.decision.reason = "a thread computes elements that lie together";
  plan.decision.launch().threads = width.threads;
  plan.decision.launch().blocks = width.blocks(elements);
  plan.decision.details = {{"elements", std::to_string(elements)},
                           {"vector", std::to_string(width.vector)},
                           {"unroll", std::to_string(width.unroll)}};
  plan.emit = [fusion, width, decision = plan.decision](mlir::ModuleOp target,
                                                        const std::string& name) -> Result<void> {
    STRATA_TRY(const FusionFunctions functions, FusionFunctions::create(target, fusion.module, fusion.id));
    Kernel kernel(functions, name, decision);
    Values outputs(kernel.outputs());
    for (size_t f = 0; f < functions.partition().functions.size(); ++f) {
      const auto function = static_cast<int>(f);
      const auto& roots = functions.partition().roots;
      if (llvm::none_of(roots, [&](const auto& one) { return one.function == function; })) continue;
      const IndexingMap map = function_map(functions, function, width, std::max<int64_t>(decision.launch().blocks, 1));
      if (map.known_empty) continue;
      auto loop = create_loop(
          kernel.builder(), map, kernel.place(), outputs, /*vector=*/1,
          [&](mlir::ImplicitLocOpBuilder& inside, ValueRange, ValueRange indices, ValueRange written) {
            return write_outputs(inside, functions, function, kernel.inputs(), indices, {}, Values(written));
          });
      outputs = Values(loop.getResults());
    }
    kernel.finish(outputs);
    return {};
  };
  return plan;
}

}  // namespace strata::emitters
