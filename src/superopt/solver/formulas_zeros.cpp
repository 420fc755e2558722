// Whether the zeros of a formula have volume.
//
// Let f have no kinks (|.|, max, steps), and let U be where all arguments of its roots are positive. If f is analytic
// on a connected U, its zeros have no volume unless it is 0 on all of U, which one point with f ≠ 0 excludes.
//
// 1. Roots of affine functions make U an intersection of half-spaces, which is convex. Roots of sums of even powers
// with
//    positive coefficients and no common factor take only {all terms are 0} from it: that lies in finitely many spaces
//    of two dimensions less, and what is left stays connected. A root of what is evidently positive is analytic
//    wherever its argument is. Reciprocals that are not inside roots or exponentials are multiplied out: f = 0 only
//    where f times its denominators is.
// 2. Without roots f is a quotient of exponentials and polynomials also over the complex numbers, where the zeros of a
//    denominator do not cut a connected set in two: there reciprocals may stand anywhere.
//
// Inputs that are bound (cut_points.h) are functions of others, and may be 0 everywhere.
//
// Anything else may hide a kink: √(x²) is |x|, and √(1 + 1/x²) has it too.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "superopt/solver/formulas.h"
#include "support/random.h"

namespace strata {
namespace {

constexpr int kPoints = 64;
/// A value counts as not 0 if it is this many times its error.
constexpr double kCertain = 64;

class Analysis {
 public:
  explicit Analysis(const Formulas& formulas) : formulas_(formulas) {}

  bool analytic(const Polynomial& f) { return polynomial(f, true) && !(roots_ && poles_inside_); }

 private:
  bool polynomial(const Polynomial& f, bool outermost) {
    return std::all_of(f.begin(), f.end(), [&](const Term& term) {
      return std::all_of(term.monomial.begin(), term.monomial.end(),
                         [&](const Factor& factor) { return this->factor(factor, outermost); });
    });
  }

  bool factor(const Factor& factor, bool outermost) {
    const Atom& atom = formulas_.atom(factor.atom);
    // What was found sound is so again; a pole counts once it is met inside.
    if (!seen_.emplace(factor.atom, factor.exponent.num < 0, outermost).second) return true;
    const bool pole = atom.kind != AtomKind::Exp && factor.exponent.num < 0;
    switch (atom.kind) {
      case AtomKind::Input:
        if (atom.bound) return false;
        poles_inside_ |= pole && !outermost;
        return true;
      case AtomKind::Exp:
        return polynomial(atom.arguments[0], false);
      case AtomKind::Inverse:
        if (formulas_.positive(atom.arguments[0])) return polynomial(atom.arguments[0], false);
        poles_inside_ |= !outermost;
        return polynomial(atom.arguments[0], outermost);
      case AtomKind::Root:
        return root(atom.arguments[0]);
      case AtomKind::Abs:
      case AtomKind::Max:
      case AtomKind::Positive:
        return false;
    }
    return false;
  }

  bool root(const Polynomial& u) {
    if (const auto value = constant_of(u)) return value->num > 0;
    roots_ = true;
    return polynomial(u, false) && (formulas_.positive(u) || affine(u) || even(u));
  }

  bool affine(const Polynomial& u) const {
    return std::all_of(u.begin(), u.end(), [&](const Term& term) {
      return term.monomial.empty() || (term.monomial.size() == 1 && term.monomial[0].exponent == Number{1, 1} &&
                                       formulas_.atom(term.monomial[0].atom).kind == AtomKind::Input);
    });
  }

  bool even(const Polynomial& u) const {
    const auto input = [&](const Factor& factor) { return formulas_.atom(factor.atom).kind == AtomKind::Input; };
    for (const Term& term : u) {
      if (term.coefficient.num < 0) return false;
      for (const Factor& factor : term.monomial) {
        const Number& e = factor.exponent;
        const bool fits = input(factor) ? e.is_integer() && e.num > 0 && e.num % 2 == 0
                                        : formulas_.atom(factor.atom).kind == AtomKind::Exp;
        if (!fits) return false;
      }
    }
    const Monomial common = content_of(u);
    return std::none_of(common.begin(), common.end(), input);
  }

