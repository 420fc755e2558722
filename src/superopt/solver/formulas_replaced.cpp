// Formulas with some of their atoms replaced, in normal form again.
#include "superopt/solver/formulas.h"

namespace strata {

std::optional<Polynomial> Formulas::with_replaced(const Polynomial& f, const std::map<AtomId, Polynomial>& by) {
  if (!failure_.empty()) return std::nullopt;
  Replaced all;
  for (const auto& [id, g] : by) all.emplace(id, g);
  Polynomial result = replaced(f, all);
  if (!is_valid(result) || result.size() > limits_.terms) fail("too large");
  if (std::exchange(failure_, {}).empty()) return result;
  return std::nullopt;
}

Polynomial Formulas::replaced(const Polynomial& f, Replaced& by) {
  Polynomial sum;
  for (const Term& term : f) {
    Polynomial product_of{{{}, term.coefficient}};
    Monomial same;
    // Steps first: where one is 0, what comes after it need not be defined.
    for (const bool steps : {true, false}) {
      for (const Factor& factor : term.monomial) {
        if ((atoms_[factor.atom].kind == AtomKind::Positive) != steps || product_of.empty()) continue;
        if (replaced_atom(factor.atom, by)) {
          product_of = product(product_of, replaced_factor(factor, by));
        } else {
          same = same * Monomial{factor};
        }
        if (!failure_.empty()) return {};
      }
    }
    if (!product_of.empty()) sum = sum + product(Polynomial{{std::move(same), {1, 1}}}, product_of);
    if (!failure_.empty()) return {};
  }
  return sum;
}

const std::optional<Polynomial>& Formulas::replaced_atom(AtomId id, Replaced& by) {
  if (const auto it = by.find(id); it != by.end()) return it->second;
  const Atom atom = atoms_[id];
  std::vector<Polynomial> arguments;
  for (const Polynomial& argument : atom.arguments) arguments.push_back(replaced(argument, by));
  std::optional<Polynomial> result;
  if (arguments != atom.arguments && failure_.empty()) {
    switch (atom.kind) {
      case AtomKind::Input:
        break;
      case AtomKind::Exp:
        result = exponential(arguments[0]);
        break;
      case AtomKind::Root:
        result = root(arguments[0]);
        break;
      case AtomKind::Abs:
        result = absolute(arguments[0]);
        break;
      case AtomKind::Max:
        result = maximum(arguments);
        break;
      case AtomKind::Positive:
        result = step(arguments[0]);
        break;
      case AtomKind::Inverse:
        result = reciprocal(arguments[0]);
        break;
    }
  }
  return by.insert_or_assign(id, std::move(result)).first->second;
}

Polynomial Formulas::replaced_factor(const Factor& factor, Replaced& by) {
  const Polynomial base = *replaced_atom(factor.atom, by);
  if (atoms_[factor.atom].kind != AtomKind::Exp || factor.exponent.is_integer()) {
    return power(base, factor.exponent.num);
  }
  const Polynomial argument = atoms_[factor.atom].arguments[0];
  return exponential(scaled(replaced(argument, by), factor.exponent));
}

}  // namespace strata
