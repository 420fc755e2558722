// The search's pruning test (Mirage, OSDI'25, section 4.3): can this value still become part of the output?
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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
  /// Whether a target is oversized: then nothing is known of what is part of it, and `parts` are not all.
  bool oversized() const { return oversized_; }
  /// Whether some monomial m makes m·e a sub-multiset of one part's terms; always true where that is oversized, never
  /// where `e` alone is.
  bool fits(ExprId e, ExprId part);
  /// Whether one of these m is `accepted`; none is where `e` or the part is oversized.
  bool any_multiplier(ExprId e, ExprId part, const std::function<bool(MonomialId)>& accepted);
  /// Whether `e` may become part of an exponent or of a function's argument; a value that may not needs no residue for
  /// exponents.
  bool in_exponent(ExprId e);
  /// Whether `e` is a partial max or reduce_max of an atom of a target.
  bool is_partial_function(ExprId e) const;

 private:
  enum class Answer : uint8_t { Unknown, No, Yes };

  /// `from` and every normal form inside it.
  std::vector<ExprId> closure(const std::vector<ExprId>& from);
  bool decide(ExprId e);
  bool fits_with(MonomialId multiplier, std::span<const Term> part, std::span<const Term> whole);

  NormalForms& forms_;
  std::vector<ExprId> targets_;
  std::vector<ExprId> inside_;        ///< the targets and every normal form inside them
  std::vector<AtomId> maxima_;        ///< max and reduce_max atoms inside them
  std::vector<ExprId> in_exponents_;  ///< of inside_: exponents, arguments of functions, and what is inside them
  bool oversized_ = false;
  StableArray<std::atomic<Answer>> answers_;    ///< by handle
  StableArray<std::atomic<Answer>> exponents_;  ///< likewise, of in_exponent
};

}  // namespace strata
