// How often a kernel that computes all of a computation in one go evaluates each of its instructions.
#pragma once

#include <vector>

#include "hlo/hlo.h"
#include "hlo/indexing/operand_maps.h"

namespace strata::indexing {

/// By InstructionId: of how many elements an instruction is evaluated, counted as often as that is done.
using Evaluations = std::vector<double>;

/// Follows indexing maps from the root to the parameters: an element of a result reads so many elements of an operand.
/// All users that read at their own index share one evaluation, as they do in one function of a fusion; each other user
/// evaluates what it reads again.
class EvaluationCounts {
 public:
  /// `once`: instructions whose elements are evaluated once each, whatever reads them (a reduction that the threads of
  /// a block compute together). Of a product among them each element of the larger operand is evaluated once, and one
  /// of the smaller operand by each of the `blocks` that has its batch, there by so many threads (`by_threads`, which
  /// counts in of_warps alone: what one of them has loaded, the others find in the nearest cache). `module` must
  /// outlive this.
  EvaluationCounts(const hlo::Module& module, hlo::ComputationId computation,
                   const std::vector<hlo::InstructionId>& once, int64_t blocks = 1, double by_threads = 1);

  /// For the whole result.
  Evaluations whole() const;
  /// The same where reductions that are computed `once` run in passes, which they have by number, beside each other;
  /// `passes` is parallel to `once`. What reductions of one pass read at one index is evaluated once for all of them;
  /// in pass 0, for elementwise results, too.
  Evaluations whole(const std::vector<int>& passes) const;
  /// The same, counted as threads of a warp take part in it: where a condition holds for one element and not for its
  /// neighbours, threads whose element does not satisfy it wait for those whose does.
  Evaluations of_warps(const std::vector<int>& passes) const;
  /// How often each instruction's code stands in a kernel's: once for all users that read at their own index, and once
  /// more for each place of the others' code that reads it.
  std::vector<double> code_copies() const;
  /// By a thread that computes one element of a root (of a scatter: that takes one update, with its indices), except
  /// for what is evaluated `once`.
  Evaluations of_element(hlo::InstructionId root) const;

  /// The arrays of the result: the operands of a root that is a tuple.
  const std::vector<hlo::InstructionId>& roots() const { return roots_; }

 private:
  /// From this many elements of each instruction.
  Evaluations propagated(const Evaluations& wanted, bool with_once, bool of_warps = false,
                         const std::vector<int>& passes = {}) const;
  Evaluations of_results(bool of_warps, const std::vector<int>& passes) const;
  /// The array that a read is of: where the operand is a tuple, one of its elements.
  hlo::InstructionId operand_of(const hlo::Instruction& it, const Read& read) const;

  const hlo::Computation& computation_;
  /// For each operand of a product among `once`, how many elements of it are evaluated.
  std::vector<double> evaluated_by_product(const hlo::Instruction& product, bool of_warps) const;
  /// How many elements of an operand a scatter evaluates: each update once, and indices for each vector of updates.
  double of_scatter(const hlo::Instruction& scatter, const Read& read) const;

  const std::vector<hlo::InstructionId> heroes_;  ///< what is evaluated once
  std::vector<bool> once_;                        ///< of each instruction whether it is
  int64_t blocks_ = 1;
  double by_threads_ = 1;
  std::vector<hlo::InstructionId> roots_;
  std::vector<std::vector<Read>> reads_;  ///< of each instruction; none where they are not known
};

/// A sum, or another reduction, that a kernel evaluates more than once for an element.
struct RepeatedReduction {
  hlo::InstructionId instruction = 0;
  double times = 0;   ///< how often for each of its elements, on average
  int64_t terms = 0;  ///< of an element
};

/// Whether an instruction has more terms than kFewTerms.
bool is_long_reduction(const hlo::Computation& computation, const hlo::Instruction& it);

/// Reductions of more terms than are worth a kernel of their own (kFewTerms) that are evaluated again for their
/// readers. Such a kernel is slower than two by any factor: it is never made.
std::vector<RepeatedReduction> repeated_reductions(const hlo::Computation& computation, const Evaluations& whole);

/// Reductions up to this length may be computed again, or by one thread: reading this many elements costs no more than
/// writing and reading one result does. The reduction emitter takes whatever is longer.
inline constexpr int64_t kFewTerms = 63;

/// The number of elements of an array, or of the first one of a tuple, of which all have as many.
double elements_of(const hlo::Shape& shape);

}  // namespace strata::indexing
