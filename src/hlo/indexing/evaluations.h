// How often a kernel that computes all of a computation in one go evaluates each of its instructions.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "hlo/hlo.h"
#include "hlo/indexing/operand_maps.h"

namespace strata::indexing {

/// By InstructionId: of how many elements an instruction is evaluated, counted as often as that is done.
using Evaluations = std::vector<double>;

/// What counting needs to know of an instruction: the same wherever it stands with operands of these shapes.
struct CountedInstruction {
  struct Map {
    bool identity = false;
    bool constrained = false;
    double reads = 1;  ///< elements that one element of the result reads, without constraints
    /// Of a window: by how many elements of the result one of the operand is read, at most. Else `reads`.
    double readers = 1;
    uint64_t spread = 0;  ///< of a broadcast or a reshape: a number of the map; else 0
  };
  struct OperandReads {
    int operand = 0;
    int tuple_element = 0;
    bool unknown = false;
    std::vector<Map> maps;
    double of_scatter = 0;  ///< of a scatter: how many elements of the operand it evaluates
  };
  hlo::Opcode opcode = hlo::Opcode::Parameter;
  double elements = 1;
  int64_t terms = 1;                ///< of a reduction (hlo/terms.h)
  double batches = 1;               ///< of a product
  bool parts_warps = false;         ///< threads of a warp part at it, with vectors of a few elements each
  std::vector<OperandReads> reads;  ///< none where they are not known
};
CountedInstruction counted_instruction(const hlo::Module& module, hlo::ComputationId computation,
                                       hlo::InstructionId instruction);

/// The instructions of a kernel, operands before users. They have the places at which they stand here as ids.
struct CountedGraph {
  std::vector<const CountedInstruction*> instructions;
  std::vector<size_t> first_operands{0};       ///< of each instruction, and where the last one's end
  std::vector<hlo::InstructionId> operands{};  ///< of all, one after the other
  std::vector<hlo::InstructionId> roots{};     ///< the arrays of the result: the operands of a root that is a tuple

  size_t size() const { return instructions.size(); }
  void clear() {
    instructions.clear();
    first_operands.assign(1, 0);
    operands.clear();
    roots.clear();
  }
  void add(const CountedInstruction& instruction, std::span<const hlo::InstructionId> its_operands) {
    instructions.push_back(&instruction);
    operands.insert(operands.end(), its_operands.begin(), its_operands.end());
    first_operands.push_back(operands.size());
  }
  std::span<const hlo::InstructionId> operands_of(hlo::InstructionId id) const {
    const size_t first = first_operands[static_cast<size_t>(id)];
    return {operands.data() + first, first_operands[static_cast<size_t>(id) + 1] - first};
  }
};

/// A sum, or another reduction, that a kernel evaluates more than once for an element.
struct RepeatedReduction {
  hlo::InstructionId instruction = 0;
  double times = 0;   ///< how often for each of its elements, on average
  int64_t terms = 0;  ///< of an element
};

/// Follows indexing maps from the root to the parameters: an element of a result reads so many elements of an operand.
/// All users that read at their own index share one evaluation, as they do in one function of a fusion; each other user
/// evaluates what it reads again.
class EvaluationCounts {
 public:
  /// `once`: instructions whose elements are evaluated once each, whatever reads them (a reduction that the threads of
  /// a block compute together). Of a product among them each element of the larger operand is evaluated once, and one
  /// of the smaller operand by each of the `blocks` that has its batch, there by so many threads (`by_threads`, which
  /// counts in of_warps alone: what one of them has loaded, the others find in the nearest cache). `graph` must outlive
  /// this.
  explicit EvaluationCounts(const CountedGraph& graph, std::vector<hlo::InstructionId> once = {}, int64_t blocks = 1,
                            double by_threads = 1);

