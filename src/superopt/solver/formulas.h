// Formulas over the entries of a program's inputs, in a normal form: what the interpreter computes over
// SymbolicArithmetic. docs/solver.md states the rules and why they hold.
//
// A formula is a polynomial over atoms. An atom is an input entry, or a function of formulas: exponential of a
// monomial, square root, absolute value, maximum of three or more, step [f > 0], 1/f. Two formulas with one id are
// equal wherever their roots and quotients are defined; the converse fails where the normal form is not strong enough.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/arithmetic.h"
#include "superopt/solver/polynomial.h"

namespace strata {

struct Algebra;

enum class AtomKind : uint8_t { Input, Exp, Root, Abs, Max, Positive, Inverse };

struct Atom {
  AtomKind kind;
  std::vector<Polynomial> arguments;
  std::string name;    ///< of an input
  bool bound = false;  ///< of an input: its values depend on others' and may keep to a set without volume
};

/// What a root or a quotient needs to be defined, where `guard` (0 or 1) is 1: a branch that select drops needs
/// nothing.
struct Condition {
  bool nonzero;  ///< f ≠ 0; otherwise f ≥ 0
  Polynomial f;
  Polynomial guard;
  bool always() const { return guard == one(); }
  friend bool operator==(const Condition&, const Condition&) = default;
  friend auto operator<=>(const Condition&, const Condition&) = default;
};

/// What the operator table says of an atom's function; nothing of those that are no operator's.
const Algebra& algebra_of(AtomKind kind);

/// The roots and reciprocals that are defined, and the atoms that are not 0, wherever some conditions hold.
struct Defined {
  std::set<AtomId> atoms;
  std::set<AtomId> nonzero;
};

/// When formulas stop growing.
struct FormulaLimits {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::stop_token stop{};
  size_t terms = 20000;          ///< of one formula
  size_t all_terms = 8'000'000;  ///< of all formulas together: some hundred megabytes
};

class Formulas final : public SymbolicTerms {
 public:
  explicit Formulas(FormulaLimits limits = {}) : limits_(std::move(limits)) { value(intern({}), 0); }

  /// `bound`: see Atom.
  SymbolicValue input(std::string name, bool bound = false);
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

  const Polynomial& operator[](SymbolicValue value) const { return formulas_[values_[value.id].formula]; }
  const Atom& atom(AtomId id) const { return atoms_[id]; }

  /// f with those denominators multiplied out that are not 0 where `defined` is true of the inputs: 0 exactly where f
  /// is. The others stay: where 1/g stands in a branch that select drops, g may be 0, and f·g = 0 says nothing of f.
  /// `denominators` gets their reciprocals' product.
  Polynomial without_denominators(Polynomial f, const Defined& defined, Monomial* denominators = nullptr);

  /// f ≥ 0 (or > 0) whatever the inputs, seen from the signs of its terms alone.
  bool nonnegative(const Polynomial& f) const;
  bool positive(const Polynomial& f) const;
  bool positive_atom(AtomId id) const;
  /// f is 0 on a set without volume at most: it has no kinks, and is not 0 everywhere. False where that is not seen.
  bool zeros_have_no_volume(const Polynomial& f) const;

  /// What the values need to be defined, factor by factor, without what always holds.
  std::vector<Condition> conditions_of(std::span<const SymbolicValue> values);
  /// The same of conditions that were changed.
  std::vector<Condition> simplified(const std::vector<Condition>& conditions) const;
  Defined defined_by(const std::vector<Condition>& conditions);

  /// f with atoms replaced by formulas that they are equal to on some inputs, inside arguments as well. Nothing where
  /// the result would be too large or have a denominator 0; `failure` is then as it was.
  std::optional<Polynomial> with_replaced(const Polynomial& f, const std::map<AtomId, Polynomial>& by);

  /// Set once a limit was met (FormulaLimits: terms, all terms, time), a number did not fit 63 bits, or 0 was divided
  /// by; results are then meaningless.
  const std::string& failure() const { return failure_; }
  std::string take_failure() { return std::exchange(failure_, {}); }

