#include "superopt/solver/conditions.h"

#include <algorithm>

namespace strata {
void find_atoms(const Formulas& formulas, const Polynomial& f, std::set<AtomId>& atoms) {
  for (const Term& term : f) {
    for (const Factor& factor : term.monomial) {
      if (!atoms.insert(factor.atom).second) continue;
      for (const Polynomial& argument : formulas.atom(factor.atom).arguments) find_atoms(formulas, argument, atoms);
    }
  }
}

std::vector<Condition> together(const Formulas& formulas, std::vector<Condition> a, const std::vector<Condition>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return formulas.simplified(a);
}

std::vector<Condition> about(const Formulas& formulas, const std::vector<Condition>& conditions, const Polynomial& f) {
  std::set<AtomId> read;
  find_atoms(formulas, f, read);
  std::vector<Condition> some;
  for (const Condition& condition : conditions) {
    std::set<AtomId> inputs;
    find_atoms(formulas, condition.f, inputs);
    const bool common = std::any_of(inputs.begin(), inputs.end(), [&](AtomId id) {
      return formulas.atom(id).kind == AtomKind::Input && read.count(id) != 0;
    });
    if (common) some.push_back(condition);
  }
  return some;
}

std::optional<Condition> not_implied(Formulas& formulas, const std::vector<Condition>& assumed,
                                     const std::vector<Condition>& needed, const TimeLimit& limit) {
  for (const Condition& condition : needed) {
    const bool same = std::any_of(assumed.begin(), assumed.end(), [&](const Condition& known) {
      return known.nonzero == condition.nonzero && known.f == condition.f &&
             (known.always() || known.guard == condition.guard);
    });
    if (same || (condition.nonzero && formulas.zeros_have_no_volume(condition.f))) continue;
    const std::vector<Condition> conditions = about(formulas, assumed, condition.f);
    std::vector<Constraint> constraints = constraints_of(conditions);
    constraints.push_back({condition.f, condition.nonzero ? Relation::Zero : Relation::Negative});
    if (!condition.always()) constraints.push_back({condition.guard, Relation::NotZero});
    const Defined defined = formulas.defined_by(conditions);
    if (satisfiable(formulas, constraints, defined, limit).satisfiable != Satisfiable::No) return condition;
  }
  return std::nullopt;
}

}  // namespace strata
