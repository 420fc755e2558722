#include "superopt/expr/subexpression_oracle.h"

#include <algorithm>
#include <unordered_set>

namespace strata {

SubexpressionOracle::SubexpressionOracle(NormalForms& forms, std::vector<ExprId> targets)
    : forms_(forms), targets_(std::move(targets)) {
  inside_ = closure(targets_);
  std::vector<ExprId> exponents;
  std::unordered_set<AtomId> seen_atoms;
  for (const ExprId part : inside_) {
    for (const Term& term : forms_.terms(part)) {
      const Monomial& m = forms_.monomial(term.monomial);
      exponents.push_back(m.exponent);
      for (const Factor& factor : m.atoms) {
        const Atom& atom = forms_.atom(factor.atom);
        exponents.insert(exponents.end(), atom.arguments.begin(), atom.arguments.end());
        const bool partial = atom.kind == Atom::Kind::Function && (atom.name == "max" || atom.name == "reduce_max");
        if (partial && seen_atoms.insert(factor.atom).second) maxima_.push_back(factor.atom);
      }
    }
  }
  in_exponents_ = closure(exponents);
}

std::vector<ExprId> SubexpressionOracle::closure(const std::vector<ExprId>& from) {
  std::vector<ExprId> inside;
  std::unordered_set<ExprId> seen;
  const auto enter = [&](ExprId e) {
    if (e == NormalForms::kOversized) {
      oversized_ = true;
    } else if (e != Monomial::kNoExponent && seen.insert(e).second) {
      inside.push_back(e);
    }
  };
  for (const ExprId e : from) enter(e);
  for (size_t i = 0; i < inside.size(); ++i) {
    for (const Term& term : forms_.terms(inside[i])) {
      const Monomial& m = forms_.monomial(term.monomial);
      enter(m.root);
      enter(m.denominator);
      enter(m.exponent);
      for (const Factor& factor : m.atoms) {
        for (const ExprId argument : forms_.atom(factor.atom).arguments) enter(argument);
      }
    }
  }
  return inside;
}

bool SubexpressionOracle::in_exponent(ExprId e) {
  if (oversized_ || e == NormalForms::kOversized) return true;
  std::atomic<Answer>& answer = exponents_.slot(e);
  const Answer known = answer.load(std::memory_order_relaxed);
  if (known != Answer::Unknown) return known == Answer::Yes;
  const bool result =
      std::ranges::any_of(in_exponents_, [&](ExprId whole) { return fits(e, whole); }) || is_partial_function(e);
  answer.store(result ? Answer::Yes : Answer::No, std::memory_order_relaxed);
  return result;
}

bool SubexpressionOracle::contains(ExprId e) {
  std::atomic<Answer>& answer = answers_.slot(e);
  const Answer known = answer.load(std::memory_order_relaxed);
  if (known != Answer::Unknown) return known == Answer::Yes;
  const bool result = decide(e);
  answer.store(result ? Answer::Yes : Answer::No, std::memory_order_relaxed);
  return result;
}

bool SubexpressionOracle::decide(ExprId e) {
  if (oversized_) return true;
  if (e == NormalForms::kOversized) return false;
  return std::ranges::any_of(inside_, [&](ExprId whole) { return fits(e, whole); }) || is_partial_function(e);
}

bool SubexpressionOracle::fits(ExprId e, ExprId whole) {
  if (whole == NormalForms::kOversized) return true;
  if (e == NormalForms::kOversized) return false;
  const auto part = forms_.terms(e);
  const auto all = forms_.terms(whole);
  // The multiplier takes the part's first term to some term of the whole, which determines it. The part's
  // other terms come after the first, so their images come after its image.
  for (size_t i = 0; i + part.size() <= all.size(); ++i) {
    if (part[0].count > all[i].count || !forms_.divides(part[0].monomial, all[i].monomial)) continue;
    if (part.size() == 1) return true;
    const auto multiplier = forms_.divide(all[i].monomial, part[0].monomial);
    if (multiplier && fits_with(*multiplier, part.subspan(1), all.subspan(i + 1))) return true;
  }
  return false;
}

bool SubexpressionOracle::any_multiplier(ExprId e, ExprId part, const std::function<bool(MonomialId)>& accepted) {
  if (e == NormalForms::kOversized || part == NormalForms::kOversized) return false;
  const auto terms = forms_.terms(e);
  const auto all = forms_.terms(part);
  for (size_t i = 0; i + terms.size() <= all.size(); ++i) {
    if (terms[0].count > all[i].count) continue;
    const auto multiplier = forms_.divide(all[i].monomial, terms[0].monomial);
    if (!multiplier || !accepted(*multiplier)) continue;
    if (terms.size() == 1 || fits_with(*multiplier, terms.subspan(1), all.subspan(i + 1))) return true;
  }
  return false;
}

bool SubexpressionOracle::fits_with(MonomialId multiplier, std::span<const Term> part, std::span<const Term> whole) {
  size_t at = 0;
  for (const Term& term : part) {
    const auto image = forms_.multiply(multiplier, term.monomial);
    if (!image) return false;
    while (at < whole.size() && whole[at].monomial != *image) ++at;
    if (at == whole.size() || whole[at].count < term.count) return false;
    ++at;
  }
  return true;
}

bool SubexpressionOracle::is_partial_function(ExprId e) const {
  const auto sole = forms_.sole_atom(e);
  if (!sole) return false;
  const Atom& part = forms_.atom(*sole);
  return std::ranges::any_of(maxima_, [&](AtomId id) {
    const Atom& whole = forms_.atom(id);
    if (part.kind != whole.kind || part.name != whole.name) return false;
    if (whole.name == "max") {
      return part.parameter == whole.parameter && std::ranges::includes(whole.arguments, part.arguments);
    }
    return part.arguments == whole.arguments && whole.parameter % part.parameter == 0;
  });
}

}  // namespace strata
