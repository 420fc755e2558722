#include "indexing/simplify_expr.h"

#include <algorithm>
#include <cassert>
#include <set>

namespace strata::indexing {
namespace {

/// Rules that call each other stop here and leave the rest as it is.
constexpr int kMaxDepth = 64;

bool constant_division(const Expr& expr, ExprKind kind) { return expr.kind() == kind && expr.rhs().is_constant(); }

/// A sum cut in two: what is divisible by `divisor`, already divided, and the rest with the offset.
struct Cut {
  std::vector<Term> divided;
  Expr rest;
};

Cut cut(int64_t offset, const std::vector<Term>& terms, int64_t divisor) {
  Cut result;
  std::vector<Term> rest;
  for (const Term& term : terms) {
    if (term.coefficient % divisor == 0) {
      result.divided.push_back({term.coefficient / divisor, term.atom});
    } else {
      rest.push_back(term);
    }
  }
  result.rest = Expr::sum(offset, std::move(rest));
  return result;
}

/// k where the interval lies within [k * size, k * size + size - 1].
std::optional<int64_t> block_of(const Interval& range, int64_t size) {
  if (range.empty() || range.lo == kLeast || range.hi == kGreatest) return std::nullopt;
  const int64_t k = floor_div(range.lo, size);
  if (floor_div(range.hi, size) != k) return std::nullopt;
  return k;
}

/// The common divisors greater than 1 of `c` and one coefficient each, the greatest first.
std::set<int64_t, std::greater<>> divisors(const std::vector<Term>& terms, int64_t c) {
  std::set<int64_t, std::greater<>> result;
  for (const Term& term : terms) {
    if (const int64_t g = common_divisor(term.coefficient, c); g > 1) result.insert(g);
  }
  return result;
}

}  // namespace

Expr ExprSimplifier::operator()(const Expr& expr) {
  if (expr.is_constant() || expr.is_undefined()) return expr;
  if (const auto done = done_.find(expr); done != done_.end()) return done->second;
  if (depth_ >= kMaxDepth) return expr;
  ++depth_;
  Expr result = expr;
  for (int i = 0; i < kMaxDepth; ++i) {
    Expr next = once(result);
    // A rule whose numbers leave int64_t is not applied.
    if (next.is_undefined() || next == result) break;
    result = std::move(next);
  }
  --depth_;
  done_.emplace(expr, result);
  if (result != expr) done_.emplace(result, result);
  return result;
}

Expr ExprSimplifier::once(const Expr& expr) {
  if (const Interval range = range_(expr); range.is_point() && range.lo != kLeast && range.hi != kGreatest) {
    return Expr::constant(range.lo);
  }
  switch (expr.kind()) {
    case ExprKind::FloorDiv:
      return floor_quotient((*this)(expr.lhs()), (*this)(expr.rhs()));
    case ExprKind::Mod:
      return remainder((*this)(expr.lhs()), (*this)(expr.rhs()));
    case ExprKind::Product: {
      Expr product = Expr::constant(1);
      for (const Expr& factor : expr.factors()) product = product * (*this)(factor);
      return product;
    }
    case ExprKind::Sum:
      return sum(expr);
    default:
      return expr;
  }
}

Expr ExprSimplifier::sum(const Expr& expr) {
  Expr total = Expr::constant(expr.offset());
  bool changed = false;
  for (const Term& term : expr.terms()) {
    const Expr atom = (*this)(term.atom);
    changed |= atom != term.atom;
    total = total + atom * term.coefficient;
  }
  return join(changed ? total : expr);
}

Expr ExprSimplifier::floor_quotient(const Expr& x, const Expr& divisor) {
  if (divisor.is_constant()) return divisor.value() > 1 ? quotient_rules(x, divisor.value()) : floor_div(x, divisor);
  const Interval values = range_(x);
  if (!values.empty() && values.lo >= 0 && values.hi < range_(divisor).lo) return Expr::constant(0);
  return floor_div(x, divisor);
}

Expr ExprSimplifier::remainder(const Expr& x, const Expr& divisor) {
  if (divisor.is_constant()) return divisor.value() > 1 ? remainder_rules(x, divisor.value()) : mod(x, divisor);
  const Interval values = range_(x);
  if (!values.empty() && values.lo >= 0 && values.hi < range_(divisor).lo) return x;
  return mod(x, divisor);
}

Expr ExprSimplifier::quotient_rules(const Expr& x, int64_t c) {
  if (const auto k = block_of(range_(x), c)) return Expr::constant(*k);
  const std::vector<Term> all = x.terms();
  if (all.empty()) return floor_div(x, c);
  // (c * q + rest) / c = q + rest / c, of the offset too.
  const Cut whole = cut(floor_mod(x.offset(), c), all, c);
  const Expr outside = Expr::sum(floor_div(x.offset(), c), whole.divided);
  if (const auto k = block_of(range_(whole.rest), c)) return outside + *k;
  const std::vector<Term> terms = whole.rest.terms();
  for (const int64_t g : divisors(terms, c)) {
    // (g * q + rest) / (g * n) = (q + k) / n where rest lies in the k-th block of g.
    const Cut part = cut(whole.rest.offset(), terms, g);
    if (const auto k = block_of(range_(part.rest), g)) {
      return outside + (*this)(floor_div(Expr::sum(*k, part.divided), c / g));
    }
  }
  // (a + y / f) / c = (a * f + y) / (f * c), which divides once.
  const Term* quotient = nullptr;
  int quotients = 0;
  for (const Term& term : terms) {
    if (term.coefficient != 1 || !constant_division(term.atom, ExprKind::FloorDiv)) continue;
    quotient = &term;
    ++quotients;
  }
  if (quotients == 1) {
    const int64_t f = quotient->atom.rhs().value();
    const auto divisor = checked_mul(f, c);
    const Expr flat = (whole.rest - quotient->atom) * f + quotient->atom.lhs();
    if (divisor && !flat.is_undefined()) return outside + (*this)(floor_div(flat, *divisor));
  }
  // (y mod m) / c = (y / c) mod (m / c) where c divides m: the form of a digit of y.
  if (terms.size() == 1 && whole.rest == terms[0].atom && constant_division(terms[0].atom, ExprKind::Mod)) {
    const int64_t m = terms[0].atom.rhs().value();
    if (m % c == 0) return outside + (*this)(mod(floor_div(terms[0].atom.lhs(), c), m / c));
  }
  return outside + floor_div(whole.rest, c);
}

Expr ExprSimplifier::remainder_rules(const Expr& x, int64_t c) {
  if (const auto k = block_of(range_(x), c)) {
    const auto shift = checked_mul(*k, c);
    return shift ? x - *shift : mod(x, c);
  }
  // Multiples of c do not count, nor does a remainder by a multiple of c within.
  Expr rest = Expr::constant(floor_mod(x.offset(), c));
  for (const Term& term : x.terms()) {
    if (term.coefficient % c == 0) continue;
    const bool inner = constant_division(term.atom, ExprKind::Mod) &&
                       static_cast<__int128>(term.coefficient) * term.atom.rhs().value() % c == 0;
    rest = rest + (inner ? term.atom.lhs() : term.atom) * term.coefficient;
  }
  if (rest.is_undefined()) return mod(x, c);
  if (rest != x) return (*this)(mod(rest, c));
  const std::vector<Term> terms = rest.terms();
  for (const int64_t g : divisors(terms, c)) {
    // (g * q + rest) mod (g * n) = ((q + k) mod n) * g + rest - k * g where rest lies in the k-th block of g.
    const Cut part = cut(rest.offset(), terms, g);
    if (const auto k = block_of(range_(part.rest), g)) {
      return (*this)(mod(Expr::sum(*k, part.divided), c / g)) * g + (*this)(part.rest) - *k * g;
    }
  }
  return mod(rest, c);
}

Expr ExprSimplifier::join(const Expr& expr) {
  const std::vector<Term> terms = expr.terms();
  const auto better = [&](const Expr& other) { return !other.is_undefined() && other.cost() < expr.cost(); };
  for (const Term& term : terms) {
    const Expr& atom = term.atom;
    if (constant_division(atom, ExprKind::Mod)) {
      // a * (x mod c) + a * c * (x / c) = a * x.
      const int64_t c = atom.rhs().value();
      const auto multiple = checked_mul(term.coefficient, c);
      if (!multiple) continue;
      const Expr joined = expr - atom * term.coefficient + atom.lhs() * term.coefficient -
                          (*this)(floor_div(atom.lhs(), c)) * *multiple;
      if (better(joined)) return joined;
    } else if (constant_division(atom, ExprKind::FloorDiv)) {
      // a * z - a * c * (z / c) = a * (z mod c), where z = y / f and the term is a multiple of y / (f * c).
      const int64_t e = atom.rhs().value();
      const int64_t c = common_divisor(term.coefficient, e);
      if (c == 1) continue;
      const Expr z = (*this)(floor_div(atom.lhs(), e / c));
      const Expr joined = expr - atom * term.coefficient + (z - (*this)(mod(z, c))) * (term.coefficient / c);
      if (better(joined)) return joined;
    }
  }
  return expr;
}

}  // namespace strata::indexing
