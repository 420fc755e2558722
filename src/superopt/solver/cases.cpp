#include "superopt/solver/cases.h"

#include <algorithm>

#include "superopt/solver/conditions.h"

namespace strata {
namespace {

/// The limit for one formula.
constexpr int kMostCases = 2000;
/// For Z3, of one case.
constexpr double kMostSeconds = 2;

Polynomial negated(const Polynomial& f) { return scaled(f, {-1, 1}); }

}  // namespace

bool Cases::vanishes(const Polynomial& f, const std::vector<Condition>& conditions) {
  cases_ = 0;
  // One case is the question itself, which the caller asks of Z3.
  return first_kink(f) && zero({f, conditions, {}});
}

/// An atom is made after those in its arguments, so that the first kink has none inside.
std::optional<AtomId> Cases::first_kink(const Polynomial& f) const {
  std::set<AtomId> atoms;
  find_atoms(formulas_, f, atoms);
  const auto kink = std::find_if(atoms.begin(), atoms.end(), [&](AtomId id) {
    const AtomKind kind = formulas_.atom(id).kind;
    return kind == AtomKind::Abs || kind == AtomKind::Max || kind == AtomKind::Positive;
  });
  return kink == atoms.end() ? std::nullopt : std::optional(*kink);
}

bool Cases::zero(const Case& of) {
  if (++cases_ > kMostCases || limit_.up()) return false;
  if (of.f.empty()) return true;
  const auto kink = first_kink(of.f);
  if (!kink) return leaf(of);
  return formulas_.atom(*kink).kind == AtomKind::Max ? split_maximum(of, *kink) : split_sign(of, *kink);
}

bool Cases::leaf(const Case& of) {
  const std::vector<Condition> conditions = formulas_.simplified(of.conditions);
  const Defined defined = formulas_.defined_by(conditions);
  Polynomial f = formulas_.without_denominators(of.f, defined);
  if (!formulas_.take_failure().empty()) return false;
  if (f.empty()) return true;
  std::vector<Constraint> constraints = constraints_of(conditions);
  constraints.push_back({std::move(f), Relation::NotZero});
  for (const Assumption& a : of.assumptions) {
    switch (a.sign) {
      case Sign::Positive:
        constraints.push_back({negated(a.f), Relation::Negative});
        break;
      case Sign::NotNegative:
        constraints.push_back({a.f, Relation::NotNegative});
        break;
      case Sign::Zero:
        constraints.push_back({a.f, Relation::Zero});
        break;
      case Sign::NotPositive:
        constraints.push_back({negated(a.f), Relation::NotNegative});
        break;
      case Sign::Negative:
        constraints.push_back({a.f, Relation::Negative});
    }
  }
  // One hard case must leave time for the question as a whole.
  TimeLimit part = limit_;
  const auto seconds = std::chrono::duration<double>(std::min(limit_.seconds_left() / 4, kMostSeconds));
  part.deadline = std::min(part.deadline, std::chrono::steady_clock::now() +
                                              std::chrono::duration_cast<std::chrono::steady_clock::duration>(seconds));
  return satisfiable(formulas_, constraints, defined, part).satisfiable == Satisfiable::No;
}

std::optional<Cases::Sign> Cases::sign_of(const Case& of, const Polynomial& f) const {
  const auto opposite = [](Sign sign) { return static_cast<Sign>(4 - static_cast<int>(sign)); };
  if (f.empty()) return Sign::Zero;
  const Polynomial key = scaled(f, f[0].coefficient.inverse());
  for (const Assumption& a : of.assumptions) {
    if (a.f == key) return f[0].coefficient.num > 0 ? a.sign : opposite(a.sign);
  }
  if (formulas_.positive(f)) return Sign::Positive;
  if (formulas_.positive(negated(f))) return Sign::Negative;
  if (formulas_.nonnegative(f)) return Sign::NotNegative;
  if (formulas_.nonnegative(negated(f))) return Sign::NotPositive;
  return std::nullopt;
}

std::vector<Polynomial> Cases::factors_of(const Polynomial& f, bool strict) const {
  std::vector<Polynomial> factors;
  const Monomial content = content_of(f);
  for (const Factor& factor : content) {
    if (formulas_.positive_atom(factor.atom)) continue;
    const bool even = factor.exponent.num % 2 == 0;
    const Polynomial base{{{{factor.atom, {1, 1}}}, {1, 1}}};
    if (!even || strict) factors.push_back(base);
    if (even && strict) factors.push_back(base);
  }
  Polynomial rest = f;
  for (Term& term : rest) term.monomial = term.monomial * inverse_of(content);
  std::sort(rest.begin(), rest.end());
  factors.push_back(std::move(rest));
  return factors;
}

bool Cases::split_sign(const Case& of, AtomId kink) {
  const bool step = formulas_.atom(kink).kind == AtomKind::Positive;
  const Polynomial h = formulas_.atom(kink).arguments[0];
  bool negative = false;
  std::optional<Polynomial> loose;  // a factor of which only ≥ 0 or ≤ 0 is known
  for (const Polynomial& factor : factors_of(h, step)) {
    const auto sign = sign_of(of, factor);
    if (!sign) {
      // No more than the kink asks for: two cases, not three. Where the factor is 0 on a set without volume only, as
      // where two inputs are equal, that set does not count.
      const bool thin = step && formulas_.zeros_have_no_volume(factor);
      return assumed(of, factor, step ? Sign::Positive : Sign::NotNegative) &&
             assumed(of, factor, thin ? Sign::Negative : Sign::NotPositive);
    }
    if (*sign == Sign::Zero) return replaced(of, {{kink, {}}});
    negative ^= *sign == Sign::Negative || *sign == Sign::NotPositive;
    if (*sign == Sign::NotNegative || *sign == Sign::NotPositive) loose = factor;
  }
  if (!step) return replaced(of, {{kink, negative ? negated(h) : h}});
  if (negative) return replaced(of, {{kink, {}}});
  if (!loose) return replaced(of, {{kink, one()}});
  const bool below = *sign_of(of, *loose) == Sign::NotPositive;
  if (!assumed(of, *loose, below ? Sign::Negative : Sign::Positive)) return false;
  return formulas_.zeros_have_no_volume(*loose) || assumed(of, *loose, Sign::Zero);
}

bool Cases::split_maximum(const Case& of, AtomId kink) {
  std::vector<Polynomial> candidates = formulas_.atom(kink).arguments;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const bool dominated = std::any_of(candidates.begin(), candidates.end(), [&](const Polynomial& other) {
      if (&other == &candidates[i]) return false;
      const auto sign = sign_of(of, other - candidates[i]);
      return sign && (*sign == Sign::Positive || *sign == Sign::NotNegative || *sign == Sign::Zero);
    });
    if (dominated) candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(i--));
  }
  if (candidates.size() == 1) return replaced(of, {{kink, candidates[0]}});
  // The first against the second: what is known then takes one of them away.
  const Polynomial difference = candidates[0] - candidates[1];
  return assumed(of, difference, Sign::NotNegative) && assumed(of, difference, Sign::NotPositive);
}

