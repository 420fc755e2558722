#include "superopt/solver/formulas.h"

#include <algorithm>
#include <map>

#include "support/hash.h"

namespace strata {
namespace {

constexpr const char* kTooLarge = "a coefficient does not fit 63 bits";
/// Some milliseconds of work.
constexpr size_t kTermsBetweenLooks = 1 << 13;

}  // namespace

// --- storage ---

Polynomial Formulas::fail(std::string reason) {
  if (failure_.empty()) failure_ = std::move(reason);
  return {};
}

void Formulas::look_at_clock(size_t terms) {
  looked_ += terms + 1;
  if (looked_ < kTermsBetweenLooks) return;
  looked_ = 0;
  if (limits_.stop.stop_requested() || std::chrono::steady_clock::now() > limits_.deadline) fail("time is up");
}

uint32_t Formulas::intern(Polynomial f) {
  look_at_clock(f.size());
  if (!failure_.empty()) f.clear();
  if (held_terms_ + f.size() > limits_.all_terms) {
    f = fail(fmt::format("formulas have more than {} terms together", limits_.all_terms));
  }
  if (f.size() > limits_.terms) f = fail(fmt::format("a formula has more than {} terms", limits_.terms));
  if (!is_valid(f)) f = fail(kTooLarge);
  auto& bucket = by_hash_[hash_of(f)];
  for (uint32_t id : bucket) {
    if (formulas_[id] == f) return id;
  }
  bucket.push_back(static_cast<uint32_t>(formulas_.size()));
  held_terms_ += f.size();
  formulas_.push_back(std::move(f));
  return bucket.back();
}

SymbolicValue Formulas::value(uint32_t formula, uint32_t domain) {
  const auto [it, first] =
      value_ids_.try_emplace(uint64_t{formula} << 32 | domain, static_cast<uint32_t>(values_.size()));
  if (first) values_.push_back({formula, domain});
  return {it->second};
}

AtomId Formulas::atom_of(AtomKind kind, std::vector<Polynomial> arguments) {
  // What does not fit is one value, and two formulas that hold it would be taken for equal.
  if (!std::all_of(arguments.begin(), arguments.end(), is_valid)) fail(kTooLarge);
  Hasher hasher;
  hasher.add(static_cast<uint64_t>(kind));
  for (const Polynomial& argument : arguments) hasher.add(hash_of(argument));
  auto& bucket = atoms_by_hash_[hasher.value()];
  for (AtomId id : bucket) {
    if (atoms_[id].kind == kind && atoms_[id].arguments == arguments) return id;
  }
  bucket.push_back(static_cast<AtomId>(atoms_.size()));
  atoms_.push_back({kind, std::move(arguments), {}});
  return bucket.back();
}

Polynomial Formulas::of_atom(AtomId id, const Number& exponent) {
  return exponent.is_zero() ? one() : Polynomial{{{{id, exponent}}, {1, 1}}};
}

SymbolicValue Formulas::input(std::string name, bool bound) {
  const auto id = static_cast<AtomId>(atoms_.size());
  atoms_.push_back({AtomKind::Input, {}, std::move(name), bound});
  return value(of_atom(id), 0);
}

// --- operators ---

SymbolicValue Formulas::with_sign(SymbolicValue v, bool nonnegative, bool positive) {
  // Only where it is so everywhere: √x·√x is not negative, and x, its formula, may be.
  const Polynomial& f = formula(v);
  if (nonnegative && domain(v) == 0 && f.size() > 1 && failure_.empty()) {
    signs_[scaled(f, f[0].coefficient.abs().inverse())] |= positive;
  }
  return v;
}

SymbolicValue Formulas::constant(const Rational& r) { return value(constant_polynomial({r.num, r.den}), 0); }
SymbolicValue Formulas::add(SymbolicValue a, SymbolicValue b) {
  const SymbolicValue sum = value(formula(a) + formula(b), both(domain(a), domain(b)));
  const bool neither_negative = nonnegative(formula(a)) && nonnegative(formula(b));
  return with_sign(sum, neither_negative, positive(formula(a)) || positive(formula(b)));
}
SymbolicValue Formulas::sub(SymbolicValue a, SymbolicValue b) {
  return value(formula(a) - formula(b), both(domain(a), domain(b)));
}
SymbolicValue Formulas::mul(SymbolicValue a, SymbolicValue b) {
  const SymbolicValue result =
      value(product(Polynomial(formula(a)), Polynomial(formula(b))), both(domain(a), domain(b)));
  const bool square = values_[a.id].formula == values_[b.id].formula;
  return with_sign(result, square || (nonnegative(formula(a)) && nonnegative(formula(b))),
                   positive(formula(a)) && positive(formula(b)));
}
SymbolicValue Formulas::div(SymbolicValue a, SymbolicValue b) {
  uint32_t where = both(domain(a), domain(b));
  const Polynomial denominator = formula(b);
  if (!positive(denominator) && !positive(scaled(denominator, {-1, 1}))) {
    where = both(where, domain_of(Domain::Kind::NonZero, values_[b.id].formula, 0));
  }
  return value(product(Polynomial(formula(a)), reciprocal(denominator)), where);
}
SymbolicValue Formulas::exp(SymbolicValue a) { return value(exponential(Polynomial(formula(a))), domain(a)); }
SymbolicValue Formulas::sqrt(SymbolicValue a) {
  uint32_t where = domain(a);
  if (!nonnegative(formula(a)) && !square_root_of(formula(a))) {
    where = both(where, domain_of(Domain::Kind::NonNegative, values_[a.id].formula, 0));
  }
  return value(root(Polynomial(formula(a))), where);
}
SymbolicValue Formulas::max(SymbolicValue a, SymbolicValue b) {
  const SymbolicValue result = value(maximum({formula(a), formula(b)}), both(domain(a), domain(b)));
  const bool magnitude = formula(a) == scaled(formula(b), {-1, 1});
  return with_sign(result, magnitude || nonnegative(formula(a)) || nonnegative(formula(b)),
                   positive(formula(a)) || positive(formula(b)));
}
SymbolicValue Formulas::greater(SymbolicValue a, SymbolicValue b) {
  return value(step(formula(a) - formula(b)), both(domain(a), domain(b)));
}
SymbolicValue Formulas::select(SymbolicValue c, SymbolicValue a, SymbolicValue b) {
  const Polynomial otherwise = formula(b);
  const Polynomial difference = formula(a) - otherwise;
  const Polynomial chosen = nonzero(Polynomial(formula(c)));
  const uint32_t branches = both(guarded(chosen, domain(a)), guarded(one() - chosen, domain(b)));
  return value(otherwise + product(chosen, difference), both(domain(c), branches));
}

// --- products ---

/// A factor whose exponent has a normal range and is outside.
std::optional<Polynomial> Formulas::rewritten_factor(const Factor& factor) {
  const Atom& atom = atoms_[factor.atom];
  const Number& e = factor.exponent;
  const int64_t n = e.num;
  switch (atom.kind) {
    case AtomKind::Root: {  // √f² = f
      if (!e.is_integer() || n == 1) return std::nullopt;
      const int64_t odd = n & 1;
      const Polynomial square = power(Polynomial(atom.arguments[0]), (n - odd) / 2);
      return odd != 0 ? product(of_atom(factor.atom), square) : square;
    }
    case AtomKind::Abs: {  // |f|² = f²
      if (!e.is_integer() || n == 1) return std::nullopt;
      const int64_t odd = n & 1;
      const Polynomial square = power(Polynomial(atom.arguments[0]), n - odd);
      return odd != 0 ? product(of_atom(factor.atom), square) : square;
    }
    case AtomKind::Positive:  // 0 and 1 are their own squares, and 1/[f > 0] is 1 where it is defined
      if (n == 1) return std::nullopt;
      return n < 0 ? one() : of_atom(factor.atom);
    case AtomKind::Input:
      if (!atom.bound) return std::nullopt;
      [[fallthrough]];
    case AtomKind::Max:
      // A maximum may be 0 on a region with volume, as a bound input may. It must not cancel against 1/max, which a
      // select may stand before.
      if (n > 0) return std::nullopt;
      return of_atom(atom_of(AtomKind::Inverse, {of_atom(factor.atom)}), {-n, 1});
    case AtomKind::Inverse:
      if (n > 0) return std::nullopt;
      return power(Polynomial(atom.arguments[0]), -n);
    default:
      return std::nullopt;
  }
}

/// [±x > 0] with x or |x| beside it is relu; with the opposite step, 0.
std::optional<Polynomial> Formulas::rewritten_step(const Term& term, const Factor& step) {
  if (step.exponent != Number{1, 1}) return std::nullopt;
  const Polynomial f = atoms_[step.atom].arguments[0];
  const Polynomial opposite = scaled(f, {-1, 1});
  for (const Factor& factor : term.monomial) {
    const Atom& other = atoms_[factor.atom];
    if (other.kind == AtomKind::Positive && other.arguments[0] == opposite && factor.exponent == Number{1, 1}) {
      return Polynomial{};
    }
    if (other.kind == AtomKind::Abs && factor.exponent == Number{1, 1} &&
        (other.arguments[0] == f || other.arguments[0] == opposite)) {
      // |f|·[f > 0] = f·[f > 0]
      const Polynomial rest{{with_exponent(term.monomial, factor.atom, {}), term.coefficient}};
      return product(rest, f);
    }
  }
  if (f.size() != 1 || f[0].coefficient.abs() != Number{1, 1} || f[0].monomial.size() != 1) return std::nullopt;
  const Factor& x = f[0].monomial[0];
  if (x.exponent != Number{1, 1}) return std::nullopt;
  const Number e = exponent_of(term.monomial, x.atom);
  if (!e.is_integer() || e.num < 1) return std::nullopt;
  Monomial rest = with_exponent(with_exponent(term.monomial, step.atom, {}), x.atom, e - Number{1, 1});
  // x·[±x > 0] = ±relu(±x)
  Polynomial relu = scaled(f + absolute(f), {1, 2});
  relu = scaled(std::move(relu), f[0].coefficient);
  return product(Polynomial{{std::move(rest), term.coefficient}}, relu);
}

std::optional<Polynomial> Formulas::rewritten(const Term& term) {
  for (const Factor& factor : term.monomial) {
    if (auto replaced = rewritten_factor(factor)) {
      const Polynomial rest{{with_exponent(term.monomial, factor.atom, {}), term.coefficient}};
      return product(rest, *replaced);
    }
  }
  for (const Factor& factor : term.monomial) {
    if (atoms_[factor.atom].kind != AtomKind::Positive) continue;
    if (auto replaced = rewritten_step(term, factor)) return replaced;
  }
  return std::nullopt;
}

Polynomial Formulas::product(const Polynomial& a, const Polynomial& b) {
  if (!failure_.empty()) return {};
  look_at_clock(a.size() * b.size());
  if (!failure_.empty()) return {};
  if (a.size() * b.size() > 50 * limits_.terms) {
    return fail(fmt::format("a product has more than {} terms", 50 * limits_.terms));
  }
  std::map<Monomial, Number> plain;
  Polynomial rest;
  for (const Term& x : a) {
    for (const Term& y : b) {
      Term term{x.monomial * y.monomial, x.coefficient * y.coefficient};
      if (!term.coefficient.valid()) return fail(kTooLarge);
      if (auto replaced = rewritten(term)) {
        rest = rest + *replaced;
      } else {
        Number& sum = plain.try_emplace(std::move(term.monomial), Number{}).first->second;
        sum = sum + term.coefficient;
      }
      if (!failure_.empty()) return {};
    }
  }
  Polynomial result;
  for (auto& [monomial, coefficient] : plain) {
    if (!coefficient.is_zero()) result.push_back({monomial, coefficient});
  }
  return rest.empty() ? result : result + rest;
}

Polynomial Formulas::power(const Polynomial& f, int64_t exponent) {
  if (exponent < 0) return power(reciprocal(f), -exponent);
  Polynomial result = one();
  for (int64_t i = 0; i < exponent && failure_.empty(); ++i) result = product(result, f);
  return result;
}

Polynomial Formulas::reciprocal(const Polynomial& f) {
  if (!failure_.empty()) return {};
  if (f.empty()) return fail("a quotient has the denominator 0");
  const Monomial content = content_of(f);
  const Polynomial outside{{inverse_of(content), {1, 1}}};
  Polynomial rest = f;
  for (Term& term : rest) term.monomial = term.monomial * outside[0].monomial;
  std::sort(rest.begin(), rest.end());
  const Number leading = rest[0].coefficient;
  rest = scaled(std::move(rest), leading.inverse());
  // Exponents of `outside` may need rewriting: 1/√f = √f·(1/f).
  Polynomial result = product(scaled(one(), leading.inverse()), outside);
  if (rest.size() > 1) result = product(result, of_atom(atom_of(AtomKind::Inverse, {rest})));
  return result;
}

Polynomial Formulas::without_denominators(Polynomial f, const Defined& defined, Monomial* denominators) {
  const auto clears = [&](AtomId id) {
    return atoms_[id].kind == AtomKind::Inverse && (defined.atoms.count(id) != 0 || positive(atoms_[id].arguments[0]));
  };
  while (failure_.empty()) {
    // The latest denominator is the outermost: what it holds was made before.
    std::optional<AtomId> denominator;
    for (const Term& term : f) {
      for (const Factor& factor : term.monomial) {
        if (clears(factor.atom) && (!denominator || *denominator < factor.atom)) denominator = factor.atom;
      }
    }
    if (!denominator) return f;
    int64_t most = 0;
    for (const Term& term : f) most = std::max(most, exponent_of(term.monomial, *denominator).num);
    std::vector<Polynomial> powers{one()};
    const Polynomial base = atoms_[*denominator].arguments[0];
    for (int64_t i = 0; i < most; ++i) powers.push_back(product(powers.back(), base));
    Polynomial cleared;
    for (const Term& term : f) {
      const int64_t e = exponent_of(term.monomial, *denominator).num;
      const Polynomial rest{{with_exponent(term.monomial, *denominator, {}), term.coefficient}};
      cleared = cleared + product(rest, powers[static_cast<size_t>(most - e)]);
    }
    f = std::move(cleared);
    if (denominators != nullptr) *denominators = *denominators * Monomial{{*denominator, {most, 1}}};
  }
  return f;
}

std::string Formulas::to_string(const Polynomial& f) const {
  constexpr std::array kNames{"", "exp", "sqrt", "abs", "max", "positive", "inverse"};
  std::string text;
  for (const Term& term : f) {
    if (!text.empty()) text += " + ";
    text += Rational{term.coefficient.num, term.coefficient.den}.to_string();
    for (const Factor& factor : term.monomial) {
      const Atom& atom = atoms_[factor.atom];
      text += "·" + atom.name;
      if (atom.kind != AtomKind::Input) {
        text += kNames[static_cast<size_t>(atom.kind)];
        std::string arguments;
        for (const Polynomial& g : atom.arguments) arguments += (arguments.empty() ? "" : ", ") + to_string(g);
        text += "(" + arguments + ")";
      }
      if (factor.exponent != Number{1, 1}) {
        text += "^" + Rational{factor.exponent.num, factor.exponent.den}.to_string();
      }
    }
  }
  return text.empty() ? "0" : text;
}

}  // namespace strata
