#include "hlo/indexing/evaluations.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "hlo/terms.h"

namespace strata::indexing {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

/// Whether an element is read at its own index. Of a dimension of one element that may be written as a number: another
/// number is that of another place, as of a slice.
bool is_identity(const IndexingMap& map) {
  if (!map.ranges.empty() || map.results.size() != map.dims.size()) return false;
  for (size_t i = 0; i < map.results.size(); ++i) {
    const Expr& result = map.results[i];
    const Interval& there = map.dims[i];
    const bool same = there.is_point() && result.is_constant() && result.value() == there.lo;
    if (!(result == Expr::dim(static_cast<int>(i))) && !same && !there.empty()) return false;
  }
  return true;
}

/// Elements beside each other in memory that go the same way through an instruction, if its conditions part neighbours;
/// more than there are if not.
int64_t run_of_one_way(const hlo::Computation& computation, const Instruction& it) {
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  const auto inside = [&](const hlo::Shape& shape, int64_t dimension) {
    int64_t elements = 1;
    for (const int64_t d : shape.minor_to_major) {
      if (d == dimension) break;
      elements *= std::max<int64_t>(shape.dim(d), 1);
    }
    return elements;
  };
  int64_t run = kAll;
  if (it.opcode == Opcode::Pad) {
    const std::vector<int64_t>& interior = it.as<hlo::PadAttributes>().interior;
    for (size_t d = 0; d < interior.size(); ++d) {
      if (interior[d] > 0) run = std::min(run, inside(it.shape, static_cast<int64_t>(d)));
    }
  } else if (it.opcode == Opcode::Concatenate) {
    const int64_t along = it.dimensions().front();
    for (size_t k = 0; k < it.operands.size(); ++k) {
      run = std::min(run, inside(it.shape, along) * computation.operand_shape(it, k).dim(along));
    }
  }
  return run;
}

/// Whether threads of a warp part at an instruction, with vectors of a few elements each.
bool parts_warps(const hlo::Computation& computation, const Instruction& it) {
  constexpr int64_t kElementsOfWarp = 128;
  return run_of_one_way(computation, it) < kElementsOfWarp;
}

/// How many elements of an operand a scatter evaluates: each update once, and indices for each vector of updates.
double of_scatter(const hlo::Computation& computation, const Instruction& scatter, int operand) {
  constexpr double kVector = 4;  // updates of a thread that lie beside each other, for all of which it asks once
  const double there = elements_of(computation.operand_shape(scatter, static_cast<size_t>(operand)));
  const size_t arrays = scatter.operands.size() / 2;
  if (static_cast<size_t>(operand) != arrays) return there;
  const hlo::Shape& indices = computation.operand_shape(scatter, arrays);
  const int64_t vector_dim = scatter.as<hlo::ScatterAttributes>().index_vector_dim;
  const double components = vector_dim < indices.rank() ? static_cast<double>(indices.dim(vector_dim)) : 1;
  return std::max(there, elements_of(computation.operand_shape(scatter, arrays + 1)) * components / kVector);
}

/// By how many elements of the result an element of a window's array is read, at most. With a stride of 2 about half as
/// many windows contain it as a window has places.
double readers_of(const hlo::WindowAttributes& attributes) {
  double readers = 1;
  for (const hlo::WindowDimension& window : attributes.window) {
    const int64_t step = window.stride / std::gcd(window.stride, window.rhs_dilate);
    readers *= static_cast<double>(ceil_div(window.size, step));
  }
  return readers;
}

CountedInstruction::OperandReads counted_read(const hlo::Computation& computation, const Instruction& it,
                                              const Read& read) {
  CountedInstruction::OperandReads counted{read.operand, read.tuple_element, read.unknown, {}, 0};
  const bool has_window = it.opcode == Opcode::ReduceWindow || it.opcode == Opcode::Convolution;
  for (const IndexingMap& map : read.maps) {
    double each = 1;
    for (const Interval& range : map.ranges) each *= static_cast<double>(range.size());
    // Of a window only what is no hole of the array below it.
    if (has_window && !map.ranges.empty()) each = static_cast<double>(hlo::terms_of(computation, it));
    const bool is_window = it.opcode == Opcode::ReduceWindow && !map.ranges.empty();
    const double readers = is_window ? readers_of(it.as<hlo::WindowAttributes>()) : each;
    const bool spreads = it.opcode == Opcode::Broadcast || it.opcode == Opcode::Reshape;
    counted.maps.push_back({is_identity(map), !map.constraints.empty(), each, readers, spreads ? map.hash() | 1U : 0});
  }
  if (it.opcode == Opcode::Scatter) counted.of_scatter = of_scatter(computation, it, read.operand);
  return counted;
}

}  // namespace

