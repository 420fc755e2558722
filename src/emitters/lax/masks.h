// What is made of iotas as a program under construction has it: integers are sums of indices, and truth values are
// tensors of zeros and ones, the comparison of an iota with another.
#pragma once

#include <optional>
#include <vector>

#include "emitters/lax/axes.h"
#include "emitters/lax/known.h"
#include "emitters/lax/operators.h"

namespace strata::emitters {

class LaxMasks {
 public:
  LaxMasks(const hlo::Computation& from, const JoinedAxes& axes, LaxTensors& tensors, LaxOperators& operators)
      : from_(from), axes_(axes), tensors_(tensors), operators_(operators) {}

  /// Takes an integer or a truth value that is known; those before it come before. Error (Unsupported): what is no sum
  /// of multiples of indices, or a comparison of more than two of them.
  Result<void> take(hlo::InstructionId id, Known known);
  /// Of an instruction of truth values that was taken.
  const LaxValue& mask(hlo::InstructionId id) const { return *taken_[static_cast<size_t>(id)].mask; }

 private:
  /// start + Σ steps[d] · the index along joined dimension d.
  struct Sum {
    int64_t start = 0;
    std::vector<int64_t> steps;
  };
  struct Taken {
    std::optional<Sum> sum;
    std::optional<LaxValue> mask;
  };

  const Taken& operand(const hlo::Instruction& it, size_t i) const {
    return taken_[static_cast<size_t>(it.operands[i])];
  }
  Result<Taken> taken(hlo::InstructionId id, const hlo::Instruction& it, Known known);
  Result<Taken> moved(hlo::InstructionId id, const hlo::Instruction& it) const;
  Result<Sum> sum(hlo::InstructionId id, const hlo::Instruction& it) const;
  Result<LaxValue> compare(hlo::InstructionId id, const hlo::Instruction& it);
  Result<LaxValue> logical(hlo::InstructionId id, const hlo::Instruction& it);
  /// Where the sum is above 0.
  Result<LaxValue> positive(hlo::InstructionId id, const Sum& sum);
  Result<LaxValue> both(const LaxValue& a, const LaxValue& b);
  Result<LaxValue> negated(const LaxValue& a);

  const hlo::Computation& from_;
  const JoinedAxes& axes_;
  LaxTensors& tensors_;
  LaxOperators& operators_;
  std::vector<Taken> taken_;  ///< by instruction
};

}  // namespace strata::emitters
