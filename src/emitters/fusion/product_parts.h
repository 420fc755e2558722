// Products in two steps: of parts of the terms, and what these come to.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "emitters/fusion/parts_rewriter.h"

namespace strata::emitters {

/// One pair of contracted dimensions, cut in parts.
struct ProductCut {
  int64_t lhs = 0, rhs = 0;  ///< the dimensions
  EvenCut even;
  std::vector<std::pair<int64_t, int64_t>> whole;  ///< other pairs, each of whose elements is in parts of its own
};

/// Numbers of an operand's dimensions after its dimension d has become two, the parts and what each has of it.
std::vector<int64_t> beside_parts(std::vector<int64_t> list, int64_t d);

/// What passes have in common that make a `dot` of more blocks by one with batch dimensions of parts of its terms, and
/// a sum over these. Parts are added up in a fixed order. Of floats with fewer bits they are floats of 32 bits until
/// then. Terms that do not divide are filled up with zeros.
class ProductPartsRewriter : protected PartsRewriter {
 protected:
  using PartsRewriter::PartsRewriter;

  /// Whether a `dot` of the old entry may be made in two steps: of numbers that are not rounded between them,
  /// row-major.
  bool may_cut(const hlo::Instruction& it) const;
  /// Its longest pair of contracted dimensions, in one part; it has one.
  ProductCut longest_terms(const hlo::Instruction& it) const;
  /// The `dot` `it` of the old entry, whose `copy` has operands of the new one, in two steps there.
  hlo::InstructionId in_two_steps(const hlo::Instruction& it, const hlo::Instruction& copy, const ProductCut& cut);

  /// A computation that adds two numbers.
  hlo::ComputationId sum_of(hlo::ElementType type);

 private:
  hlo::InstructionId terms_in_parts(const std::string& name, hlo::InstructionId operand, int64_t d, const EvenCut& cut);
};

}  // namespace strata::emitters
