// Parts of a module that the superoptimizer can take.
#pragma once

#include <string>
#include <vector>

#include "emitters/lax/to_ir.h"
#include "hlo/hlo.h"
#include "support/error.h"

namespace strata::emitters {

/// A product of matrices with operators around it, of one result.
struct LaxPart {
  hlo::InstructionId result = 0;            ///< of the entry: the part's last instruction
  std::vector<hlo::InstructionId> members;  ///< ascending; constants apart
  std::vector<hlo::InstructionId> inputs;   ///< of the entry, by parameter of `module`
  hlo::Module module;                       ///< its entry computes the result
  /// And this one's the result as the program's output lies; of parts that are filled (filled.h), of longer inputs.
  hlo::Module permuted;
  std::vector<int64_t> permutation;  ///< as in LaxProgram
  LaxProgram program;                ///< of `module`'s entry, or the longer one
  /// A part within it of the same product, of two thirds of the operators or less, for where it is too much; or none.
  std::vector<LaxPart> smaller;
};

/// How many operators of a program the superoptimizer searches, as one part but for transposes of its inputs; 0 where
/// that is not so.
size_t searched_operators(const LaxProgram& program);

/// The module with its result's dimensions in this order.
hlo::Module permuted(const hlo::Module& module, const std::vector<int64_t>& permutation);

/// Disjoint parts of the entry of a module without calls, in the order of their results. Each begins at a product and
/// takes in, as long as that gives a part, what reads its values and then what they are computed of. Instructions that
/// share a value of more bits than the part's type come together or not at all. A part
///   - is what lax_program takes, and what the superoptimizer searches as one (superopt/partition), transposes of its
///     inputs apart, with two operators at least;
///   - has one result, which depends on all of it, and no path that leaves it and comes back;
///   - does not end with transposes and reshapes for which its program would transpose what it computes.
std::vector<LaxPart> find_lax_parts(const hlo::Module& module);

/// The module with each part replaced by a call, after pads of inputs that are to be longer, and by a slice and a
/// transpose where its result is longer or lies in another order. Calls have the names of the parts' results.
hlo::Module with_lax_calls(const hlo::Module& module, const std::vector<LaxPart>& parts);

}  // namespace strata::emitters
