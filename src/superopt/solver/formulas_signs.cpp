// Signs of formulas, seen from their terms.
#include <algorithm>

#include "ops/op_def.h"
#include "superopt/solver/formulas.h"

namespace strata {
namespace {

bool is_even(const Number& n) { return n.is_integer() && n.num % 2 == 0; }

}  // namespace

const Algebra& algebra_of(AtomKind kind) {
  static const Algebra none{};
  switch (kind) {
    case AtomKind::Exp:
      return op_def(OpKind::Exp).traits.algebra;
    case AtomKind::Root:
      return op_def(OpKind::Sqrt).traits.algebra;
    case AtomKind::Positive:
      return op_def(OpKind::Greater).traits.algebra;
    default:
      return none;
  }
}

bool Formulas::nonnegative_atom(AtomId id) const {
  const Atom& atom = atoms_[id];
  switch (atom.kind) {
    case AtomKind::Input:
      return false;
    case AtomKind::Max:
      return std::any_of(atom.arguments.begin(), atom.arguments.end(), [&](const auto& f) { return nonnegative(f); });
    case AtomKind::Inverse:
      return nonnegative(atom.arguments[0]);
    case AtomKind::Abs:
      return true;
    default:
      return algebra_of(atom.kind).nonnegative;
  }
}

bool Formulas::positive_atom(AtomId id) const {
  const Atom& atom = atoms_[id];
  switch (atom.kind) {
    case AtomKind::Max:
      return std::any_of(atom.arguments.begin(), atom.arguments.end(), [&](const auto& f) { return positive(f); });
    case AtomKind::Inverse:  // 1/f is not 0 where it is defined
      return nonnegative(atom.arguments[0]);
    case AtomKind::Root:
      return positive(atom.arguments[0]);
    default:
      return algebra_of(atom.kind).positive;
  }
}

bool Formulas::nonnegative(const Monomial& monomial) const {
  return std::all_of(monomial.begin(), monomial.end(),
                     [&](const Factor& factor) { return is_even(factor.exponent) || nonnegative_atom(factor.atom); });
}

bool Formulas::nonnegative(const Polynomial& f) const {
  const bool by_terms = std::all_of(
      f.begin(), f.end(), [&](const Term& term) { return term.coefficient.num > 0 && nonnegative(term.monomial); });
  if (by_terms || f.size() < 2) return by_terms;
  return signs_.count(scaled(f, f[0].coefficient.abs().inverse())) != 0;
}

bool Formulas::positive(const Polynomial& f) const {
  if (!nonnegative(f)) return false;
  const auto it = f.size() < 2 ? signs_.end() : signs_.find(scaled(f, f[0].coefficient.abs().inverse()));
  if (it != signs_.end()) return it->second;
  return std::any_of(f.begin(), f.end(), [&](const Term& term) {
    return std::all_of(term.monomial.begin(), term.monomial.end(),
                       [&](const Factor& factor) { return positive_atom(factor.atom); });
  });
}

}  // namespace strata
