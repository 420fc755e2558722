// The normal forms of the functions: exponentials, roots, absolute values, maxima and steps.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/op_def.h"
#include "superopt/solver/formulas.h"

namespace strata {
namespace {

/// Beyond, a sum of maxima is not multiplied out. One maximum may have any number.
constexpr size_t kMostAlternatives = 16;
constexpr size_t kMostSteps = 4;
/// Terms of what may be the square of a sum.
constexpr size_t kMostOfSquare = 64;

/// The largest rational that divides all coefficients.
Number common_factor(const std::vector<Polynomial>& formulas) {
  int64_t num = 0;
  int64_t den = 1;
  for (const Polynomial& f : formulas) {
    for (const Term& term : f) {
      num = std::gcd(num, term.coefficient.num);
      const int64_t by = term.coefficient.den / std::gcd(den, term.coefficient.den);
      if (__builtin_mul_overflow(den, by, &den)) return {1, 1};
    }
  }
  return num == 0 ? Number{1, 1} : Number{num, den};
}

/// √n where it is rational.
std::optional<Number> exact_root(const Number& n) {
  const auto num = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(n.num))));
  const auto den = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(n.den))));
  const Number root{num, den};
  return root * root == n ? std::optional(root) : std::nullopt;
}

Number coefficient_of(const Polynomial& f, const Monomial& monomial) {
  for (const Term& term : f) {
    if (term.monomial == monomial) return term.coefficient;
  }
  return {};
}

}  // namespace

/// exp(Σ c·m) = Π exp(m)^c: the monomials' exponentials are atoms, and positive, so that any exponent is defined.
Polynomial Formulas::exponential(const Polynomial& f) {
  Monomial result;
  for (const Term& term : f) {
    result = result * Monomial{{atom_of(AtomKind::Exp, {{{term.monomial, {1, 1}}}}), term.coefficient}};
  }
  return {{std::move(result), {1, 1}}};
}

/// √(n/d) = √(n·d)/d, with the roots of primes as atoms.
Polynomial Formulas::root_of_number(const Number& value) {
  int64_t n = 0;
  if (__builtin_mul_overflow(value.num, value.den, &n)) {
    return of_atom(atom_of(AtomKind::Root, {constant_polynomial(value)}));
  }
  Number outside{1, value.den};
  Polynomial result = one();
  for (int64_t prime = 2; prime <= 100000 && prime * prime <= n; ++prime) {
    int times = 0;
    for (; n % prime == 0; n /= prime) ++times;
    for (int i = 0; i < times / 2; ++i) outside = outside * Number{prime, 1};
    if (times % 2 != 0) result = product(result, of_atom(atom_of(AtomKind::Root, {constant_polynomial({prime, 1})})));
  }
  const auto whole = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(n))));
  if (whole < (int64_t{1} << 31) && whole * whole == n) {
    outside = outside * Number{whole, 1};
  } else if (n > 1) {
    result = product(result, of_atom(atom_of(AtomKind::Root, {constant_polynomial({n, 1})})));
  }
  return scaled(std::move(result), outside);
}

/// What is surely not negative leaves the root, and squares leave it as absolute values.
Polynomial Formulas::root(const Polynomial& f) {
  if (!failure_.empty() || f.empty()) return {};
  Monomial outside_inverse;
  Polynomial outside = one();
  for (const Factor& factor : content_of(f)) {
    const AtomKind kind = atom(factor.atom).kind;
    const Number& e = factor.exponent;
    if (kind == AtomKind::Exp) {
      outside = product(outside, of_atom(factor.atom, e * Number{1, 2}));
      outside_inverse.push_back({factor.atom, -e});
    } else if (kind == AtomKind::Positive) {  // 0 and 1 are their own roots
      outside = product(outside, of_atom(factor.atom, e));
      outside_inverse.push_back({factor.atom, -e});
    } else if (e.is_integer() && (e.num > 1 || e.num < -1)) {
      const int64_t half = e.num / 2;
      outside = product(outside, absolute_power({factor.atom, {half, 1}}));
      outside_inverse.push_back({factor.atom, {-2 * half, 1}});
    }
  }
  Polynomial rest = f;
  for (Term& term : rest) term.monomial = term.monomial * outside_inverse;
  std::sort(rest.begin(), rest.end());
  const Number scale = rest[0].coefficient.abs();
  rest = scaled(std::move(rest), scale.inverse());
  if (!failure_.empty()) return {};
  Polynomial result = product(outside, root_of_number(scale));
  if (const auto whole = square_root_of(rest)) return product(result, absolute(*whole));
  return rest == one() ? result : product(result, of_atom(atom_of(AtomKind::Root, {rest})));
}

