// What a fusion costs as one kernel.
#include <algorithm>
#include <limits>

#include "emitters/fusion/bandwidth.h"
#include "emitters/fusion/element_work.h"
#include "emitters/fusion/pass.h"
#include "emitters/kinds/plan.h"
#include "emitters/kinds/product/product.h"
#include "emitters/kinds/reduction_shape.h"
#include "hlo/indexing/evaluations.h"
#include "hlo/scan_window.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

/// Elements beside each other that a thread has at least, where all are wide.
constexpr double kVector = 4;

/// Operations of an element whose code is there again: for vectors of four, of 16 bytes each, half of what an
/// instruction cache of 128 KB holds.
constexpr double kMostRepeatedCode = 1024;

constexpr double kSectorBytes = 32;  ///< that caches move at least

double bytes_of(const hlo::Shape& shape) {
  double bytes = 0;
  for (const hlo::Shape& element : shape.elements) bytes += bytes_of(element);
  if (shape.is_array()) bytes = static_cast<double>(shape.element_count()) * hlo::byte_width(shape.type);
  return bytes;
}

/// A reduction, or a window that grows with the index: emitters compute both by several threads together.
bool is_combined(const hlo::Computation& computation, const Instruction& it) {
  return it.opcode == Opcode::Reduce || hlo::scan_window(computation, it).has_value();
}

/// Whether a long reduction shares the kernel with other operators, and each of its elements is computed by one thread.
bool has_serial_reduction(const hlo::Computation& computation, const std::vector<InstructionId>& once) {
  int operators = 0;
  bool serial = false;
  for (InstructionId id = 0; id <= computation.root; ++id) {
    const Instruction& it = computation[id];
    const bool moves = it.opcode == Opcode::Tuple || it.opcode == Opcode::GetTupleElement ||
                       it.opcode == Opcode::Broadcast || it.operands.empty();
    // Scalars cost nothing: initial values, what follows from a sum of all.
    if (it.opcode == Opcode::Reduce || (!moves && indexing::elements_of(it.shape) > 1)) ++operators;
    serial |= is_combined(computation, it) && indexing::is_long_reduction(computation, it) &&
              std::find(once.begin(), once.end(), id) == once.end();
  }
  return serial && operators > 1;
}

/// Whether a product shares the kernel with other operators, and is not computed by threads together.
bool has_serial_product(const hlo::Computation& computation, const std::vector<InstructionId>& once) {
  const auto is_work = [](const Instruction& it) {
    const bool moves = it.opcode == Opcode::Tuple || it.opcode == Opcode::GetTupleElement ||
                       it.opcode == Opcode::Broadcast || it.operands.empty();
    return !moves && (it.opcode == Opcode::Dot || indexing::elements_of(it.shape) > 1);
  };
  int64_t operators = 0;
  bool serial = false;
  for (InstructionId id = 0; id <= computation.root; ++id) {
    operators += is_work(computation[id]) ? 1 : 0;
    serial |= computation[id].opcode == Opcode::Dot && std::find(once.begin(), once.end(), id) == once.end();
  }
  return serial && operators > 1;
}

/// Multiply-adds and what goes with them.
double operations_of_products(const hlo::Computation& computation, const std::vector<InstructionId>& once,
                              const Target& target) {
  double sum = 0;
  for (const InstructionId id : once) {
    if (const auto shape = product_shape(computation, id))
      sum += product_operations(choose_product_tiling(computation, *shape, target), *shape);
  }
  return sum;
}

/// How many threads of a block compute each element of the rows of the only product that is computed once.
double threads_of_rows(const hlo::Computation& computation, const std::vector<InstructionId>& once,
                       const Target& target) {
  for (const InstructionId id : once) {
    if (const auto shape = product_shape(computation, id))
      return threads_of_row_element(choose_product_tiling(computation, *shape, target), *shape);
  }
  return 1;
}

/// What caches serve beside the elements of products' rows themselves: where rows of different batches lie beside each
/// other, each warp along the columns of a block reads a sector for each element of its batch.
double bytes_beside_rows(const hlo::Computation& computation, const std::vector<InstructionId>& once, double blocks,
                         const Target& target) {
  double sum = 0;
  for (const InstructionId id : once) {
    const auto shape = product_shape(computation, id);
    if (!shape) continue;
    const InstructionId rows = computation[id].operands[static_cast<size_t>(1 - shape->weights)];
    const int64_t innermost = innermost_in_memory(computation, rows);
    const bool apart = std::any_of(shape->batch.begin(), shape->batch.end(),
                                   [&](const ProductDimension& one) { return one.in_rows == innermost; });
    const auto warps = static_cast<double>(choose_product_tiling(computation, *shape, target).column_warps);
    const double times = std::max(blocks / static_cast<double>(shape->batches()), 1.0) * warps;
    const double beside = std::max(kSectorBytes - hlo::byte_width(computation[rows].shape.type), 0.0);
    if (apart) sum += indexing::elements_of(computation[rows].shape) * times * beside;
  }
  return sum;
}

