// Where formulas are defined.
//
// A value's formula may hold roots and reciprocals that are not defined at some inputs at which the value is: those of
// a branch that select drops. There the formula has them times 0, and is the value whatever they are taken to be. So a
// rule that is an identity where both sides are defined keeps the value, as long as no atom that can vanish on a region
// cancels against its own reciprocal (rewritten_factor) and no such denominator is multiplied out (`Defined`).
#include <algorithm>
#include <deque>

#include "superopt/solver/formulas.h"

namespace strata {
namespace {

constexpr size_t kMostDomains = 200000;

std::vector<Condition> sorted(std::vector<Condition> conditions) {
  std::sort(conditions.begin(), conditions.end());
  conditions.erase(std::unique(conditions.begin(), conditions.end()), conditions.end());
  return conditions;
}

}  // namespace

uint32_t Formulas::domain_of(Domain::Kind kind, uint32_t first, uint32_t second) {
  const auto [it, added] = domain_ids_.try_emplace(Domain{kind, first, second}, static_cast<uint32_t>(domains_.size()));
  if (added) domains_.push_back(it->first);
  return it->second;
}

uint32_t Formulas::both(uint32_t a, uint32_t b) {
  if (a > b) std::swap(a, b);
  return a == b || a == 0 ? b : domain_of(Domain::Kind::Both, a, b);
}

uint32_t Formulas::guarded(const Polynomial& guard, uint32_t domain) {
  if (domain == 0 || guard.empty()) return 0;
  return guard == one() ? domain : domain_of(Domain::Kind::Guarded, intern(guard), domain);
}

std::vector<Condition> Formulas::conditions_of(std::span<const SymbolicValue> values) {
  const uint32_t always = intern(one());
  std::set<std::pair<uint32_t, uint32_t>> seen;
  std::vector<std::pair<uint32_t, uint32_t>> open;  // a guard, a domain
  std::deque<std::pair<uint32_t, uint32_t>> behind_guards;
  std::vector<Condition> conditions;
  for (const SymbolicValue v : values) open.emplace_back(always, domain(v));
  while (failure_.empty() && (!open.empty() || !behind_guards.empty())) {
    if (open.empty()) {  // what is needed anyway comes first
      open.push_back(behind_guards.front());
      behind_guards.pop_front();
    }
    const auto [guard, id] = open.back();
    open.pop_back();
    if (id == 0 || seen.count({always, id}) != 0 || !seen.emplace(guard, id).second) continue;
    if (seen.size() > kMostDomains) fail("too many conditions on where the programs are defined");
    const Domain domain = domains_[id];
    switch (domain.kind) {
      case Domain::Kind::Both:
        open.emplace_back(guard, domain.first);
        open.emplace_back(guard, domain.second);
        break;
      case Domain::Kind::Guarded: {
        const Polynomial inside = product(Polynomial(formulas_[guard]), Polynomial(formulas_[domain.first]));
        if (!inside.empty()) behind_guards.emplace_back(intern(inside), domain.second);
        break;
      }
      case Domain::Kind::NonZero:
      case Domain::Kind::NonNegative:
        add_condition(conditions, domain.kind == Domain::Kind::NonZero, formulas_[domain.first], formulas_[guard]);
    }
  }
  return sorted(std::move(conditions));
}

std::vector<Condition> Formulas::simplified(const std::vector<Condition>& conditions) const {
  std::vector<Condition> simple;
  for (const Condition& c : conditions) add_condition(simple, c.nonzero, c.f, c.guard);
  return sorted(std::move(simple));
}

/// A product is not 0 where no factor is, and a root where its argument is not.
void Formulas::add_condition(std::vector<Condition>& conditions, bool nonzero, Polynomial f,
                             const Polynomial& guard) const {
  const auto without = [](Polynomial g, const Monomial& content) {
    for (Term& term : g) term.monomial = term.monomial * inverse_of(content);
    std::sort(g.begin(), g.end());
    return g;
  };
  Monomial content = content_of(f);
  if (!nonzero) {
    std::erase_if(content, [&](const Factor& factor) { return atom(factor.atom).kind != AtomKind::Exp; });
    f = without(std::move(f), content);
    if (!f.empty()) f = scaled(f, f[0].coefficient.abs().inverse());
    if (!nonnegative(f)) conditions.push_back({false, std::move(f), guard});
    return;
  }
  for (const Factor& factor : content) {
    const Atom& of = atom(factor.atom);
    if (of.kind == AtomKind::Root || of.kind == AtomKind::Abs) {
      add_condition(conditions, true, of.arguments[0], guard);
    } else if (!positive_atom(factor.atom) && of.kind != AtomKind::Inverse) {
      conditions.push_back({true, of_atom(factor.atom), guard});
    }
  }
  f = without(std::move(f), content);
  if (!f.empty()) f = scaled(f, f[0].coefficient.inverse());
  if (f != one() && !positive(f) && !positive(scaled(f, {-1, 1}))) conditions.push_back({true, std::move(f), guard});
}

Defined Formulas::defined_by(const std::vector<Condition>& conditions) {
  Defined defined;
  for (const Condition& condition : conditions) {
    if (!condition.always()) continue;
    if (condition.nonzero) {
      const Polynomial& f = condition.f;
      if (f.size() == 1 && f[0].monomial.size() == 1) defined.nonzero.insert(f[0].monomial[0].atom);
      defined.atoms.insert(atom_of(AtomKind::Inverse, {f}));
    } else {
      defined.atoms.insert(atom_of(AtomKind::Root, {condition.f}));
    }
  }
  return defined;
}

}  // namespace strata