/// q for f = q², where f's terms show it: the squares of q's terms are terms of f, and what stands at the products of
/// the first with the others tells their signs.
std::optional<Polynomial> Formulas::square_root_of(const Polynomial& f) {
  if (f.size() < 2 || f.size() > kMostOfSquare) return std::nullopt;
  Polynomial q;
  for (const Term& term : f) {
    Term half{term.monomial, term.coefficient};
    bool square = term.coefficient.num > 0;
    for (Factor& factor : half.monomial) {
      factor.exponent = factor.exponent * Number{1, 2};
      square &= factor.exponent.is_integer() || atom(factor.atom).kind == AtomKind::Exp;
    }
    const auto value = square ? exact_root(term.coefficient) : std::nullopt;
    if (!value) continue;
    half.coefficient = *value;
    if (!q.empty()) {
      const Polynomial cross = product({q[0]}, {half});
      if (cross.size() != 1) return std::nullopt;
      const Number found = coefficient_of(f, cross[0].monomial);
      if (found.is_zero()) continue;
      if (found.num < 0) half.coefficient = -half.coefficient;
    }
    q.push_back(std::move(half));
  }
  if (q.size() < 2) return std::nullopt;
  std::sort(q.begin(), q.end());
  return product(q, q) == f ? std::optional(q) : std::nullopt;
}

/// |a|^e for an integer e.
Polynomial Formulas::absolute_power(const Factor& factor) {
  const bool even = factor.exponent.num % 2 == 0;
  if (even || nonnegative_atom(factor.atom)) return product(one(), of_atom(factor.atom, factor.exponent));
  const AtomId magnitude = atom_of(AtomKind::Abs, {of_atom(factor.atom)});
  return product(of_atom(magnitude), of_atom(factor.atom, factor.exponent - Number{1, 1}));
}

/// |c·m·f| = |c|·|m|·|f|, where f's terms share no factor and its first coefficient is 1.
Polynomial Formulas::absolute(Polynomial f) {
  if (!failure_.empty() || f.empty()) return {};
  const Monomial content = content_of(f);
  for (Term& term : f) term.monomial = term.monomial * inverse_of(content);
  std::sort(f.begin(), f.end());
  const Number scale = f[0].coefficient;
  f = scaled(std::move(f), scale.inverse());
  Polynomial result = constant_polynomial(scale.abs());
  for (const Factor& factor : content) {
    // Only exponentials have exponents that are no integers.
    const bool plain = !factor.exponent.is_integer() || nonnegative_atom(factor.atom);
    result = product(result, plain ? of_atom(factor.atom, factor.exponent) : absolute_power(factor));
  }
  if (f == one()) return result;
  if (nonnegative(f)) return product(result, f);
  if (nonnegative(scaled(f, {-1, 1}))) return product(result, scaled(f, {-1, 1}));
  // Denominators > 0 are factors.
  Monomial denominators;
  if (Polynomial cleared = without_denominators(f, {}, &denominators); !denominators.empty()) {
    return product(product(result, {{denominators, {1, 1}}}), absolute(std::move(cleared)));
  }
  if (const auto rise = increase(f)) {
    const Polynomial larger = increasing_function(*rise, maximum({rise->a, rise->b}));
    return product(result, scaled(larger, {2, 1}) - rise->of_a - rise->of_b);
  }
  return product(result, of_atom(atom_of(AtomKind::Abs, {f})));
}

/// a for a term c·φ(a), c > 0; of a root its coefficient and factors ≥ 0 are squared into a.
std::optional<Polynomial> Formulas::argument_of(const Term& term, AtomKind kind) {
  const Monomial& m = term.monomial;
  const bool all_exponentials =
      std::all_of(m.begin(), m.end(), [&](const Factor& x) { return atom(x.atom).kind == AtomKind::Exp; });
  if (kind == AtomKind::Exp) {
    if (!all_exponentials) return std::nullopt;
    Polynomial argument;
    for (const Factor& x : m) argument = argument + scaled(atom(x.atom).arguments[0], x.exponent);
    return argument;
  }
  if (!nonnegative(m)) return std::nullopt;
  return product({term}, {term});
}