/// Of each instruction whether only broadcasts read it, to elements that lie beside each other in memory: what it has
/// for a row, threads compute once for their vectors.
std::vector<bool> same_along_rows(const hlo::Computation& computation) {
  const size_t count = computation.instructions.size();
  std::vector<bool> same(count, true), read(count, false);
  for (InstructionId id = computation.root; id >= 0; --id) {
    const Instruction& it = computation[id];
    const auto at = static_cast<size_t>(id);
    if (!read[at]) same[at] = false;
    const bool moves = it.opcode == Opcode::Reshape || it.opcode == Opcode::Slice || it.opcode == Opcode::Broadcast;
    bool passes_on = same[at] && (hlo::is_elementwise(it.opcode) || moves);
    if (it.opcode == Opcode::Broadcast) {
      const hlo::Shape& from = computation.operand_shape(it, 0);
      const std::vector<int64_t>& kept = it.dimensions();
      const int64_t innermost = it.shape.rank() == 0 ? -1 : it.shape.minor_to_major[0];
      const auto place = std::find(kept.begin(), kept.end(), innermost);
      const bool spread = place == kept.end() || from.dim(place - kept.begin()) == 1;
      passes_on |= innermost >= 0 && spread && static_cast<double>(it.shape.dim(innermost)) >= kVector;
    }
    for (const InstructionId operand : it.operands) {
      read[static_cast<size_t>(operand)] = true;
      if (!passes_on) same[static_cast<size_t>(operand)] = false;
    }
  }
  return same;
}

/// Elements of the widest result that a thread computes at least: 16 bytes of them. What is the same for all elements,
/// it computes once for these.
double vector_of_results(const hlo::Computation& computation) {
  constexpr int kVectorBytes = 16;
  const hlo::Shape& root = computation.root_instruction().shape;
  int widest = 1;
  for (const hlo::Shape& shape : root.is_tuple() ? root.elements.list() : std::vector<hlo::Shape>{root}) {
    if (shape.is_array()) widest = std::max(widest, hlo::byte_width(shape.type));
  }
  return static_cast<double>(kVectorBytes) / widest;
}

/// Whether some long reduction would be serial whatever the plan: an emitter combines those of one shape
/// (find_reductions) and leaves the others to single threads. Most pairs of groups with reductions of several shapes
/// are refused for it.
bool has_reductions_apart(const hlo::Computation& computation) {
  const bool others = std::any_of(
      computation.instructions.begin(), computation.instructions.end(),
      [&](const Instruction& it) { return it.opcode == Opcode::Dot || hlo::scan_window(computation, it).has_value(); });
  if (others) return false;
  std::vector<InstructionId> once;
  if (const Result<ReductionHeroes> heroes = find_reductions(computation)) once = heroes->ids();
  return has_serial_reduction(computation, once);
}

}  // namespace

