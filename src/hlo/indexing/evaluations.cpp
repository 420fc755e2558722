#include "hlo/indexing/evaluations.h"

#include <algorithm>
#include <limits>

#include "hlo/terms.h"

namespace strata::indexing {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

bool is_identity(const IndexingMap& map) {
  if (!map.ranges.empty() || map.results.size() != map.dims.size()) return false;
  for (size_t i = 0; i < map.results.size(); ++i) {
    if (!(map.results[i] == Expr::dim(static_cast<int>(i))) && map.dims[i].size() > 1) return false;
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

/// How often users at an instruction's own index evaluate it, by pass: those of one pass share that.
class SharedCounts {
 public:
  void add(int pass, double count) {
    if (count == 0) return;
    const auto found = std::find_if(of_.begin(), of_.end(), [&](const auto& one) { return one.first == pass; });
    if (found == of_.end()) {
      of_.emplace_back(pass, count);
    } else {
      found->second = std::max(found->second, count);
    }
  }
  /// Those of a user, and `more` of it in pass 0.
  void add_all(const SharedCounts& user, double more) {
    double in_first = more;
    for (const auto& [pass, count] : user.of_) {
      if (pass == 0) {
        in_first += count;
      } else {
        add(pass, count);
      }
    }
    add(0, in_first);
  }
  double sum() const {
    double sum = 0;
    for (const auto& [pass, count] : of_) sum += count;
    return sum;
  }

 private:
  std::vector<std::pair<int, double>> of_;
};

}  // namespace

double elements_of(const hlo::Shape& shape) {
  const hlo::Shape& first = shape.is_tuple() && !shape.elements.empty() ? shape.elements[0] : shape;
  return first.is_array() ? static_cast<double>(first.element_count()) : 1;
}

EvaluationCounts::EvaluationCounts(const hlo::Module& module, hlo::ComputationId computation,
                                   const std::vector<InstructionId>& once, int64_t blocks, double by_threads)
    : computation_(module[computation]), heroes_(once), blocks_(blocks), by_threads_(by_threads) {
  once_.assign(computation_.instructions.size(), false);
  for (const InstructionId id : once) once_[static_cast<size_t>(id)] = true;
  const Instruction& root = computation_.root_instruction();
  roots_ = root.opcode == Opcode::Tuple ? std::vector<InstructionId>(root.operands.begin(), root.operands.end())
                                        : std::vector<InstructionId>{computation_.root};
  reads_.resize(computation_.instructions.size());
  for (InstructionId id = 0; id <= computation_.root; ++id) {
    if (computation_[id].opcode == Opcode::Tuple || computation_[id].operands.empty()) continue;
    if (auto reads = operand_reads(module, computation, id)) reads_[static_cast<size_t>(id)] = *std::move(reads);
  }
}

Evaluations EvaluationCounts::of_results(bool of_warps, const std::vector<int>& passes) const {
  Evaluations wanted(computation_.instructions.size(), 0);
  for (const InstructionId id : roots_) wanted[static_cast<size_t>(id)] = elements_of(computation_[id].shape);
  return propagated(wanted, true, of_warps, passes);
}

Evaluations EvaluationCounts::whole() const { return of_results(false, {}); }

Evaluations EvaluationCounts::whole(const std::vector<int>& passes) const { return of_results(false, passes); }

Evaluations EvaluationCounts::of_warps(const std::vector<int>& passes) const { return of_results(true, passes); }

Evaluations EvaluationCounts::of_element(InstructionId root) const {
  Evaluations wanted(computation_.instructions.size(), 0);
  const Instruction& it = computation_[root];
  if (it.opcode != Opcode::Scatter) {
    wanted[static_cast<size_t>(root)] = std::min(1.0, elements_of(it.shape));
    return propagated(wanted, false);
  }
  // Threads of a scatter share its updates, not the elements of its result, each of which any update may reach.
  for (size_t k = it.operands.size() / 2; k < it.operands.size(); ++k)
    wanted[static_cast<size_t>(it.operands[k])] = std::min(1.0, elements_of(computation_.operand_shape(it, k)));
  Evaluations counts = propagated(wanted, false);
  counts[static_cast<size_t>(root)] = 1;
  return counts;
}

std::vector<double> EvaluationCounts::code_copies() const {
  std::vector<double> shared(computation_.instructions.size(), 0), apart = shared, total = shared;
  for (const InstructionId id : roots_) shared[static_cast<size_t>(id)] = 1;
  for (InstructionId id = computation_.root; id >= 0; --id) {
    const auto at = static_cast<size_t>(id);
    total[at] = once_[at] ? std::min(shared[at] + apart[at], 1.0) : shared[at] + apart[at];
    for (const Read& read : reads_[at]) {
      const InstructionId operand = operand_of(computation_[id], read);
      for (const IndexingMap& map : read.maps) {
        double& copies = (is_identity(map) ? shared : apart)[static_cast<size_t>(operand)];
        copies = is_identity(map) ? std::max(copies, total[at]) : copies + total[at];
      }
    }
  }
  return total;
}

InstructionId EvaluationCounts::operand_of(const Instruction& it, const Read& read) const {
  const InstructionId operand = it.operands[static_cast<size_t>(read.operand)];
  if (computation_[operand].opcode != Opcode::Tuple) return operand;
  return computation_[operand].operands[static_cast<size_t>(read.tuple_element)];
}

double EvaluationCounts::of_scatter(const Instruction& scatter, const Read& read) const {
  constexpr double kVector = 4;  // updates of a thread that lie beside each other, for all of which it asks once
  const double there = elements_of(computation_[operand_of(scatter, read)].shape);
  const size_t arrays = scatter.operands.size() / 2;
  if (static_cast<size_t>(read.operand) != arrays) return there;
  const hlo::Shape& indices = computation_.operand_shape(scatter, arrays);
  const int64_t vector_dim = scatter.as<hlo::ScatterAttributes>().index_vector_dim;
  const double components = vector_dim < indices.rank() ? static_cast<double>(indices.dim(vector_dim)) : 1;
  return std::max(there, elements_of(computation_.operand_shape(scatter, arrays + 1)) * components / kVector);
}

std::vector<double> EvaluationCounts::evaluated_by_product(const Instruction& product, bool of_warps) const {
  const hlo::Shape& lhs = computation_.operand_shape(product, 0);
  double batches = 1;
  for (const int64_t d : product.as<hlo::DotAttributes>().lhs_batch) batches *= static_cast<double>(lhs.dim(d));
  std::vector<double> counts{elements_of(lhs), elements_of(computation_.operand_shape(product, 1))};
  double& smaller = counts[counts[0] < counts[1] ? 0 : 1];
  smaller *= std::max(static_cast<double>(blocks_) / std::max(batches, 1.0), 1.0) * (of_warps ? by_threads_ : 1);
  return counts;
}

Evaluations EvaluationCounts::propagated(const Evaluations& wanted, bool with_once, bool of_warps,
                                         const std::vector<int>& passes) const {
  std::vector<int> pass_of(passes.empty() ? 0 : wanted.size(), -1);
  for (size_t i = 0; i < passes.size(); ++i) pass_of[static_cast<size_t>(heroes_[i])] = passes[i];
  // Once for all users at its own index in a pass, and for each of the others.
  std::vector<SharedCounts> shared(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) shared[i].add(0, wanted[i]);
  Evaluations apart(wanted.size(), 0), total(wanted.size(), 0);
  for (InstructionId id = computation_.root; id >= 0; --id) {
    const Instruction& it = computation_[id];
    const SharedCounts& own = shared[static_cast<size_t>(id)];
    double evaluated = own.sum() + apart[static_cast<size_t>(id)];
    if (once_[static_cast<size_t>(id)]) evaluated = with_once ? elements_of(it.shape) : 0;
    if (evaluated == 0 || it.opcode == Opcode::Tuple) continue;
    total[static_cast<size_t>(id)] = evaluated;
    if (once_[static_cast<size_t>(id)] && it.opcode == Opcode::Dot) {
      const std::vector<double> counts = evaluated_by_product(it, of_warps);
      for (size_t k = 0; k < counts.size(); ++k) apart[static_cast<size_t>(it.operands[k])] += counts[k];
      continue;
    }
    const bool all_take_part = of_warps && parts_warps(computation_, it);
    for (const Read& read : reads_[static_cast<size_t>(id)]) {
      const InstructionId operand = operand_of(it, read);
      const double there = elements_of(computation_[operand].shape);
      if (read.unknown) apart[static_cast<size_t>(operand)] += evaluated * there;
      for (const IndexingMap& map : read.maps) {
        if (is_identity(map)) {
          SharedCounts& of_operand = shared[static_cast<size_t>(operand)];
          if (once_[static_cast<size_t>(id)]) {
            of_operand.add(0, evaluated);
          } else {
            of_operand.add_all(own, apart[static_cast<size_t>(id)]);
          }
          continue;
        }
        double each = 1;
        for (const Interval& range : map.ranges) each *= static_cast<double>(range.size());
        if (it.opcode == Opcode::Reduce && !pass_of.empty() && pass_of[static_cast<size_t>(id)] >= 0) {
          shared[static_cast<size_t>(operand)].add(pass_of[static_cast<size_t>(id)], evaluated * each);
          continue;
        }
        // The elements of a row are sorted together.
        if (it.opcode == Opcode::Sort || it.opcode == Opcode::TopK) {
          apart[static_cast<size_t>(operand)] += there;
          continue;
        }
        // Of what a condition guards, only what satisfies it is evaluated: no more than there is, as often as the whole
        // instruction is.
        const double times = std::max(evaluated / std::max(elements_of(it.shape), 1.0), 1.0);
        const double most = map.constraints.empty() || it.opcode == Opcode::Scatter || all_take_part
                                ? evaluated * each
                                : std::min(evaluated * each, times * there);
        apart[static_cast<size_t>(operand)] += it.opcode == Opcode::Scatter ? of_scatter(it, read) : most;
      }
    }
  }
  return total;
}

bool is_long_reduction(const hlo::Computation& computation, const Instruction& it) {
  return hlo::terms_of(computation, it) > kFewTerms;
}

std::vector<RepeatedReduction> repeated_reductions(const hlo::Computation& computation, const Evaluations& whole) {
  std::vector<RepeatedReduction> found;
  for (InstructionId id = 0; id <= computation.root; ++id) {
    if (!is_long_reduction(computation, computation[id])) continue;
    const double times = whole[static_cast<size_t>(id)] / std::max(1.0, elements_of(computation[id].shape));
    // Where conditions guard reads, the count is only a bound, which may be a little more than once.
    if (times >= 2) found.push_back({id, times, hlo::terms_of(computation, computation[id])});
  }
  return found;
}

}  // namespace strata::indexing