/// c·φ(a) − c·φ(b) for φ = exp, and c·√a − d·√b = √(c²·a) − √(d²·b).
std::optional<Formulas::Increase> Formulas::increase(const Polynomial& f) {
  if (f.size() != 2 || (f[0].coefficient.num > 0) == (f[1].coefficient.num > 0)) return std::nullopt;
  const bool first = f[0].coefficient.num > 0;
  const Term plus = f[first ? 0 : 1];
  const Term minus{f[first ? 1 : 0].monomial, f[first ? 1 : 0].coefficient.abs()};
  for (const AtomKind kind : {AtomKind::Exp, AtomKind::Root}) {
    const auto has = [&](const Term& term) {
      return std::any_of(term.monomial.begin(), term.monomial.end(),
                         [&](const Factor& x) { return atom(x.atom).kind == kind; });
    };
    if (!algebra_of(kind).increasing || (!has(plus) && !has(minus))) continue;
    if (kind == AtomKind::Exp && plus.coefficient != minus.coefficient) continue;
    const auto a = argument_of(plus, kind);
    const auto b = argument_of(minus, kind);
    if (a && b) return Increase{kind, plus.coefficient, *a, *b, {plus}, {minus}};
  }
  return std::nullopt;
}

Polynomial Formulas::increasing_function(const Increase& rise, const Polynomial& argument) {
  return rise.kind == AtomKind::Exp ? scaled(exponential(argument), rise.scale) : root(argument);
}

/// Candidates that are one increasing function, times and plus the same, become one: φ(max(a, b)) for φ(a) and φ(b).
void Formulas::merge_increasing(std::vector<Polynomial>& candidates) {
  for (size_t i = 0; i < candidates.size(); ++i) {
    for (size_t j = i + 1; j < candidates.size() && failure_.empty(); ++j) {
      const Polynomial difference = candidates[i] - candidates[j];
      const bool may = std::any_of(difference.begin(), difference.end(), [&](const Term& term) {
        return std::any_of(term.monomial.begin(), term.monomial.end(),
                           [&](const Factor& factor) { return algebra_of(atom(factor.atom).kind).increasing; });
      });
      if (difference.size() != 2 || !may) continue;
      const Polynomial magnitude = absolute(difference);
      const bool open = std::any_of(magnitude.begin(), magnitude.end(), [&](const Term& term) {
        return std::any_of(term.monomial.begin(), term.monomial.end(), [&](const Factor& factor) {
          return atom(factor.atom).kind == AtomKind::Abs || atom(factor.atom).kind == AtomKind::Max;
        });
      });
      if (open) continue;
      candidates[i] = scaled(candidates[i] + candidates[j] + magnitude, {1, 2});
      candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(j));
      i = static_cast<size_t>(-1);  // what was merged may merge again
      break;
    }
  }
}

const Factor* Formulas::maximum_in(const Term& term) const {
  if (term.coefficient.num < 0) return nullptr;
  for (const Factor& factor : term.monomial) {
    const AtomKind kind = atom(factor.atom).kind;
    if ((kind != AtomKind::Abs && kind != AtomKind::Max) || factor.exponent != Number{1, 1}) continue;
    if (nonnegative(with_exponent(term.monomial, factor.atom, {}))) return &factor;
  }
  return nullptr;
}

/// |h| is the maximum of h and −h.
std::vector<Polynomial> Formulas::alternatives(const Polynomial& f) {
  std::vector<Polynomial> open{f};
  std::vector<Polynomial> result;
  int splits = 0;
  while (!open.empty()) {
    const Polynomial g = std::move(open.back());
    open.pop_back();
    const auto split = std::find_if(g.begin(), g.end(), [&](const Term& term) { return maximum_in(term) != nullptr; });
    if (split == g.end()) {
      result.push_back(g);
      continue;
    }
    const AtomId maximum = maximum_in(*split)->atom;
    const Polynomial factor{{with_exponent(split->monomial, maximum, {}), split->coefficient}};
    Polynomial rest = g;
    rest.erase(rest.begin() + (split - g.begin()));
    std::vector<Polynomial> arguments = atom(maximum).arguments;
    if (atom(maximum).kind == AtomKind::Abs) arguments.push_back(scaled(arguments[0], {-1, 1}));
    for (const Polynomial& argument : arguments) open.push_back(rest + product(factor, argument));
    const bool many = ++splits > 1 && open.size() + result.size() > kMostAlternatives;
    if (many || !failure_.empty()) return {f};
  }
  return result;
}