  /// For the whole result.
  Evaluations whole() const;
  /// The same where reductions that are computed `once` run in passes, which they have by number, beside each other;
  /// `passes` is parallel to `once`. What reductions of one pass read at one index is evaluated once for all of them;
  /// in pass 0, for elementwise results, too.
  Evaluations whole(const std::vector<int>& passes) const;
  /// The same, counted as threads of a warp take part in it: where a condition holds for one element and not for its
  /// neighbours, threads whose element does not satisfy it wait for those whose does.
  Evaluations of_warps(const std::vector<int>& passes) const;
  /// How often each instruction's code stands in a kernel's: once for all users that read at their own index or spread
  /// it alike (broadcasts and reshapes by one map), and once more for each place of the others' code that reads it.
  std::vector<double> code_copies() const;
  /// What a thread does that computes one element of each root (of a scatter: that takes one update, with its indices),
  /// except for what is evaluated `once`: the sum of `operations` of instructions as often as they are evaluated. Roots
  /// of as many elements share what they read at their own index; others are computed one after the other.
  double of_longest_thread(const std::vector<double>& operations) const;

  /// Reductions of more terms than are worth a kernel of their own (kFewTerms) that are evaluated again for their
  /// readers, where the whole is evaluated so often. Such a kernel is slower than two by any factor: it is never made.
  std::vector<RepeatedReduction> repeated_reductions(const Evaluations& whole) const;

 private:
  /// How often an instruction is evaluated, by who shares that: reductions of one pass (their number; 0 for elementwise
  /// results), or one operand of a concatenation (branch_of), of which no element has two.
  class Counts {
   public:
    double of(int sharers) const;
    void add(int sharers, double count) { at(sharers) += count; }
    void share(int sharers, double count) { at(sharers) = std::max(at(sharers), count); }
    double sum() const;
    /// Of the pass 0, and the others.
    double first() const { return first_; }
    const std::vector<std::pair<int, double>>& others() const { return others_; }

   private:
    double& at(int sharers);
    double first_ = 0;
    std::vector<std::pair<int, double>> others_;
  };
  /// Evaluations on their way from users to operands.
  struct Passed {
    std::vector<Counts> shared;  ///< once for all users at its own index that share it
    std::vector<Counts> apart;   ///< and for each of the others, of which none is in a pass above 0
    std::vector<int> pass_of;    ///< of reductions that run in passes; empty where none does
    bool of_warps = false;
    double sum(size_t i) const { return shared[i].sum() + apart[i].sum(); }
    /// To an operand that a user reads at its own index.
    void share_all(size_t operand, size_t user);
    /// To an operand of which a user that is so often evaluated evaluates so many elements.
    void add_apart(size_t operand, size_t user, double evaluated, double count);
  };

  Evaluations of_results(bool of_warps, const std::vector<int>& passes) const;
  /// From an instruction that is so often evaluated.
  void pass_on(hlo::InstructionId id, double evaluated, Passed& passed) const;
  /// The array that a read is of: where the operand is a tuple, one of its elements.
  hlo::InstructionId operand_of(hlo::InstructionId id, const CountedInstruction::OperandReads& read) const;
  /// A number, below 0, of what is evaluated for that operand of a concatenation.
  int branch_of(hlo::InstructionId concatenate, int operand) const;
  /// For each operand of a product among `once`, how many elements of it are evaluated.
  std::array<double, 2> evaluated_by_product(hlo::InstructionId product, bool of_warps) const;
  const CountedInstruction& at(hlo::InstructionId id) const { return *graph_.instructions[static_cast<size_t>(id)]; }

  const CountedGraph& graph_;
  const std::vector<hlo::InstructionId> heroes_;  ///< what is evaluated once
  std::vector<bool> once_;                        ///< of each instruction whether it is
  int64_t blocks_ = 1;
  double by_threads_ = 1;
};

/// The instructions of a computation up to its root, and the graph of them.
class CountedComputation {
 public:
  CountedComputation(const hlo::Module& module, hlo::ComputationId computation);
  CountedComputation(const CountedComputation&) = delete;
  CountedComputation& operator=(const CountedComputation&) = delete;
  const CountedGraph& graph() const { return graph_; }

 private:
  std::vector<CountedInstruction> instructions_;
  CountedGraph graph_;
};

/// Whether an instruction has more terms than kFewTerms.
bool is_long_reduction(const hlo::Computation& computation, const hlo::Instruction& it);

/// Reductions up to this length may be computed again, or by one thread: reading this many elements costs no more than
/// writing and reading one result does. The reduction emitter takes whatever is longer.
inline constexpr int64_t kFewTerms = 63;

/// The number of elements of an array, or of the first one of a tuple, of which all have as many.
double elements_of(const hlo::Shape& shape);

}  // namespace strata::indexing
