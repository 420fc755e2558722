// Formulas over the entries of a program's inputs, in a normal form: what the interpreter computes over
// SymbolicArithmetic. docs/solver.md states the rules and why they hold.
//
// A formula is a polynomial over atoms. An atom is an input entry, or a function of formulas: exponential of a
// monomial, square root, absolute value, maximum of three or more, step [f > 0], 1/f. Two formulas with one id are
// equal wherever their roots and quotients are defined; the converse fails where the normal form is not strong enough.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/arithmetic.h"
#include "superopt/solver/polynomial.h"

namespace strata {

enum class AtomKind : uint8_t { Input, Exp, Root, Abs, Max, Positive, Inverse };

struct Atom {
  AtomKind kind;
  std::vector<Polynomial> arguments;
  std::string name;  ///< of an input
};

/// What a root or a quotient needs to be defined.
struct Condition {
  bool nonzero;  ///< f ≠ 0; otherwise f ≥ 0
  uint32_t formula;
  friend auto operator<=>(const Condition&, const Condition&) = default;
};

/// When formulas stop growing.
struct FormulaLimits {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::stop_token stop{};
  size_t terms = 20000;  ///< of one formula
};

class Formulas final : public SymbolicTerms {
 public:
  explicit Formulas(FormulaLimits limits = {}) : limits_(std::move(limits)) { intern({}); }

  SymbolicValue input(std::string name);
  SymbolicValue add(SymbolicValue a, SymbolicValue b) override;
  SymbolicValue sub(SymbolicValue a, SymbolicValue b) override;
  SymbolicValue mul(SymbolicValue a, SymbolicValue b) override;
  SymbolicValue div(SymbolicValue a, SymbolicValue b) override;
  SymbolicValue exp(SymbolicValue a) override;
  SymbolicValue sqrt(SymbolicValue a) override;
  SymbolicValue max(SymbolicValue a, SymbolicValue b) override;
  SymbolicValue greater(SymbolicValue a, SymbolicValue b) override;
  SymbolicValue select(SymbolicValue c, SymbolicValue a, SymbolicValue b) override;
  SymbolicValue constant(const Rational& r) override;

  const Polynomial& operator[](SymbolicValue value) const { return formulas_[value.id]; }
  const Atom& atom(AtomId id) const { return atoms_[id]; }

  /// f with its denominators multiplied out: 0 exactly where f is. Invalid or large ones fail.
  Polynomial without_denominators(Polynomial f);

  /// f ≥ 0 (or > 0) whatever the inputs, seen from the signs of its terms alone.
  bool nonnegative(const Polynomial& f) const;
  bool positive(const Polynomial& f) const;
  /// f has no kink or step, so that it is 0 on a set without volume only (or everywhere).
  bool smooth(const Polynomial& f) const;

  /// The conditions met since the last call, without those that always hold.
  std::vector<Condition> take_conditions();

  /// Set once a formula was too large, a number did not fit 63 bits, or 0 was divided by; results are then meaningless.
  const std::string& failure() const { return failure_; }

  std::string to_string(const Polynomial& f) const;

 private:
  SymbolicValue intern(Polynomial f);
  AtomId atom_of(AtomKind kind, std::vector<Polynomial> arguments);
  static Polynomial of_atom(AtomId id, const Number& exponent = {1, 1});
  Polynomial fail(std::string reason);

  Polynomial product(const Polynomial& a, const Polynomial& b);
  Polynomial power(const Polynomial& f, int64_t exponent);
  Polynomial reciprocal(const Polynomial& f);
  /// A monomial in which no factor can be rewritten, or the polynomial that it is rewritten to.
  std::optional<Polynomial> rewritten(const Term& term);
  std::optional<Polynomial> rewritten_factor(const Factor& factor);
  std::optional<Polynomial> rewritten_step(const Term& term, const Factor& step);

  Polynomial exponential(const Polynomial& f);
  Polynomial root(const Polynomial& f);
  Polynomial root_of_number(const Number& value);
  Polynomial absolute(Polynomial f);
  Polynomial absolute_power(const Factor& factor);
  Polynomial maximum(std::vector<Polynomial> candidates);
  Polynomial step(Polynomial f);
  Polynomial nonzero(Polynomial f);
  /// The factor of a term that is a maximum, where the others are not negative.
  const Factor* maximum_in(const Term& term) const;
  /// The formulas whose maximum f is: more than one where f is a maximum plus something.
  std::vector<Polynomial> alternatives(const Polynomial& f);

  bool nonnegative_atom(AtomId id) const;
  bool positive_atom(AtomId id) const;
  bool nonnegative(const Monomial& monomial) const;

  FormulaLimits limits_;
  uint32_t products_ = 0;
  std::vector<Polynomial> formulas_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_hash_;
  std::vector<Atom> atoms_;
  std::unordered_map<uint64_t, std::vector<AtomId>> atoms_by_hash_;
  std::vector<Condition> conditions_;
  std::string failure_;
};

}  // namespace strata