double elements_of(const hlo::Shape& shape) {
  const hlo::Shape& first = shape.is_tuple() && !shape.elements.empty() ? shape.elements[0] : shape;
  return first.is_array() ? static_cast<double>(first.element_count()) : 1;
}

CountedInstruction counted_instruction(const hlo::Module& module, hlo::ComputationId computation,
                                       InstructionId instruction) {
  const hlo::Computation& from = module[computation];
  const Instruction& it = from[instruction];
  CountedInstruction counted;
  counted.opcode = it.opcode;
  counted.elements = elements_of(it.shape);
  counted.terms = hlo::terms_of(from, it);
  counted.parts_warps = parts_warps(from, it);
  if (it.opcode == Opcode::Dot) {
    const hlo::Shape& lhs = from.operand_shape(it, 0);
    for (const int64_t d : it.as<hlo::DotAttributes>().lhs_batch) counted.batches *= static_cast<double>(lhs.dim(d));
  }
  if (it.opcode == Opcode::Tuple || it.operands.empty()) return counted;
  const Result<SharedReads> reads = shared_operand_reads(module, computation, instruction);
  if (!reads) return counted;
  for (const Read& read : **reads) counted.reads.push_back(counted_read(from, it, read));
  return counted;
}

CountedComputation::CountedComputation(const hlo::Module& module, hlo::ComputationId computation) {
  const hlo::Computation& from = module[computation];
  const auto count = static_cast<size_t>(from.root) + 1;
  for (size_t i = 0; i < count; ++i)
    instructions_.push_back(counted_instruction(module, computation, static_cast<InstructionId>(i)));
  for (size_t i = 0; i < count; ++i) graph_.add(instructions_[i], from.instructions[i].operands);
  const Instruction& root = from.root_instruction();
  graph_.roots = root.opcode == Opcode::Tuple ? root.operands : std::vector<InstructionId>{from.root};
}

double& EvaluationCounts::Counts::at(int sharers) {
  if (sharers == 0) return first_;
  const auto found = std::ranges::find(others_, sharers, &std::pair<int, double>::first);
  return found != others_.end() ? found->second : others_.emplace_back(sharers, 0).second;
}

double EvaluationCounts::Counts::of(int sharers) const {
  if (sharers == 0) return first_;
  const auto found = std::ranges::find(others_, sharers, &std::pair<int, double>::first);
  return found != others_.end() ? found->second : 0;
}

double EvaluationCounts::Counts::sum() const {
  double sum = first_;
  for (const auto& [sharers, count] : others_) sum += count;
  return sum;
}

void EvaluationCounts::Passed::share_all(size_t operand, size_t user) {
  Counts& to = shared[operand];
  to.share(0, shared[user].first() + apart[user].first());
  for (const auto& [sharers, count] : shared[user].others()) to.share(sharers, count + apart[user].of(sharers));
  for (const auto& [sharers, count] : apart[user].others()) to.share(sharers, count + shared[user].of(sharers));
}

void EvaluationCounts::Passed::add_apart(size_t operand, size_t user, double evaluated, double count) {
  Counts& to = apart[operand];
  double rest = count;
  if (evaluated > 0) {
    for (const Counts* from : {&shared[user], &apart[user]}) {
      for (const auto& [sharers, times] : from->others()) {
        if (sharers > 0) continue;
        to.add(sharers, count * times / evaluated);
        rest -= count * times / evaluated;
      }
    }
  }
  to.add(0, std::max(rest, 0.0));
}

EvaluationCounts::EvaluationCounts(const CountedGraph& graph, std::vector<InstructionId> once, int64_t blocks,
                                   double by_threads)
    : graph_(graph), heroes_(std::move(once)), blocks_(blocks), by_threads_(by_threads) {
  once_.assign(graph_.size(), false);
  for (const InstructionId id : heroes_) once_[static_cast<size_t>(id)] = true;
}

Evaluations EvaluationCounts::of_results(bool of_warps, const std::vector<int>& passes) const {
  const size_t count = graph_.size();
  Passed passed{std::vector<Counts>(count), std::vector<Counts>(count), {}, of_warps};
  if (!passes.empty()) passed.pass_of.assign(count, -1);
  for (size_t i = 0; i < passes.size(); ++i) passed.pass_of[static_cast<size_t>(heroes_[i])] = passes[i];
  for (const InstructionId id : graph_.roots) passed.shared[static_cast<size_t>(id)].share(0, at(id).elements);
  Evaluations total(count, 0);
  for (size_t i = count; i-- > 0;) {
    const auto id = static_cast<InstructionId>(i);
    if (at(id).opcode == Opcode::Tuple) continue;
    total[i] = once_[i] ? at(id).elements : passed.sum(i);
    if (total[i] != 0) pass_on(id, total[i], passed);
  }
  return total;
}