Polynomial Formulas::maximum(std::vector<Polynomial> candidates) {
  std::vector<Polynomial> all;
  for (const Polynomial& f : candidates) {
    for (Polynomial& g : alternatives(f)) all.push_back(std::move(g));
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  for (size_t i = 0; i < all.size(); ++i) {
    const bool dominated = std::any_of(all.begin(), all.end(), [&](const Polynomial& other) {
      return &other != &all[i] && nonnegative(other - all[i]);
    });
    if (dominated) all.erase(all.begin() + static_cast<std::ptrdiff_t>(i--));
  }
  if (all.size() > 2) {
    merge_increasing(all);
    std::sort(all.begin(), all.end());
  }
  if (!failure_.empty()) return {};
  if (all.size() == 1) return all[0];
  if (all.size() == 2) return scaled(all[0] + all[1] + absolute(all[0] - all[1]), {1, 2});
  // What all have in common stands outside: a sum with the least coefficients, and factors that are not negative.
  Polynomial shift;
  std::vector<Monomial> monomials;
  for (const Polynomial& f : all) {
    for (const Term& term : f) monomials.push_back(term.monomial);
  }
  std::sort(monomials.begin(), monomials.end());
  monomials.erase(std::unique(monomials.begin(), monomials.end()), monomials.end());
  for (const Monomial& monomial : monomials) {
    Number least = coefficient_of(all[0], monomial);
    for (const Polynomial& f : all) least = std::min(least, coefficient_of(f, monomial));
    if (!least.is_zero()) shift.push_back({monomial, least});
  }
  Polynomial together;
  for (Polynomial& f : all) {
    f = f - shift;
    together.insert(together.end(), f.begin(), f.end());
  }
  const Number scale = common_factor(all);
  Monomial outside = content_of(together);
  std::erase_if(outside, [&](const Factor& factor) { return !nonnegative_atom(factor.atom); });
  for (Polynomial& f : all) {
    f = scaled(std::move(f), scale.inverse());
    for (Term& term : f) term.monomial = term.monomial * inverse_of(outside);
    std::sort(f.begin(), f.end());
  }
  std::sort(all.begin(), all.end());
  const Polynomial atom = of_atom(atom_of(AtomKind::Max, std::move(all)));
  return shift + product(Polynomial{{outside, scale}}, atom);
}

/// [f > 0]
Polynomial Formulas::step(Polynomial f) {
  // A number that does not fit has no sign.
  if (!is_valid(f)) fail("a coefficient does not fit 63 bits");
  if (!failure_.empty()) return {};
  if (const auto value = constant_of(f)) return value->num > 0 ? one() : Polynomial{};
  const Polynomial negative = scaled(f, {-1, 1});
  if (nonnegative(negative)) return {};
  if (positive(f)) return one();
  // A maximum is positive where one of its alternatives is.
  if (const auto parts = alternatives(f); parts.size() > 1 && parts.size() <= kMostSteps) {
    Polynomial none = one();
    for (const Polynomial& part : parts) none = product(none, one() - step(part));
    return one() - none;
  }
  if (const auto parts = alternatives(negative); parts.size() > 1 && parts.size() <= kMostSteps) {
    Polynomial all = one();
    for (const Polynomial& part : parts) all = product(all, step(scaled(part, {-1, 1})));
    return all;
  }
  Monomial content = content_of(f);
  std::erase_if(content, [&](const Factor& factor) { return !positive_atom(factor.atom); });
  for (Term& term : f) term.monomial = term.monomial * inverse_of(content);
  std::sort(f.begin(), f.end());
  const Number scale = f[0].coefficient.abs();
  f = scaled(std::move(f), scale.inverse());
  Monomial denominators;
  if (Polynomial cleared = without_denominators(f, {}, &denominators); !denominators.empty()) {
    return step(std::move(cleared));
  }
  // φ never falls and takes sums to products, or products to products: it grows strictly, or is constant.
  const auto rise = increase(f);
  if (rise && (algebra_of(rise->kind).exponential || algebra_of(rise->kind).multiplicative)) {
    return step(rise->a - rise->b);
  }
  return of_atom(atom_of(AtomKind::Positive, {std::move(f)}));
}

/// [f ≠ 0] = [f > 0] + [−f > 0], factor by factor
Polynomial Formulas::nonzero(Polynomial f) {
  if (!failure_.empty() || f.empty()) return {};
  if (product(f, f) == f) return f;
  const Monomial content = content_of(f);
  Polynomial result = one();
  for (const Factor& factor : content) {
    const AtomKind kind = atom(factor.atom).kind;
    if (kind == AtomKind::Inverse) continue;
    const Polynomial base = kind == AtomKind::Abs ? atom(factor.atom).arguments[0] : of_atom(factor.atom);
    if (kind == AtomKind::Positive) {
      result = product(result, base);
    } else {
      result = product(result, step(base) + step(scaled(base, {-1, 1})));
    }
  }
  for (Term& term : f) term.monomial = term.monomial * inverse_of(content);
  std::sort(f.begin(), f.end());
  return product(result, step(f) + step(scaled(f, {-1, 1})));
}

}  // namespace strata