  std::string to_string(const Polynomial& f) const;

 private:
  struct Value {
    uint32_t formula;
    uint32_t domain;
  };
  /// Where values are defined, as a graph: sums of many terms share their domains.
  struct Domain {
    enum class Kind : uint8_t { NonZero, NonNegative, Both, Guarded };
    Kind kind;
    uint32_t first;   ///< a formula; of Both a domain
    uint32_t second;  ///< of Both and Guarded a domain
    friend auto operator<=>(const Domain&, const Domain&) = default;
  };
  using Replaced = std::map<AtomId, std::optional<Polynomial>>;  ///< nothing: the atom is as it was

  uint32_t intern(Polynomial f);
  SymbolicValue value(uint32_t formula, uint32_t domain);
  SymbolicValue value(Polynomial f, uint32_t domain) { return value(intern(std::move(f)), domain); }
  const Polynomial& formula(SymbolicValue v) const { return formulas_[values_[v.id].formula]; }
  uint32_t domain(SymbolicValue v) const { return values_[v.id].domain; }
  uint32_t domain_of(Domain::Kind kind, uint32_t first, uint32_t second);
  uint32_t both(uint32_t a, uint32_t b);
  uint32_t guarded(const Polynomial& guard, uint32_t domain);
  void add_condition(std::vector<Condition>& conditions, bool nonzero, Polynomial f, const Polynomial& guard) const;
  /// v ≥ 0 by how it was made, which its terms need not show: a square that was multiplied out.
  SymbolicValue with_sign(SymbolicValue v, bool nonnegative, bool positive);
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
  std::optional<Polynomial> square_root_of(const Polynomial& f);
  Polynomial root_of_number(const Number& value);
  Polynomial absolute(Polynomial f);
  Polynomial absolute_power(const Factor& factor);
  Polynomial maximum(std::vector<Polynomial> candidates);
  Polynomial step(Polynomial f);
  /// f = φ(a) − φ(b) for a function φ that the operator table calls increasing.
  struct Increase {
    AtomKind kind;
    Number scale;  ///< φ is this many times the atom's function
    Polynomial a, b, of_a, of_b;
  };
  std::optional<Increase> increase(const Polynomial& f);
  std::optional<Polynomial> argument_of(const Term& term, AtomKind kind);
  Polynomial increasing_function(const Increase& rise, const Polynomial& argument);
  void merge_increasing(std::vector<Polynomial>& candidates);
  Polynomial nonzero(Polynomial f);
  /// The factor of a term that is a maximum, where the others are not negative.
  const Factor* maximum_in(const Term& term) const;
  /// The formulas whose maximum f is: more than one where f is a maximum plus something.
  std::vector<Polynomial> alternatives(const Polynomial& f);

  bool nonnegative_atom(AtomId id) const;
  bool nonnegative(const Monomial& monomial) const;
  /// Sets failure() when time is up, looking at the clock now and then only.
  void look_at_clock(size_t terms);
  Polynomial replaced(const Polynomial& f, Replaced& by);
  const std::optional<Polynomial>& replaced_atom(AtomId id, Replaced& by);
  Polynomial replaced_factor(const Factor& factor, Replaced& by);

  FormulaLimits limits_;
  size_t looked_ = 0;  ///< terms computed since the clock was looked at
  size_t held_terms_ = 0;
  std::vector<Polynomial> formulas_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_hash_;
  std::vector<Atom> atoms_;
  std::unordered_map<uint64_t, std::vector<AtomId>> atoms_by_hash_;
  std::vector<Value> values_;
  std::unordered_map<uint64_t, uint32_t> value_ids_;
  std::vector<Domain> domains_{{}};  ///< the first is everywhere
  std::map<Domain, uint32_t> domain_ids_;
  std::map<Polynomial, bool> signs_;  ///< what is ≥ 0 (true: > 0) everywhere; first coefficients are 1 or −1
  std::string failure_;
};

}  // namespace strata