Evaluations EvaluationCounts::whole() const { return of_results(false, {}); }

Evaluations EvaluationCounts::whole(const std::vector<int>& passes) const { return of_results(false, passes); }

Evaluations EvaluationCounts::of_warps(const std::vector<int>& passes) const { return of_results(true, passes); }

double EvaluationCounts::of_longest_thread(const std::vector<double>& operations) const {
  const size_t count = graph_.size();
  Passed passed{std::vector<Counts>(count), std::vector<Counts>(count), {}, false};
  // Most roots need few of the instructions: those that are reached, the last first.
  std::vector<InstructionId> reached;
  std::vector<bool> is_reached(count, false);
  const auto reach = [&](InstructionId id) {
    if (is_reached[static_cast<size_t>(id)]) return;
    is_reached[static_cast<size_t>(id)] = true;
    reached.push_back(id);
    std::push_heap(reached.begin(), reached.end());
  };
  const auto want = [&](InstructionId id) {
    passed.shared[static_cast<size_t>(id)].share(0, std::min(1.0, at(id).elements));
    reach(id);
  };
  const auto work_of_reached = [&] {
    double sum = 0;
    while (!reached.empty()) {
      std::pop_heap(reached.begin(), reached.end());
      const InstructionId id = reached.back();
      const auto i = static_cast<size_t>(id);
      reached.pop_back();
      const double evaluated = once_[i] ? 0 : passed.sum(i);
      if (evaluated != 0 && at(id).opcode != Opcode::Tuple) {
        sum += evaluated * operations[i];
        pass_on(id, evaluated, passed);
        for (const CountedInstruction::OperandReads& read : at(id).reads) reach(operand_of(id, read));
      }
      passed.shared[i] = {};
      passed.apart[i] = {};
      is_reached[i] = false;
    }
    return sum;
  };
  double all = 0;
  std::map<double, std::vector<InstructionId>> roots;  // by their elements
  for (const InstructionId root : graph_.roots) {
    if (at(root).opcode != Opcode::Scatter) {
      roots[at(root).elements].push_back(root);
      continue;
    }
    // Threads of a scatter share its updates, not the elements of its result, each of which any update may reach.
    const std::span<const InstructionId> operands = graph_.operands_of(root);
    for (const InstructionId operand : operands.subspan(operands.size() / 2)) want(operand);
    all += operations[static_cast<size_t>(root)] + work_of_reached();
  }
  for (const auto& [elements, alike] : roots) {
    for (const InstructionId root : alike) want(root);
    all += work_of_reached();
  }
  return all;
}

std::vector<double> EvaluationCounts::code_copies() const {
  std::vector<double> shared(graph_.size(), 0), apart = shared, total = shared;
  // Of each instruction by how its readers' indices are spread over it: those of one way have the same of it.
  std::vector<std::vector<std::pair<uint64_t, double>>> spread(graph_.size());
  for (const InstructionId id : graph_.roots) shared[static_cast<size_t>(id)] = 1;
  for (size_t i = graph_.size(); i-- > 0;) {
    const auto id = static_cast<InstructionId>(i);
    double spread_copies = 0;
    // Readers at its own index have it of one of those, where these are made of the same (a sum and its parts).
    for (size_t k = 0; k < spread[i].size(); ++k)
      spread_copies += k == 0 ? std::max(spread[i][k].second - shared[i], 0.0) : spread[i][k].second;
    const double copies = shared[i] + spread_copies + apart[i];
    total[i] = once_[i] ? std::min(copies, 1.0) : copies;
    for (const CountedInstruction::OperandReads& read : at(id).reads) {
      const auto operand = static_cast<size_t>(operand_of(id, read));
      for (const CountedInstruction::Map& map : read.maps) {
        if (map.identity) {
          shared[operand] = std::max(shared[operand], total[i]);
        } else if (map.spread != 0) {
          auto& ways = spread[operand];
          const auto way = std::ranges::find(ways, map.spread, &std::pair<uint64_t, double>::first);
          if (way == ways.end()) {
            ways.emplace_back(map.spread, total[i]);
          } else {
            way->second = std::max(way->second, total[i]);
          }
        } else {
          apart[operand] += total[i];
        }
      }
    }
  }
  return total;
}

