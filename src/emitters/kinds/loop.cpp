// The loop emitter: a thread computes some elements of the output that lie together. It takes every fusion.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "emitters/dialect/dialect.h"
#include "emitters/kinds/access_width.h"
#include "emitters/kinds/epilogue.h"
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
  AccessWidth width{};
  int64_t blocks = 0;  ///< of its own
  int64_t first = 0;   ///< of these in the grid
};

const hlo::Shape& shape_of(const hlo::Computation& computation, const indexing::Function& function) {
  return indexing::element_shape(computation[function.results[0].instruction].shape, 0);
}

/// Whether an instruction has other values from element to element than what is the same for all of them or costs
/// nothing: arrays larger than `elements`, but broadcasts, iotas and what is computed of numbers alone.
std::vector<bool> worth_sharing(const hlo::Computation& computation, int64_t elements) {
  std::vector<bool> varies(computation.instructions.size()), found(computation.instructions.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const hlo::Instruction& it = computation.instructions[i];
    const bool is_broadcast = it.opcode == hlo::Opcode::Broadcast;
    const bool is_iota = it.opcode == hlo::Opcode::Iota;
    varies[i] = is_iota || it.opcode == hlo::Opcode::Parameter;
    for (size_t k = 0; k < it.operands.size() && !varies[i]; ++k) {
      const hlo::Shape& operand = computation.operand_shape(it, k);
      varies[i] = varies[static_cast<size_t>(it.operands[k])] && (operand.is_tuple() || operand.element_count() > 1);
    }
    const bool is_large = it.shape.is_tuple() || it.shape.element_count() > elements;
    found[i] = is_large && varies[i] && !is_broadcast && !is_iota;
  }
  return found;
}

