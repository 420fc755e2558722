// The search's pruning test (Mirage, OSDI'25, section 4.3): can this value still become part of the output?
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "superopt/expr/normal_forms.h"

namespace strata {

/// Decides e ⊑ target under A_eq and A_sub, for the expressions of one NormalForms and fixed targets (the
/// program's outputs). Answers are exact and remembered per handle; any number of threads may ask.
///
/// e ⊑ t exactly when some monomial m makes m·e a sub-multiset of t's terms, or e ⊑ u for a normal form u
/// inside t (a denominator, root, exponent or function argument), or e is a partial max or reduce_max of an
/// atom of t. docs/abstract-expressions.md has the argument.
class SubexpressionOracle {
 public:
  SubexpressionOracle(NormalForms& forms, std::vector<ExprId> targets);

  /// Whether `e` is part of something equal to a target; always true where a target is oversized.
  bool contains(ExprId e);
  bool equals_target(size_t target, ExprId e) const { return targets_[target] == e; }
  const std::vector<ExprId>& targets() const { return targets_; }

  /// The targets and every normal form inside them: what `e` is part of, it is part of one of these.
  const std::vector<ExprId>& parts() const { return inside_; }
  /// Whether some monomial m makes m·e a sub-multiset of one part's terms; always true where that is oversized.
  bool fits(ExprId e, ExprId part);
  /// Whether `e` is a partial max or reduce_max of an atom of a target.
  bool is_partial_function(ExprId e) const;

 private:
  enum class Answer : uint8_t { Unknown, No, Yes };

  bool decide(ExprId e);
  bool fits_with(MonomialId multiplier, std::span<const Term> part, std::span<const Term> whole);

  NormalForms& forms_;
  std::vector<ExprId> targets_;
  std::vector<ExprId> inside_;  ///< the targets and every normal form inside them
  std::vector<AtomId> maxima_;  ///< max and reduce_max atoms inside them
  bool oversized_ = false;
  StableArray<std::atomic<Answer>> answers_;  ///< by handle
};

}  // namespace strata
