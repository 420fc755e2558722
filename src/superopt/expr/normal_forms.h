// Abstract expressions in normal form (Mirage, OSDI'25, section 4.3). Mirage asks an SMT solver whether two
// expressions are equal and whether one is part of another; here both are decided on a canonical form.
// docs/abstract-expressions.md has the axioms, the form, and why it is canonical.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "superopt/expr/lookup_table.h"
#include "superopt/expr/monomial.h"
#include "superopt/expr/stable_array.h"

namespace strata {

/// Hash-consed normal forms: two handles are equal exactly when their expressions are equal under A_eq.
/// All members may be called from several threads at once; handles live as long as this object.
///
/// Expansion can grow without bound, so an expression with a sum of more than kMaxTerms different monomials
/// (or whose extents, powers or counts leave their integer types) is kOversized, as is everything made from
/// it. Operators only ever enlarge a normal form, so nothing oversized is part of an expression that is not.
class NormalForms final : public ExprBuilder {
 public:
  static constexpr ExprId kOne = Monomial::kUnit;
  static constexpr ExprId kOversized = 1;
  static constexpr size_t kMaxTerms = 1024;

  NormalForms();

  ExprId input(std::string_view name) override;
  ExprId constant(const Rational& value) override;
  ExprId add(ExprId a, ExprId b) override;
  ExprId mul(ExprId a, ExprId b) override;
  ExprId div(ExprId a, ExprId b) override;
  ExprId exp(ExprId a) override;
  ExprId sqrt(ExprId a) override;
  /// k is at least 1.
  ExprId sum(int64_t k, ExprId a) override;
  /// "reduce_max" composes like sum (its parameter is the extent, at least 1); "max" is flattened and sorted.
  ExprId function(std::string_view name, int64_t parameter, std::span<const ExprId> arguments,
                  bool commutative) override;

  /// Readable, and independent of the order in which expressions were made.
  std::string to_string(ExprId e) const;

  /// The sum's terms, greatest monomial first. Not of kOversized, which has none.
  std::span<const Term> terms(ExprId e) const { return sums_[e]; }
  const Monomial& monomial(MonomialId m) const { return monomials_[m]; }
  const Atom& atom(AtomId a) const { return atoms_[a]; }
  /// The atom that `e` consists of, where it is a single one.
  std::optional<AtomId> sole_atom(ExprId e) const;
  /// Number of distinct expressions made so far.
  uint32_t size() const { return sums_.size(); }

  /// A total order of monomials that multiplication respects: a < b implies a·c < b·c. Long division needs it.
  int compare(MonomialId a, MonomialId b) const;
  /// a·b; nullopt where it is oversized.
  std::optional<MonomialId> multiply(MonomialId a, MonomialId b);
  /// The m with m·b = a; it is unique.
  std::optional<MonomialId> divide(MonomialId a, MonomialId b);
  /// Whether there is one; cheaper, as it makes no monomial where it can.
  bool divides(MonomialId b, MonomialId a);

 private:
  using Sum = std::vector<Term>;

  AtomId intern(Atom atom);
  MonomialId intern(Monomial monomial);
  ExprId intern(Sum sum);
  ExprId expr_of(Monomial monomial) { return intern(Sum{{intern(std::move(monomial)), 1}}); }
  ExprId expr_of(AtomId atom);
  ExprId reduce_max(int64_t extent, ExprId argument);
  ExprId maximum(int64_t parameter, std::span<const ExprId> arguments);

  ExprId compute_add(ExprId a, ExprId b);
  ExprId compute_mul(ExprId a, ExprId b);
  std::optional<Monomial> compute_multiply(const Monomial& a, const Monomial& b);
  int compare_sums(ExprId a, ExprId b) const;

  /// The q with q·b = a, by long division; unique, since sums have no zero divisors.
  std::optional<ExprId> divide_sums(ExprId a, ExprId b);
  bool divides_sums(ExprId b, ExprId a);
  /// The exponent r with b + r = a (kNoExponent where a = b).
  std::optional<ExprId> subtract_exponents(ExprId a, ExprId b);

  StableArray<Atom> atoms_;
  StableArray<Monomial> monomials_;
  StableArray<Sum> sums_;
  LookupTable atom_index_, monomial_index_, sum_index_;              // by hash of the content
  LookupTable added_, multiplied_, divided_, exponentials_, roots_;  // by operands
  LookupTable monomial_products_;
};

}  // namespace strata