KernelWork kernel_work(const hlo::Module& module, const Target& target) {
  const hlo::Computation& computation = module.entry_computation();
  const bool multiplies = std::any_of(computation.instructions.begin(), computation.instructions.end(),
                                      [](const Instruction& it) { return it.opcode == Opcode::Dot; });
  const bool reduces = std::any_of(computation.instructions.begin(), computation.instructions.end(),
                                   [](const Instruction& it) { return it.opcode == Opcode::Reduce; });
  const bool scans = std::any_of(computation.instructions.begin(), computation.instructions.end(),
                                 [&](const Instruction& it) { return hlo::scan_window(computation, it).has_value(); });
  // Only of reductions it matters whether an emitter computes them once: others are read as often as they are written.
  std::vector<InstructionId> once;
  KernelWork work;
  double threads = 0, blocks = 0;
  std::vector<int> passes;
  std::vector<InstructionId> staged;
  for (const auto& [has, emitter] : {std::pair(multiplies, "product"), std::pair(reduces && !multiplies, "reduction"),
                                     std::pair(scans && !multiplies, "scan")}) {
    if (!has || !once.empty()) continue;
    if (const Result<Plan> plan = choose_plan({module, module.entry, target, /*explained=*/false}, emitter)) {
      const Launch& launch = plan->decision.launches.back();
      once = plan->decision.heroes;
      passes = plan->decision.passes;
      staged = plan->decision.staged;
      work.fills = std::ssize(plan->decision.preparations);
      threads = static_cast<double>(launch.blocks) * launch.threads;
      blocks = static_cast<double>(launch.blocks);
    }
  }
  const indexing::EvaluationCounts counts(module, module.entry, once, static_cast<int64_t>(blocks),
                                          threads_of_rows(computation, once, target));
  const indexing::Evaluations evaluated = counts.whole();
  indexing::Evaluations read = counts.whole(passes);
  // What stays on the chip is read once.
  const indexing::Evaluations in_one_pass = staged.empty() ? read : counts.whole(std::vector<int>(passes.size(), 0));
  for (const InstructionId id : staged) read[static_cast<size_t>(id)] = in_one_pass[static_cast<size_t>(id)];
  work.repeated = indexing::repeated_reductions(computation, evaluated);
  work.serial = multiplies ? has_serial_product(computation, once) : has_serial_reduction(computation, once);

  const std::vector<bool> along_rows = same_along_rows(computation);
  const double elements_of_thread = vector_of_results(computation);
  const auto share = [&](InstructionId id) {
    if (!along_rows[static_cast<size_t>(id)]) return 1.0;
    return indexing::elements_of(computation[id].shape) == 1 ? elements_of_thread : kVector;
  };
  const auto operations_of = [&](const indexing::Evaluations& of) {
    double sum = 0;
    for (InstructionId id = 0; id <= computation.root; ++id) {
      sum += of[static_cast<size_t>(id)] * element_operations(computation, computation[id]) / share(id);
    }
    return sum;
  };
  const std::vector<double> copies = counts.code_copies();
  for (InstructionId id = 0; id <= computation.root; ++id) {
    work.repeated_code +=
        std::max(copies[static_cast<size_t>(id)] - 1, 0.0) * element_operations(computation, computation[id]);
  }
  work.operations = operations_of(counts.of_warps(passes)) + operations_of_products(computation, once, target);
  for (const InstructionId root : counts.roots()) {
    const Instruction& it = computation[root];
    const hlo::Shape& shared = it.opcode == Opcode::Scatter ? computation[it.operands.back()].shape : it.shape;
    if (once.empty()) threads = std::max(threads, indexing::elements_of(shared));
    work.of_longest_thread = std::max(work.of_longest_thread, operations_of(counts.of_element(root)));
  }
  work.of_longest_thread = std::max(work.of_longest_thread, work.operations / std::max(threads, 1.0));

  work.memory_bytes = bytes_of(computation.root_instruction().shape);
  for (InstructionId id = 0; id <= computation.root; ++id) {
    const Instruction& it = computation[id];
    const double times = read[static_cast<size_t>(id)];
    if (it.opcode != Opcode::Parameter || times == 0) continue;
    // Of an array that is read in part only that part moves.
    work.memory_bytes += std::min(bytes_of(it.shape), times * kSectorBytes);
    work.cache_bytes += times * (it.shape.is_array() ? hlo::byte_width(it.shape.type) : 4) / share(id);
  }
  work.cache_bytes += bytes_beside_rows(computation, once, blocks, target);
  if (blocks > 0) work.blocks = blocks;
  return work;
}

KernelTime kernel_time(const hlo::Module& module, const Target& target) {
  KernelTime time;
  time.launch = 1e6 * target.kernel_seconds();
  if (has_reductions_apart(module.entry_computation())) {
    time.all = std::numeric_limits<double>::infinity();
    return time;
  }
  const KernelWork work = kernel_work(module, target);
  const Rates& rates = target.rates;
  time.launch += static_cast<double>(work.fills) * 1e6 * rates.launch;
  time.memory = memory_microseconds(work.memory_bytes, work.blocks, target);
  time.all_memory = work.memory_bytes / (rates.memory_bandwidth / 1e6);
  time.cache = work.cache_bytes / (rates.cached_loads / 1e6);
  // Of operations one an instruction, where the rate counts two of a multiply-add.
  const double idle = std::max(target.multiprocessors / work.blocks, 1.0);
  time.operations = work.operations / (rates.scalar_rate / 2e6) * idle;
  time.thread = work.of_longest_thread * (rates.dependent_operation * 1e6);
  const bool refused = !work.repeated.empty() || work.serial || work.repeated_code > kMostRepeatedCode;
  time.all = refused ? std::numeric_limits<double>::infinity()
                     : time.launch + std::max({time.memory, time.cache, time.operations, time.thread});
  return time;
}

double estimated_microseconds(const hlo::Module& module, const Target& target) {
  return kernel_time(module, target).all;
}

}  // namespace strata::emitters
