// What a fusion costs as one kernel.
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "emitters/fusion/bandwidth.h"
#include "emitters/fusion/instruction_roles.h"
#include "emitters/fusion/kernel_tiles.h"
#include "emitters/fusion/pass.h"
#include "emitters/fusion/priced_kernel.h"
#include "emitters/kinds/concatenate.h"
#include "emitters/kinds/permutation.h"
#include "emitters/kinds/plan.h"
#include "emitters/kinds/product/product.h"
#include "emitters/kinds/reduction_shape.h"
#include "emitters/kinds/scatter/in_place_plan.h"
#include "hlo/element_work.h"
#include "hlo/indexing/evaluations.h"
#include "hlo/indexing/serial_terms.h"
#include "hlo/inline_calls.h"
#include "hlo/scan_window.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

constexpr double kWarp = 32;  ///< threads

/// What a warp waits for a load that caches serve, in µs, and how many warps of a multiprocessor wait at a time.
constexpr double kLoad = 0.15;
constexpr double kWarpsThatWait = 32;
/// Branches of so few pieces are taken to be predicates, whose loads are under way together. (Seen: two stacks of 49 in
/// a loop took an H200 592 µs, and 600 by this.)
constexpr double kBranchesTogether = 4;

/// Elements beside each other that a thread has at least, where all are wide.
constexpr double kVector = 4;

/// Operations of an element whose code is there again: for vectors of four, of 16 bytes each, half of what an
/// instruction cache of 128 KB holds.
constexpr double kMostRepeatedCode = 1024;

/// Where blocks compute results that have nothing to do with each other, each by code of its own, code beyond this
/// (KernelWork::code_apart; about two instructions of 16 bytes each, so again 128 KB) is fetched again and again.
/// Then instructions take so many times as long: an H200 issued 0.57 a cycle and multiprocessor of 36 leaves of an
/// optimizer, 0.6 of 32 pieces of 16 KB of straight code, and 3.5 of one piece for all blocks.
constexpr double kMostCodeApart = 4096;
constexpr double kFetching = 6;

double bytes_of(const hlo::Shape& shape) {
  double bytes = 0;
  for (const hlo::Shape& element : shape.elements) bytes += bytes_of(element);
  if (shape.is_array()) bytes = static_cast<double>(shape.element_count()) * hlo::byte_width(shape.type);
  return bytes;
}