InstructionId EvaluationCounts::operand_of(InstructionId id, const CountedInstruction::OperandReads& read) const {
  const InstructionId operand = graph_.operands_of(id)[static_cast<size_t>(read.operand)];
  if (at(operand).opcode != Opcode::Tuple) return operand;
  return graph_.operands_of(operand)[static_cast<size_t>(read.tuple_element)];
}

std::array<double, 2> EvaluationCounts::evaluated_by_product(InstructionId product, bool of_warps) const {
  const std::span<const InstructionId> operands = graph_.operands_of(product);
  std::array<double, 2> counts{at(operands[0]).elements, at(operands[1]).elements};
  double& smaller = counts[counts[0] < counts[1] ? 0 : 1];
  smaller *= std::max(static_cast<double>(blocks_) / std::max(at(product).batches, 1.0), 1.0);
  if (of_warps) smaller *= by_threads_;
  return counts;
}

int EvaluationCounts::branch_of(InstructionId concatenate, int operand) const {
  return -1 - static_cast<int>(graph_.first_operands[static_cast<size_t>(concatenate)]) - operand;
}

void EvaluationCounts::pass_on(InstructionId id, double evaluated, Passed& passed) const {
  const auto i = static_cast<size_t>(id);
  const CountedInstruction& it = at(id);
  if (once_[i] && it.opcode == Opcode::Dot) {
    const std::array<double, 2> counts = evaluated_by_product(id, passed.of_warps);
    for (size_t k = 0; k < counts.size(); ++k)
      passed.apart[static_cast<size_t>(graph_.operands_of(id)[k])].add(0, counts[k]);
    return;
  }
  const bool all_take_part = passed.of_warps && it.parts_warps;
  for (const CountedInstruction::OperandReads& read : it.reads) {
    const InstructionId operand = operand_of(id, read);
    const double there = at(operand).elements;
    const auto to = static_cast<size_t>(operand);
    const auto add_apart = [&](double count) {
      if (once_[i]) {
        passed.apart[to].add(0, count);
      } else {
        passed.add_apart(to, i, evaluated, count);
      }
    };
    if (read.unknown) add_apart(evaluated * there);
    for (const CountedInstruction::Map& map : read.maps) {
      if (it.opcode == Opcode::Concatenate && it.reads.size() > 1) {
        const double part = all_take_part ? evaluated : evaluated * there / std::max(it.elements, 1.0);
        passed.shared[to].share(branch_of(id, read.operand), part);
        continue;
      }
      if (map.identity) {
        if (once_[i]) {
          passed.shared[to].share(0, evaluated);
        } else {
          passed.share_all(to, i);
        }
        continue;
      }
      if (it.opcode == Opcode::Reduce && !passed.pass_of.empty() && passed.pass_of[i] >= 0) {
        passed.shared[to].share(passed.pass_of[i], evaluated * map.reads);
        continue;
      }
      // The elements of a row are sorted together.
      if (it.opcode == Opcode::Sort || it.opcode == Opcode::TopK) {
        add_apart(there);
        continue;
      }
      // Threads share what a scan reads.
      if (it.opcode == Opcode::ReduceWindow && once_[i]) {
        add_apart(there);
        continue;
      }
      // Of what a condition guards, only what satisfies it is evaluated: no more than there is, as often as the whole
      // instruction is, and by each window that has it. Outputs of a convolution share what there is, too.
      const double times = std::max(evaluated / std::max(it.elements, 1.0), 1.0);
      const bool is_part = map.constrained && it.opcode != Opcode::Scatter && it.opcode != Opcode::Convolution;
      double most = evaluated * map.reads;
      if (is_part && !all_take_part) most = std::min(most, times * there * map.readers);
      add_apart(it.opcode == Opcode::Scatter ? read.of_scatter : most);
    }
  }
}

std::vector<RepeatedReduction> EvaluationCounts::repeated_reductions(const Evaluations& whole) const {
  std::vector<RepeatedReduction> found;
  for (size_t i = 0; i < graph_.size(); ++i) {
    const auto id = static_cast<InstructionId>(i);
    if (at(id).terms <= kFewTerms) continue;
    const double times = whole[i] / std::max(1.0, at(id).elements);
    // Where conditions guard reads, the count is only a bound, which may be a little more than once.
    if (times >= 2) found.push_back({id, times, at(id).terms});
  }
  return found;
}

bool is_long_reduction(const hlo::Computation& computation, const Instruction& it) {
  return hlo::terms_of(computation, it) > kFewTerms;
}

}  // namespace strata::indexing