/// An input that f = 0 gives as a formula of others.
std::optional<std::pair<AtomId, Polynomial>> Cases::solved(const Polynomial& f) const {
  for (const Term& term : f) {
    const Monomial& m = term.monomial;
    if (m.size() != 1 || m[0].exponent != Number{1, 1} || formulas_.atom(m[0].atom).kind != AtomKind::Input) continue;
    const Polynomial rest = f - Polynomial{term};
    std::set<AtomId> elsewhere;
    find_atoms(formulas_, rest, elsewhere);
    if (elsewhere.count(m[0].atom) == 0) return std::pair{m[0].atom, scaled(rest, (-term.coefficient).inverse())};
  }
  return std::nullopt;
}

bool Cases::assumed(Case of, const Polynomial& f, Sign sign) {
  const Number first = f[0].coefficient;
  if (first.num < 0) sign = static_cast<Sign>(4 - static_cast<int>(sign));
  const Polynomial key = scaled(f, first.inverse());
  if (!is_valid(key)) return false;
  std::erase_if(of.assumptions, [&](const Assumption& a) { return a.f == key; });
  if (sign == Sign::Zero) {
    if (const auto input = solved(key)) return replaced(std::move(of), {*input});
  }
  of.assumptions.push_back({key, sign});
  return zero(of);
}

/// True where no inputs are left.
bool Cases::replaced(Case of, const std::map<AtomId, Polynomial>& by) {
  std::vector<Assumption> assumptions;
  for (Assumption& a : of.assumptions) {
    auto f = formulas_.with_replaced(a.f, by);
    if (!f) continue;
    if (const auto value = constant_of(*f)) {
      const bool holds = value->num == 0  ? a.sign != Sign::Positive && a.sign != Sign::Negative
                         : value->num > 0 ? a.sign == Sign::Positive || a.sign == Sign::NotNegative
                                          : a.sign == Sign::Negative || a.sign == Sign::NotPositive;
      if (!holds) return true;
      continue;
    }
    if ((*f)[0].coefficient.num < 0) a.sign = static_cast<Sign>(4 - static_cast<int>(a.sign));
    assumptions.push_back({scaled(*f, (*f)[0].coefficient.inverse()), a.sign});
  }
  of.assumptions = std::move(assumptions);
  std::vector<Condition> conditions;
  for (const Condition& c : of.conditions) {
    auto guard = formulas_.with_replaced(c.guard, by);
    if (!guard || guard->empty()) continue;
    auto f = formulas_.with_replaced(c.f, by);
    if (!f) continue;
    const auto value = constant_of(*f);
    if (value && *guard == one() && (c.nonzero ? value->is_zero() : value->num < 0)) return true;
    conditions.push_back({c.nonzero, std::move(*f), std::move(*guard)});
  }
  of.conditions = std::move(conditions);
  auto f = formulas_.with_replaced(of.f, by);
  if (!f) return false;
  of.f = std::move(*f);
  return zero(of);
}

}  // namespace strata
