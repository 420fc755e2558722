// The loop emitter: a thread computes some elements of the output that lie together. It takes every fusion.
#include <map>

#include "emitters/dialect/dialect.h"
#include "emitters/kinds/access_width.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/plan.h"
#include "indexing/simplify.h"
#include "indexing/thread_maps.h"

namespace strata::emitters {
namespace {

using indexing::Expr;
using indexing::IndexingMap;
using indexing::Interval;
using mlir::ValueRange;

/// What a thread computes of one function's roots: elements of its first output, in one map or two.
struct LoopPart {
  int function = 0;
  int64_t blocks = 0;  ///< of its own
  int64_t first = 0;   ///< of these in the grid
};

const hlo::Shape& shape_of(const hlo::Computation& computation, const indexing::Function& function) {
  return indexing::element_shape(computation[function.results[0].instruction].shape, 0);
}

/// Parameters that a function's results are computed of and that are larger than what a block goes through.
std::vector<size_t> large_parameters(const hlo::Computation& computation, const indexing::Function& function,
                                     int64_t elements_of_block) {
  std::vector<bool> seen(computation.instructions.size());
  std::vector<hlo::InstructionId> open;
  const auto visit = [&](hlo::InstructionId id) {
    if (!seen[static_cast<size_t>(id)]) open.push_back(id);
    seen[static_cast<size_t>(id)] = true;
  };
  for (const auto& result : function.results) visit(result.instruction);
  std::vector<size_t> found;
  while (!open.empty()) {
    const hlo::InstructionId id = open.back();
    open.pop_back();
    const hlo::Instruction& it = computation[id];
    for (const hlo::InstructionId operand : it.operands) visit(operand);
    if (it.opcode == hlo::Opcode::Parameter && it.shape.is_array() && it.shape.element_count() > elements_of_block)
      found.push_back(static_cast<size_t>(id));
  }
  return found;
}

/// The functions that compute roots, and their places in the grid. Those that read the same large array begin at the
/// same block, so that it is read once; others stand one after the other: so few arrays are gone through at a time, and
/// no thread waits for the loads of several functions in turn.
std::vector<LoopPart> place_parts(const hlo::Computation& computation, const indexing::FunctionPartition& partition,
                                  const AccessWidth& width) {
  std::vector<LoopPart> parts;
  for (size_t f = 0; f < partition.functions.size(); ++f) {
    const auto function = static_cast<int>(f);
    if (llvm::none_of(partition.roots, [&](const auto& one) { return one.function == function; })) continue;
    parts.push_back({function, width.blocks(shape_of(computation, partition.functions[f]).element_count()), 0});
  }
  std::vector<size_t> group(parts.size());  // the first part of those that stand together
  std::map<size_t, size_t> reader;          // of each parameter, a part
  const auto first_of = [&](size_t part) {
    while (group[part] != part) part = group[part];
    return part;
  };
  const int64_t each = width.threads * width.vector * width.unroll;
  for (size_t i = 0; i < parts.size(); ++i) {
    group[i] = i;
    const auto& function = partition.functions[static_cast<size_t>(parts[i].function)];
    for (const size_t parameter : large_parameters(computation, function, each)) {
      const size_t a = first_of(reader.try_emplace(parameter, i).first->second), b = first_of(i);
      group[std::max(a, b)] = std::min(a, b);
    }
  }
  std::vector<int64_t> sizes(parts.size(), 0), starts(parts.size(), 0);
  for (size_t i = 0; i < parts.size(); ++i) sizes[first_of(i)] = std::max(sizes[first_of(i)], parts[i].blocks);
  for (size_t i = 1; i < parts.size(); ++i) starts[i] = starts[i - 1] + sizes[i - 1];
  for (size_t i = 0; i < parts.size(); ++i) parts[i].first = starts[first_of(i)];
  return parts;
}

int64_t blocks_of(const std::vector<LoopPart>& parts) {
  int64_t blocks = 0;
  for (const LoopPart& part : parts) blocks = std::max(blocks, part.first + part.blocks);
  return blocks;
}

/// The loops of a part: over vectors, and where their length does not divide the number of elements, over the last
/// ones, which threads of the last block have one each.
std::vector<IndexingMap> maps_of(const LoopPart& part, const hlo::Shape& shape, const AccessWidth& width,
                                 int64_t blocks) {
  const int64_t count = shape.element_count();
  const int64_t rest = count % width.vector;
  const auto placed = [&](IndexingMap map, int64_t first) {
    const Expr own = Expr::dim(indexing::kBlock) - part.first;
    const auto variable = [&](indexing::ExprKind kind, int number) {
      const bool block = kind == indexing::ExprKind::Dimension && number == indexing::kBlock;
      return block ? own : Expr::variable(kind, number);
    };
    map.results = indexing::substitute(map.results, variable);
    for (indexing::Constraint& one : map.constraints) one.expr = indexing::substitute(one.expr, variable);
    // Further blocks of the grid have nothing to do here.
    map.dims[indexing::kBlock] = indexing::below(blocks);
    const Interval mine{part.first + first, part.first + part.blocks - 1};
    if (mine.lo > 0 || mine.hi + 1 < blocks) map.constraints.push_back({Expr::dim(indexing::kBlock), mine});
    return indexing::simplify(indexing::compose(map, index_at_position(shape)), indexing::UnusedVariables::Keep);
  };
  IndexingMap vectors =
      indexing::thread_map(indexing::linear_tiling({count}, width.threads, width.vector, width.unroll));
  if (rest == 0) return {placed(vectors, 0)};
  std::vector<IndexingMap> maps;
  IndexingMap last = vectors;
  if (count > rest) {
    // Of whole vectors: where the first element is tells whether all are within the array.
    vectors.constraints = {indexing::Constraint{vectors.results[0] - Expr::range(1), {0, count - width.vector}}};
    maps.push_back(placed(std::move(vectors), 0));
  }
  last.ranges = {{0, 0}, {0, 0}};
  last.results = {Expr::dim(indexing::kThread) + (count - rest)};
  last.constraints = {indexing::Constraint{Expr::dim(indexing::kThread), indexing::below(rest)}};
  maps.push_back(placed(std::move(last), part.blocks - 1));
  return maps;
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
  const AccessWidth width = choose_access_width(fusion, elements, /*takes_rest=*/true);
  STRATA_TRY(const indexing::FunctionPartition partition, indexing::partition_functions(fusion.module, fusion.id));
  const std::vector<LoopPart> parts = place_parts(fusion.computation(), partition, width);
  const int64_t blocks = std::max<int64_t>(blocks_of(parts), 1);
  Plan plan;
  plan.decision.emitter = "loop";
  plan.decision.reason = "a thread computes elements that lie together";
  plan.decision.launch().threads = width.threads;
  plan.decision.launch().blocks = blocks_of(parts);
  plan.decision.details = {{"elements", std::to_string(elements)},
                           {"vector", std::to_string(width.vector)},
                           {"unroll", std::to_string(width.unroll)}};
  plan.emit = [fusion, width, parts, blocks, decision = plan.decision](mlir::ModuleOp target,
                                                                       const std::string& name) -> Result<void> {
    STRATA_TRY(const FusionFunctions functions, FusionFunctions::create(target, fusion.module, fusion.id));
    Kernel kernel(functions, name, decision);
    Values outputs(kernel.outputs());
    for (const LoopPart& part : parts) {
      const auto& function = functions.partition().functions[static_cast<size_t>(part.function)];
      for (const IndexingMap& map : maps_of(part, shape_of(functions.computation(), function), width, blocks)) {
        if (map.known_empty) continue;
        auto loop = create_loop(
            kernel.builder(), map, kernel.place(), outputs, /*vector=*/1,
            [&](mlir::ImplicitLocOpBuilder& inside, ValueRange, ValueRange indices, ValueRange written) {
              return write_outputs(inside, functions, part.function, kernel.inputs(), indices, {}, Values(written));
            });
        outputs = Values(loop.getResults());
      }
    }
    kernel.finish(outputs);
    return {};
  };
  return plan;
}

}  // namespace strata::emitters
