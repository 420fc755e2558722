// Formulas with kinks, decided by cases: where the argument of a kink is positive, negative or 0 the kink is none.
#pragma once

#include "superopt/solver/z3_query.h"

namespace strata {

class Cases {
 public:
  Cases(Formulas& formulas, TimeLimit limit) : formulas_(formulas), limit_(std::move(limit)) {}

  /// Whether f is 0 wherever the conditions hold; false says nothing. Cases in which the normal form does not show it
  /// are asked of Z3.
  bool vanishes(const Polynomial& f, const std::vector<Condition>& conditions);

 private:
  enum class Sign : uint8_t { Positive, NotNegative, Zero, NotPositive, Negative };
  struct Assumption {
    Polynomial f;
    Sign sign;
  };
  struct Case {
    Polynomial f;
    std::vector<Condition> conditions;
    std::vector<Assumption> assumptions;
  };

  std::optional<AtomId> first_kink(const Polynomial& f) const;
  bool zero(const Case& of);
  bool leaf(const Case& of);
  bool split_sign(const Case& of, AtomId kink);
  bool split_maximum(const Case& of, AtomId kink);
  bool assumed(Case of, const Polynomial& f, Sign sign);
  bool replaced(Case of, const std::map<AtomId, Polynomial>& by);
  /// What is assumed of f, or seen from its terms.
  std::optional<Sign> sign_of(const Case& of, const Polynomial& f) const;
  /// f as a product of which signs are asked one by one; squares are left out where 0 does not matter.
  std::vector<Polynomial> factors_of(const Polynomial& f, bool strict) const;
  std::optional<std::pair<AtomId, Polynomial>> solved(const Polynomial& f) const;

  Formulas& formulas_;
  TimeLimit limit_;
  int cases_ = 0;
};

}  // namespace strata
