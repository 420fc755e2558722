#include "superopt/solver/formulas.h"

#include <algorithm>
#include <map>

#include "ops/op_def.h"
#include "support/hash.h"

namespace strata {
namespace {

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

bool is_even(const Number& n) { return n.is_integer() && n.num % 2 == 0; }

}  // namespace

// --- storage ---

Polynomial Formulas::fail(std::string reason) {
  if (failure_.empty()) failure_ = std::move(reason);
  return {};
}

SymbolicValue Formulas::intern(Polynomial f) {
  if (f.size() > limits_.terms) f = fail(fmt::format("a formula has more than {} terms", limits_.terms));
  if (!is_valid(f)) f = fail("a coefficient does not fit 63 bits");
  auto& bucket = by_hash_[hash_of(f)];
  for (uint32_t id : bucket) {
    if (formulas_[id] == f) return {id};
  }
  bucket.push_back(static_cast<uint32_t>(formulas_.size()));
  formulas_.push_back(std::move(f));
  return {bucket.back()};
}

AtomId Formulas::atom_of(AtomKind kind, std::vector<Polynomial> arguments) {
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

SymbolicValue Formulas::input(std::string name) {
  const auto id = static_cast<AtomId>(atoms_.size());
  atoms_.push_back({AtomKind::Input, {}, std::move(name)});
  return intern(of_atom(id));
}

std::vector<Condition> Formulas::take_conditions() {
  std::vector<Condition> met = std::exchange(conditions_, {});
  std::sort(met.begin(), met.end());
  met.erase(std::unique(met.begin(), met.end()), met.end());
  std::erase_if(met, [&](const Condition& condition) {
    const Polynomial& f = formulas_[condition.formula];
    return condition.nonzero ? positive(f) || positive(scaled(f, {-1, 1})) : nonnegative(f);
  });
  return met;
}

// --- operators ---

SymbolicValue Formulas::constant(const Rational& r) { return intern(constant_polynomial({r.num, r.den})); }
SymbolicValue Formulas::add(SymbolicValue a, SymbolicValue b) { return intern(formulas_[a.id] + formulas_[b.id]); }
SymbolicValue Formulas::sub(SymbolicValue a, SymbolicValue b) { return intern(formulas_[a.id] - formulas_[b.id]); }
SymbolicValue Formulas::mul(SymbolicValue a, SymbolicValue b) {
  return intern(product(Polynomial(formulas_[a.id]), Polynomial(formulas_[b.id])));
}
SymbolicValue Formulas::div(SymbolicValue a, SymbolicValue b) {
  conditions_.push_back({true, b.id});
  const Polynomial inverse = reciprocal(Polynomial(formulas_[b.id]));
  return intern(product(Polynomial(formulas_[a.id]), inverse));
}
SymbolicValue Formulas::exp(SymbolicValue a) { return intern(exponential(Polynomial(formulas_[a.id]))); }
SymbolicValue Formulas::sqrt(SymbolicValue a) {
  conditions_.push_back({false, a.id});
  return intern(root(Polynomial(formulas_[a.id])));
}
SymbolicValue Formulas::max(SymbolicValue a, SymbolicValue b) {
  return intern(maximum({formulas_[a.id], formulas_[b.id]}));
}
SymbolicValue Formulas::greater(SymbolicValue a, SymbolicValue b) {
  return intern(step(formulas_[a.id] - formulas_[b.id]));
}
SymbolicValue Formulas::select(SymbolicValue c, SymbolicValue a, SymbolicValue b) {
  const Polynomial otherwise = formulas_[b.id];
  const Polynomial difference = formulas_[a.id] - otherwise;
  return intern(otherwise + product(nonzero(Polynomial(formulas_[c.id])), difference));
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
    case AtomKind::Positive:  // 0 and 1 are their own squares
      if (n >= -1 && n <= 1) return std::nullopt;
      return of_atom(factor.atom, {n < 0 ? -1 : 1, 1});
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
  if (++products_ % 256 == 1 &&
      (limits_.stop.stop_requested() || std::chrono::steady_clock::now() > limits_.deadline)) {
    return fail("time is up");
  }
  if (a.size() * b.size() > 50 * limits_.terms) {
    return fail(fmt::format("a product has more than {} terms", 50 * limits_.terms));
  }
  std::map<Monomial, Number> plain;
  Polynomial rest;
  for (const Term& x : a) {
    for (const Term& y : b) {
      Term term{x.monomial * y.monomial, x.coefficient * y.coefficient};
      if (!term.coefficient.valid()) return fail("a coefficient does not fit 63 bits");
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

Polynomial Formulas::without_denominators(Polynomial f) {
  while (failure_.empty()) {
    // The latest denominator is the outermost: what it holds was made before.
    std::optional<AtomId> denominator;
    for (const Term& term : f) {
      for (const Factor& factor : term.monomial) {
        const bool inverse = atoms_[factor.atom].kind == AtomKind::Inverse;
        if (inverse && (!denominator || *denominator < factor.atom)) denominator = factor.atom;
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
  }
  return f;
}

// --- signs ---

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
  // 1/f is not 0 where it is defined.
  if (atom.kind == AtomKind::Inverse) return nonnegative(atom.arguments[0]);
  return algebra_of(atom.kind).positive;
}

bool Formulas::nonnegative(const Monomial& monomial) const {
  return std::all_of(monomial.begin(), monomial.end(),
                     [&](const Factor& factor) { return is_even(factor.exponent) || nonnegative_atom(factor.atom); });
}

bool Formulas::nonnegative(const Polynomial& f) const {
  return std::all_of(f.begin(), f.end(),
                     [&](const Term& term) { return term.coefficient.num > 0 && nonnegative(term.monomial); });
}

bool Formulas::positive(const Polynomial& f) const {
  return nonnegative(f) && std::any_of(f.begin(), f.end(), [&](const Term& term) {
           return std::all_of(term.monomial.begin(), term.monomial.end(),
                              [&](const Factor& factor) { return positive_atom(factor.atom); });
         });
}

bool Formulas::smooth(const Polynomial& f) const {
  return std::all_of(f.begin(), f.end(), [&](const Term& term) {
    return std::all_of(term.monomial.begin(), term.monomial.end(), [&](const Factor& factor) {
      const Atom& atom = atoms_[factor.atom];
      switch (atom.kind) {
        case AtomKind::Abs:
        case AtomKind::Max:
        case AtomKind::Positive:
          return false;
        default:
          return std::all_of(atom.arguments.begin(), atom.arguments.end(), [&](const auto& g) { return smooth(g); });
      }
    });
  });
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