  const Formulas& formulas_;
  std::set<std::tuple<AtomId, bool, bool>> seen_;
  bool roots_ = false;
  bool poles_inside_ = false;
};

/// A number and a bound on how far rounding has moved it. An error of infinity is a value that is not defined.
struct Bounded {
  double value;
  double error;

  static Bounded rounded(double value, double error) {
    return {value, std::isfinite(value) ? error + 4e-16 * std::fabs(value) + 1e-300 : HUGE_VAL};
  }
  friend Bounded operator+(Bounded a, Bounded b) { return rounded(a.value + b.value, a.error + b.error); }
  friend Bounded operator*(Bounded a, Bounded b) {
    return rounded(a.value * b.value, std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error);
  }
};

class Evaluation {
 public:
  Evaluation(const Formulas& formulas, uint64_t seed) : formulas_(formulas), random_(seed), seed_(seed) {}

  bool is_not_zero(const Polynomial& f) {
    const Bounded value = polynomial(f);
    return std::fabs(value.value) > kCertain * value.error;
  }

 private:
  Bounded polynomial(const Polynomial& f) {
    Bounded sum{0, 0};
    for (const Term& term : f) {
      Bounded product = number(term.coefficient);
      for (const Factor& x : term.monomial) product = product * factor(x);
      sum = sum + product;
    }
    return sum;
  }

  static Bounded number(const Number& n) {
    return Bounded::rounded(static_cast<double>(n.num) / static_cast<double>(n.den),
                            4e-16 * std::fabs(static_cast<double>(n.num) / static_cast<double>(n.den)));
  }
  static Bounded exponential(Bounded x) {
    const double value = std::exp(x.value);
    return Bounded::rounded(value, value * (std::expm1(x.error) + 4e-16));
  }
  static Bounded inverse(Bounded x) {
    const double size = std::fabs(x.value);
    if (!(size > 2 * x.error)) return {0, HUGE_VAL};
    return Bounded::rounded(1 / x.value, x.error / (size * (size - x.error)));
  }

  Bounded factor(const Factor& f) {
    const Atom& atom = formulas_.atom(f.atom);
    if (atom.kind == AtomKind::Exp) return exponential(number(f.exponent) * polynomial(atom.arguments[0]));
    Bounded base = this->atom(f.atom);
    if (f.exponent.num < 0) base = inverse(base);
    Bounded result{1, 0};
    for (int64_t i = 0; i < std::abs(f.exponent.num) && std::isfinite(result.error); ++i) result = result * base;
    return result;
  }

  Bounded atom(AtomId id) {
    if (const auto it = values_.find(id); it != values_.end()) return it->second;
    const Atom& of = formulas_.atom(id);
    Bounded result{0, HUGE_VAL};
    if (of.kind == AtomKind::Input) {
      // Of many sizes; all positive at half of the points, where more roots are defined.
      const double size = std::ldexp(1 + random_.uniform(), static_cast<int>(random_.below(5)) - 2);
      result = {seed_ % 2 == 0 && random_.below(2) == 0 ? -size : size, 0};
    } else if (of.kind == AtomKind::Inverse) {
      result = inverse(polynomial(of.arguments[0]));
    } else if (of.kind == AtomKind::Root) {
      const Bounded x = polynomial(of.arguments[0]);
      if (x.value > 2 * x.error) {
        result = Bounded::rounded(std::sqrt(x.value), x.error / (2 * std::sqrt(x.value - x.error)));
      }
    }
    return values_.emplace(id, result).first->second;
  }

  const Formulas& formulas_;
  Random random_;
  uint64_t seed_;
  std::map<AtomId, Bounded> values_;
};

}  // namespace

bool Formulas::zeros_have_no_volume(const Polynomial& f) const {
  if (!Analysis(*this).analytic(f)) return false;
  for (uint64_t seed = 1; seed <= kPoints; ++seed) {
    if (Evaluation(*this, seed).is_not_zero(f)) return true;
  }
  return false;
}

}  // namespace strata