/// Whether a long reduction, or several inside each other, share the kernel with other operators, and each element is
/// computed by one thread.
bool has_serial_reduction(const hlo::Computation& computation, const std::vector<InstructionId>& once) {
  const auto operators = std::count_if(computation.instructions.begin(),
                                       computation.instructions.begin() + computation.root + 1, is_operator);
  if (operators <= 1) return false;
  const std::vector<indexing::SerialTerms> terms = indexing::serial_terms(computation, once);
  return std::any_of(terms.begin(), terms.end(),
                     [](const indexing::SerialTerms& it) { return it.combined > indexing::kFewTerms; });
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

/// What caches serve beside the elements of a product's rows themselves: where rows of different batches lie beside
/// each other, each warp along the columns of a block reads a sector for each element of its batch.
double bytes_beside_rows(const hlo::Computation& computation, const ProductShape& shape, const ProductTiling& tiling,
                         double blocks) {
  const InstructionId rows = computation[shape.id].operands[static_cast<size_t>(1 - shape.weights)];
  const int64_t innermost = innermost_in_memory(computation, rows);
  const bool apart = std::any_of(shape.batch.begin(), shape.batch.end(),
                                 [&](const ProductDimension& one) { return one.in_rows == innermost; });
  if (!apart) return 0;
  const auto warps = static_cast<double>(tiling.column_warps);
  const double times = std::max(blocks / static_cast<double>(shape.batches()), 1.0) * warps;
  const double beside = std::max(kSectorBytes - hlo::byte_width(computation[rows].shape.type), 0.0);
  return indexing::elements_of(computation[rows].shape) * times * beside;
}

/// What caches could serve beside what they do while a product's blocks wait: one block reads the weights of its
/// columns at the rate of a multiprocessor, and then the lines of the rows that its lanes read together. Only of matrix
/// instructions, whose rows are many beside a block's columns.
double bytes_of_idle_caches(const hlo::Computation& computation, const ProductShape& shape, const ProductTiling& tiling,
                            double blocks, const Target& target) {
  if (!tiling.matrix()) return 0;
  const hlo::ElementType type =
      computation.operand_shape(computation[shape.id], static_cast<size_t>(1 - shape.weights)).type;
  const auto terms = static_cast<double>(shape.term_count());
  const auto rows = static_cast<double>(shape.row_count() * hlo::byte_width(type)) * terms;
  const double weights =
      static_cast<double>(std::min(tiling.block_columns(), shape.column_count()) * shape.bytes) * terms;
  const double seconds = weights / target.rates.multiprocessor_bandwidth +
                         product_row_lines(tiling, shape, hlo::byte_width(type)) * kSecondsOfRowLine;
  const double turns = std::max(blocks / target.multiprocessors, 1.0);
  return std::max(seconds * turns * target.rates.cached_loads - (rows + weights) * blocks, 0.0);
}

/// What products that a kernel computes once take beside reading their operands once.
void add_products(const hlo::Computation& computation, const Target& target, ComputedOnce& result) {
  for (const InstructionId id : result.instructions) {
    const auto shape = product_shape(computation, id);
    if (!shape) continue;
    const ProductTiling tiling = choose_product_tiling(computation, *shape, target);
    result.operations += product_operations(tiling, *shape, target);
    result.threads_of_rows = threads_of_row_element(tiling, *shape);
    result.cache_bytes += bytes_beside_rows(computation, *shape, tiling, result.blocks) +
                          bytes_of_idle_caches(computation, *shape, tiling, result.blocks, target);
  }
}

/// Whether an instruction has the same for all elements that lie beside each other in memory.
bool is_spread(const hlo::Computation& computation, const Instruction& it) {
  if (it.opcode != Opcode::Broadcast || it.shape.rank() == 0) return false;
  const hlo::Shape& from = computation.operand_shape(it, 0);
  const std::vector<int64_t>& kept = it.dimensions();
  const int64_t innermost = it.shape.minor_to_major[0];
  const auto place = std::find(kept.begin(), kept.end(), innermost);
  const bool spread = place == kept.end() || from.dim(place - kept.begin()) == 1;
  return spread && static_cast<double>(it.shape.dim(innermost)) >= kVector;
}

/// Of each instruction whether only broadcasts read it, to elements that lie beside each other in memory: what it has
/// for a row, threads compute once for their vectors.
std::vector<bool> same_along_rows(const PricedKernel& kernel) {
  const size_t count = kernel.instructions.size();
  std::vector<bool> same(count, true), read(count, false);
  for (const InstructionId root : kernel.graph.roots) same[static_cast<size_t>(root)] = false;
  for (size_t i = count; i-- > 0;) {
    const PricedInstruction& it = *kernel.instructions[i];
    if (!read[i]) same[i] = false;
    const bool passes_on = it.spreads || (same[i] && it.passes_on);
    for (const InstructionId operand : kernel.graph.operands_of(static_cast<InstructionId>(i))) {
      read[static_cast<size_t>(operand)] = true;
      if (!passes_on) same[static_cast<size_t>(operand)] = false;
    }
  }
  return same;
}

/// Bytes that caches serve beside the elements themselves for results of which a thread writes several for its row
/// (Decision::apart): a sector for each element of such a result, and for each that is read for them alone of an array
/// that has others for other rows.
double bytes_of_rows_apart(const PricedKernel& kernel, const ComputedOnce& together,
                           const indexing::Evaluations& evaluated) {
  if (together.apart.empty()) return 0;
  const auto is_apart = [&](InstructionId id) { return std::ranges::find(together.apart, id) != together.apart.end(); };
  indexing::CountedGraph others = kernel.graph;
  std::erase_if(others.roots, is_apart);
  const indexing::EvaluationCounts counts(others, together.instructions, static_cast<int64_t>(together.blocks),
                                          together.threads_of_rows);
  const indexing::Evaluations without = counts.whole(together.passes);
  double rows = 1, bytes = 0;
  for (const InstructionId id : together.instructions)
    rows = std::max(rows, kernel.instructions[static_cast<size_t>(id)]->counted.elements);
  const std::vector<bool> along_rows = same_along_rows(kernel);
  for (size_t i = 0; i < kernel.instructions.size(); ++i) {
    const PricedInstruction& it = *kernel.instructions[i];
    if (it.counted.opcode != Opcode::Parameter || along_rows[i] || it.counted.elements < rows) continue;
    bytes += std::max(evaluated[i] - without[i], 0.0) * std::max(kSectorBytes - it.element_bytes, 0.0);
  }
  for (const InstructionId root : kernel.graph.roots) {
    if (is_apart(root)) bytes += kernel.instructions[static_cast<size_t>(root)]->counted.elements * kSectorBytes;
  }
  return bytes;
}

/// Elements of the widest result that a thread computes at least: 16 bytes of them. What is the same for all elements,
/// it computes once for these.
double vector_of_results(const PricedKernel& kernel) {
  constexpr int kVectorBytes = 16;
  int widest = 1;
  for (const InstructionId root : kernel.graph.roots)
    widest = std::max(widest, kernel.instructions[static_cast<size_t>(root)]->widest);
  return static_cast<double>(kVectorBytes) / widest;
}

/// Whether some results of a kernel have nothing to do with others: they read the same parameters, constants and single
/// numbers at most.
bool has_results_apart(const PricedKernel& kernel) {
  if (kernel.graph.roots.size() < 2) return false;
  std::vector<size_t> leader(kernel.instructions.size());
  std::iota(leader.begin(), leader.end(), size_t{0});
  const auto leader_of = [&](size_t i) {
    while (leader[i] != i) i = leader[i] = leader[leader[i]];
    return i;
  };
  const auto is_common = [&](size_t i) {
    const PricedInstruction& it = *kernel.instructions[i];
    const auto id = static_cast<InstructionId>(i);
    return it.counted.elements <= 1 || kernel.graph.operands_of(id).empty();
  };
  for (size_t i = 0; i < leader.size(); ++i) {
    if (is_common(i)) continue;
    for (const InstructionId operand : kernel.graph.operands_of(static_cast<InstructionId>(i))) {
      if (!is_common(static_cast<size_t>(operand))) leader[leader_of(static_cast<size_t>(operand))] = leader_of(i);
    }
  }
  std::optional<size_t> first;
  for (const InstructionId root : kernel.graph.roots) {
    const auto i = static_cast<size_t>(root);
    if (is_common(i)) continue;
    if (first && leader_of(i) != *first) return true;
    first = leader_of(i);
  }
  return false;
}

/// What the atomic updates of a scatter take where the emitters would do it in place. Threads compute what they
/// scatter meanwhile. 0 where rows are gathered, or updates of others replaced.
double update_microseconds(const hlo::Module& module, const hlo::Computation& from, const Instruction& it,
                           const Target& target) {
  hlo::Computation alone;
  alone.name = "scatter";
  const auto parameter = [&](const hlo::Shape& shape) {
    const auto id = static_cast<InstructionId>(alone.instructions.size());
    const hlo::ParameterAttributes number{std::ssize(alone.parameters)};
    alone.instructions.push_back({"p" + std::to_string(id), Opcode::Parameter, shape, {}, {}, number, {}});
    alone.parameters.push_back(id);
    return id;
  };
  const auto add = [&](Instruction copy, std::vector<InstructionId> operands) {
    copy.operands = std::move(operands);
    alone.instructions.push_back(std::move(copy));
    return static_cast<InstructionId>(alone.instructions.size()) - 1;
  };
  std::vector<InstructionId> operands;
  for (const InstructionId operand : it.operands) {
    // One number everywhere is filled in, where an array is copied.
    const Instruction& read = from[operand];
    const bool fills = read.opcode == Opcode::Broadcast && from[read.operands[0]].opcode == Opcode::Constant;
    operands.push_back(fills ? add(read, {add(from[read.operands[0]], {})}) : parameter(read.shape));
  }
  alone.root = add(it, operands);
  const hlo::Module whole = hlo::extract_module(module, std::move(alone));
  const Fusion fusion{whole, whole.entry, target, /*explained=*/false};
  const Result<Plan> plan = choose_plan(fusion);
  if (!plan || plan->decision.emitter != "scatter") return 0;
  const Result<ScatterPlan> made = plan_in_place(fusion);
  return made ? atomic_microseconds(*made, whole.entry_computation(), target) : 0;
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

/// What stands in a kernel's code of a loop over terms. The assembler writes up to so many out, each with its loads and
/// their addresses.
double code_of_loop(int64_t terms) {
  constexpr int64_t kMostWrittenOut = 16;
  constexpr double kOfTerm = 4;
  return terms > 1 ? kOfTerm * static_cast<double>(std::min(terms, kMostWrittenOut)) : 0;
}

}  // namespace

PricedInstruction priced_instruction(const hlo::Module& module, hlo::ComputationId computation, InstructionId id,
                                     const Target& target) {
  const hlo::Computation& from = module[computation];
  const Instruction& it = from[id];
  PricedInstruction priced;
  priced.counted = indexing::counted_instruction(module, computation, id);
  priced.operations = hlo::element_operations(from, it);
  priced.code = priced.operations + code_of_loop(priced.counted.terms);
  priced.bytes = bytes_of(it.shape);
  priced.element_bytes = it.shape.is_array() ? hlo::byte_width(it.shape.type) : 4;
  if (it.shape.is_array()) priced.widest = hlo::byte_width(it.shape.type);
  for (const hlo::Shape& element : it.shape.elements) {
    if (element.is_array()) priced.widest = std::max(priced.widest, hlo::byte_width(element.type));
  }
  priced.spreads = is_spread(from, it);
  const bool moves = it.opcode == Opcode::Reshape || it.opcode == Opcode::Slice || it.opcode == Opcode::Broadcast;
  priced.passes_on = hlo::is_elementwise(it.opcode) || moves;
  if (const auto permutation = permutation_of(from, id)) {
    if (reads_of_loop(*permutation, hlo::byte_width(it.shape.type)).lines >= kLeastLineRatio)
      priced.permutation = std::hash<std::string>()(permutation->text()) | 1U;
  }
  priced.array = array_in_memory(it.shape);
  const bool of_arrays = it.shape.is_array() && std::ranges::all_of(it.operands, [&](InstructionId operand) {
                           return from[operand].shape.is_array();
                         });
  if (of_arrays && !it.operands.empty()) {
    if (Result<indexing::SharedReads> reads = indexing::shared_operand_reads(module, computation, id))
      priced.maps = *std::move(reads);
    if (priced.maps != nullptr) priced.tiles = tile_traits(from, id, *priced.maps);
  }
  if (it.opcode == Opcode::Scatter) priced.update_microseconds = update_microseconds(module, from, it, target);
  return priced;
}

/// Of each instruction whether all results have its elements and are computed of it at their own places, if any is.
std::vector<bool> at_places_of_results(const PricedKernel& kernel) {
  std::vector<bool> at(kernel.instructions.size(), false);
  const auto elements = [&](InstructionId id) {
    return kernel.instructions[static_cast<size_t>(id)]->counted.elements;
  };
  if (kernel.graph.roots.empty()) return at;
  const double first = elements(kernel.graph.roots.front());
  if (!std::ranges::all_of(kernel.graph.roots, [&](InstructionId root) { return elements(root) == first; })) return at;
  for (const InstructionId root : kernel.graph.roots) at[static_cast<size_t>(root)] = true;
  for (size_t i = at.size(); i-- > 0;) {
    if (!at[i] || !hlo::is_elementwise(kernel.instructions[i]->counted.opcode)) continue;
    for (const InstructionId operand : kernel.graph.operands_of(static_cast<InstructionId>(i)))
      at[static_cast<size_t>(operand)] = true;
  }
  return at;
}

/// Branches that a warp takes one after the other at a concatenation of pieces beside each other, beyond a few. In each
/// it waits for what it loads there.
double branches_of_warp(const PricedKernel& kernel, size_t place) {
  const indexing::CountedInstruction& it = kernel.instructions[place]->counted;
  if (it.opcode != Opcode::Concatenate || !it.parts_warps) return 0;
  double branches = 0;
  for (const InstructionId piece : kernel.graph.operands_of(static_cast<InstructionId>(place))) {
    const bool loads = kernel.instructions[static_cast<size_t>(piece)]->counted.opcode == Opcode::Parameter ||
                       !kernel.graph.operands_of(piece).empty();
    branches += loads ? 1 : 0;
  }
  return std::clamp(branches - kBranchesTogether, 0.0, kWarp);
}

/// KernelWork::waits of a kernel that evaluates each instruction so often.
double waits_of_warps(const PricedKernel& kernel, const indexing::Evaluations& of_warps, bool is_loop) {
  std::vector<bool> at_places;  // found where some instruction has branches
  double waits = 0;
  for (size_t i = 0; i < kernel.instructions.size(); ++i) {
    const double branches = branches_of_warp(kernel, i);
    if (branches == 0) continue;
    // Where results are concatenations, threads write each piece by itself (kinds/concatenate.cpp).
    if (at_places.empty()) at_places = at_places_of_results(kernel);
    const size_t pieces = kernel.graph.operands_of(static_cast<InstructionId>(i)).size();
    if (!is_loop || !at_places[i] || pieces > kMostOperandsApart) waits += of_warps[i] / kWarp * branches;
  }
  return waits;
}

KernelWork kernel_work(const PricedKernel& kernel, const ComputedOnce& together) {
  const indexing::EvaluationCounts counts(kernel.graph, together.instructions, static_cast<int64_t>(together.blocks),
                                          together.threads_of_rows);
  const indexing::Evaluations evaluated = counts.whole();
  KernelWork work;
  work.repeated = counts.repeated_reductions(evaluated);
  work.serial = together.is_serial;
  work.fills = together.fills;
  work.cache_bytes = bytes_of_rows_apart(kernel, together, counts.whole(together.passes));
  indexing::Evaluations read = together.passes.empty() ? evaluated : counts.whole(together.passes);
  // What stays on the chip is read once.
  if (!together.staged.empty()) {
    const indexing::Evaluations in_one_pass = counts.whole(std::vector<int>(together.passes.size(), 0));
    for (const InstructionId id : together.staged) read[static_cast<size_t>(id)] = in_one_pass[static_cast<size_t>(id)];
  }

  const std::vector<bool> along_rows = same_along_rows(kernel);
  const double elements_of_thread = vector_of_results(kernel);
  const auto share = [&](size_t i) {
    if (!along_rows[i]) return 1.0;
    return kernel.instructions[i]->counted.elements == 1 ? elements_of_thread : kVector;
  };
  const size_t count = kernel.instructions.size();
  const indexing::Evaluations of_warps = counts.of_warps(together.passes);
  const std::vector<double> copies = counts.code_copies();
  const TileBytes tiles = tile_bytes(kernel, together);
  const bool is_loop = together.instructions.empty();  // others' threads have single elements of most of what they do
  work.waits = waits_of_warps(kernel, of_warps, is_loop);
  std::vector<double> operations(count);
  double code_of_thread = 0;
  for (size_t i = 0; i < count; ++i) {
    const PricedInstruction& it = *kernel.instructions[i];
    operations[i] = it.operations / share(i);
    work.operations += of_warps[i] * operations[i];
    if (it.counted.opcode != Opcode::Parameter) work.computing += of_warps[i] * operations[i];
    work.code += copies[i] * it.code;
    code_of_thread += copies[i] * it.code * (along_rows[i] ? 1.0 : elements_of_thread);
    work.repeated_code += std::max(copies[i] - 1, 0.0) * it.operations;
    if (it.counted.opcode != Opcode::Parameter || read[i] == 0) continue;
    work.memory_bytes += std::min(tiles.parts[i], read[i] * kSectorBytes);
    work.cache_bytes += read[i] * it.element_bytes / share(i);
  }
  if (is_loop && code_of_thread > kMostCodeApart && has_results_apart(kernel)) work.code_apart = code_of_thread;
  work.operations = work.operations * together.crowding + together.operations;
  work.cache_bytes += together.cache_bytes;
  double threads = together.threads;
  work.memory_bytes += tiles.across;
  for (const InstructionId root : kernel.graph.roots) {
    const PricedInstruction& it = *kernel.instructions[static_cast<size_t>(root)];
    work.memory_bytes += it.bytes;
    work.update_microseconds = std::max(work.update_microseconds, it.update_microseconds);
    if (!together.instructions.empty()) continue;
    const std::span<const InstructionId> operands = kernel.graph.operands_of(root);
    const InstructionId shared = it.counted.opcode == Opcode::Scatter ? operands.back() : root;
    threads = std::max(threads, kernel.instructions[static_cast<size_t>(shared)]->counted.elements);
  }
  // Pads are branches, after each of which the elements of a thread are computed one after the other.
  const bool branches = std::any_of(kernel.instructions.begin(), kernel.instructions.end(),
                                    [](const PricedInstruction* it) { return it->counted.opcode == Opcode::Pad; });
  const double one_after_other = branches ? elements_of_thread : 1;
  work.of_longest_thread =
      std::max(counts.of_longest_thread(operations) * one_after_other, work.operations / std::max(threads, 1.0));
  if (together.blocks > 0) work.blocks = together.blocks;
  return work;
}

namespace {

/// A thread of a scan computes its elements one after the other and keeps them, so that few threads are resident, and
/// what reads its operands waits: 974 µs measured on an H100, half of it beyond the lines' ends, where loops take about
/// 120 for as many operations.
constexpr double kCrowdingOfScans = 4;

/// What the emitter that would take a kernel computes once. Only of reductions, scans and products it matters: others
/// are read as often as they are written.
ComputedOnce computed_once(const hlo::Module& module, const Target& target) {
  const hlo::Computation& computation = module.entry_computation();
  const bool multiplies = std::any_of(computation.instructions.begin(), computation.instructions.end(),
                                      [](const Instruction& it) { return it.opcode == Opcode::Dot; });
  const bool reduces = std::any_of(computation.instructions.begin(), computation.instructions.end(),
                                   [](const Instruction& it) { return it.opcode == Opcode::Reduce; });
  const bool scans = std::any_of(computation.instructions.begin(), computation.instructions.end(),
                                 [&](const Instruction& it) { return hlo::scan_window(computation, it).has_value(); });
  ComputedOnce result;
  for (const auto& [has, emitter] : {std::pair(multiplies, "product"), std::pair(reduces && !multiplies, "reduction"),
                                     std::pair(scans && !multiplies, "scan")}) {
    if (!has || !result.instructions.empty()) continue;
    if (const Result<Plan> plan = choose_plan({module, module.entry, target, /*explained=*/false}, emitter)) {
      const Launch& launch = plan->decision.launches.back();
      result.instructions = plan->decision.heroes;
      result.passes = plan->decision.passes;
      result.staged = plan->decision.staged;
      result.apart = plan->decision.apart;
      result.fills = std::ssize(plan->decision.preparations);
      result.threads = static_cast<double>(launch.blocks) * launch.threads;
      result.blocks = static_cast<double>(launch.blocks);
      if (emitter == std::string_view("scan")) result.crowding = kCrowdingOfScans;
    }
  }
  const std::vector<InstructionId>& once = result.instructions;
  result.is_serial = multiplies ? has_serial_product(computation, once) : has_serial_reduction(computation, once);
  add_products(computation, target, result);
  return result;
}

}  // namespace

KernelWork kernel_work(const hlo::Module& module, const Target& target) {
  const hlo::Computation& computation = module.entry_computation();
  const auto count = static_cast<size_t>(computation.root) + 1;
  std::vector<PricedInstruction> priced;
  for (size_t i = 0; i < count; ++i)
    priced.push_back(priced_instruction(module, module.entry, static_cast<InstructionId>(i), target));
  PricedKernel kernel;
  for (size_t i = 0; i < count; ++i) kernel.add(priced[i], computation.instructions[i].operands);
  const Instruction& root = computation.root_instruction();
  kernel.graph.roots = root.opcode == Opcode::Tuple ? root.operands : std::vector<InstructionId>{computation.root};
  return kernel_work(kernel, computed_once(module, target));
}

KernelTime time_of_work(const KernelWork& work, const Target& target) {
  KernelTime time;
  time.launch = 1e6 * target.kernel_seconds();
  const Rates& rates = target.rates;
  time.launch += static_cast<double>(work.fills) * 1e6 * rates.launch;
  time.memory = memory_microseconds(work.memory_bytes, work.blocks, target);
  time.all_memory = work.memory_bytes / (rates.memory_bandwidth / 1e6);
  time.cache = work.cache_bytes / (rates.cached_loads / 1e6);
  // Of operations one an instruction, where the rate counts two of a multiply-add.
  const double idle = std::max(target.multiprocessors / work.blocks, 1.0);
  const double fetching = work.code_apart > 0 ? kFetching : 1;
  time.operations = work.operations / (rates.scalar_rate / 2e6) * idle * fetching;
  time.computing = work.computing / (rates.scalar_rate / 2e6);
  time.thread = work.of_longest_thread * (rates.dependent_operation * 1e6);
  const bool refused =
      !work.repeated.empty() || work.serial || work.repeated_code > kMostRepeatedCode || work.code > kMostCode;
  time.all =
      refused ? std::numeric_limits<double>::infinity()
              : time.launch + std::max({time.memory, time.cache, time.operations, time.thread, work.update_microseconds,
                                        work.waits * kLoad / (kWarpsThatWait * target.multiprocessors)});
  return time;
}

KernelTime kernel_time(const hlo::Module& module, const Target& target) {
  if (!has_reductions_apart(module.entry_computation())) return time_of_work(kernel_work(module, target), target);
  KernelTime time;
  time.launch = 1e6 * target.kernel_seconds();
  time.all = std::numeric_limits<double>::infinity();
  return time;
}

double estimated_microseconds(const hlo::Module& module, const Target& target) {
  return kernel_time(module, target).all;
}

}  // namespace strata::emitters