/// A number for each array of the root, the same for those that are computed of something in common: none where the
/// root is no list of arrays.
std::vector<int> root_groups(const hlo::Computation& computation, int64_t elements_of_block) {
  const hlo::Instruction& root = computation.root_instruction();
  if (root.opcode != hlo::Opcode::Tuple) return {};
  const std::vector<bool> shared = worth_sharing(computation, elements_of_block);
  std::vector<int> group(root.operands.size());
  std::vector<int> reached(computation.instructions.size(), -1);  // by which root
  const auto first_of = [&](int one) {
    while (group[static_cast<size_t>(one)] != one) one = group[static_cast<size_t>(one)];
    return one;
  };
  for (size_t i = 0; i < group.size(); ++i) {
    const auto number = static_cast<int>(i);
    group[i] = number;
    std::vector<hlo::InstructionId> open{root.operands[i]};
    while (!open.empty()) {
      const auto id = static_cast<size_t>(open.back());
      open.pop_back();
      const int before = std::exchange(reached[id], number);
      if (before == number) continue;
      if (before >= 0 && shared[id]) {
        const int a = first_of(before), b = first_of(number);
        group[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
        continue;
      }
      for (const hlo::InstructionId operand : computation.instructions[id].operands) open.push_back(operand);
    }
  }
  for (size_t i = 0; i < group.size(); ++i) group[i] = first_of(static_cast<int>(i));
  return group;
}

/// The functions that compute roots, and their places in the grid: those of a group begin at the same block, so that
/// what they read in common is read once; groups stand one after the other. So few arrays are gone through at a time,
/// no thread waits for the loads of several in turn, and none has registers for all of them.
std::vector<LoopPart> place_parts(const Fusion& fusion, const indexing::FunctionPartition& partition,
                                  const std::vector<int>& groups, const AccessWidth& width, int64_t elements) {
  const hlo::Computation& computation = fusion.computation();
  std::map<int, int> group_of;  // of functions
  for (size_t i = 0; i < partition.roots.size(); ++i)
    group_of.try_emplace(partition.roots[i].function, groups.empty() ? 0 : groups[i]);
  const auto count_of = [&](int function) {
    return shape_of(computation, partition.functions[static_cast<size_t>(function)]).element_count();
  };
  // Functions of a group that have as many elements go through them side by side. The width of the kernel is that of
  // its large arrays.
  const std::vector<hlo::InstructionId> values = root_values(computation);
  std::map<std::pair<int, int64_t>, std::vector<hlo::InstructionId>> alike;
  for (size_t i = 0; i < partition.roots.size(); ++i) {
    const int function = partition.roots[i].function;
    alike[{group_of.at(function), count_of(function)}].push_back(values[std::min(i, values.size() - 1)]);
  }
  std::map<std::pair<int, int64_t>, AccessWidth> widths;
  for (const auto& [which, roots] : alike)
    widths[which] = which.second * 2 >= elements ? width : choose_part_width(fusion, width, elements, roots);
  std::map<int, int64_t> sizes;  // of groups, in blocks
  std::vector<LoopPart> parts;
  for (const auto& [function, group] : group_of) {
    const int64_t count = count_of(function);
    const AccessWidth& own = widths.at({group, count});
    parts.push_back({function, own, own.blocks(count), 0});
    sizes[group] = std::max(sizes[group], parts.back().blocks);
  }
  std::map<int, int64_t> first;
  int64_t blocks = 0;
  for (const auto& [group, size] : sizes) {
    first[group] = blocks;
    blocks += size;
  }
  for (LoopPart& part : parts) part.first = first[group_of[part.function]];
  return parts;
}

int64_t blocks_of(const std::vector<LoopPart>& parts) {
  int64_t blocks = 0;
  for (const LoopPart& part : parts) blocks = std::max(blocks, part.first + part.blocks);
  return blocks;
}

/// The loops of a part: over vectors, and where their length does not divide the number of elements, over the last
/// ones, which threads of the last block have one each.
std::vector<IndexingMap> maps_of(const LoopPart& part, const hlo::Shape& shape, int64_t blocks) {
  const AccessWidth& width = part.width;
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
  int64_t elements = 0;
  const hlo::Shape& root = fusion.computation().root_instruction().shape;
  for (const hlo::Shape& shape : root.is_tuple() ? root.elements.list() : std::vector<hlo::Shape>{root}) {
    if (!shape.is_array()) return unsupported("{} is no array", hlo::to_string(shape));
    elements = std::max(elements, shape.element_count());
  }
  const AccessWidth width = choose_access_width(fusion, elements, /*takes_rest=*/true);
  indexing::PartitionOptions options;
  options.root_groups = root_groups(fusion.computation(), width.threads * width.vector * width.unroll);
  STRATA_TRY(const indexing::FunctionPartition partition,
             indexing::partition_functions(fusion.module, fusion.id, options));
  const std::vector<LoopPart> parts = place_parts(fusion, partition, options.root_groups, width, elements);
  const int64_t blocks = std::max<int64_t>(blocks_of(parts), 1);
  Plan plan;
  plan.decision.emitter = "loop";
  plan.decision.reason = "a thread computes elements that lie together";
  plan.decision.launch().threads = width.threads;
  plan.decision.launch().blocks = blocks_of(parts);
  plan.decision.details = {{"elements", std::to_string(elements)},
                           {"vector", std::to_string(width.vector)},
                           {"unroll", std::to_string(width.unroll)}};
  for (const LoopPart& part : parts) {
    if (part.width.vector == width.vector && part.width.unroll == width.unroll) continue;
    const hlo::Shape& shape = shape_of(fusion.computation(), partition.functions[static_cast<size_t>(part.function)]);
    plan.decision.details.emplace_back(fmt::format("of {}", hlo::to_string(shape)),
                                       fmt::format("vector {}, unroll {}", part.width.vector, part.width.unroll));
  }
  plan.emit = [fusion, parts, blocks, options, decision = plan.decision](mlir::ModuleOp target,
                                                                         const std::string& name) -> Result<void> {
    STRATA_TRY(const FusionFunctions functions, FusionFunctions::create(target, fusion.module, fusion.id, options));
    Kernel kernel(functions, name, decision);
    Values outputs(kernel.outputs());
    for (const LoopPart& part : parts) {
      const auto& function = functions.partition().functions[static_cast<size_t>(part.function)];
      for (const IndexingMap& map : maps_of(part, shape_of(functions.computation(), function), blocks)) {
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
