// The second, stronger pruning test: abstract expressions with the axes that a value still has.
//
// Mirage's abstract expressions forget which dimension is summed. Here a value that keeps axis a must lose it again
// before it is part of anything that has no axis a, and only a sum can do that, outside of roots, exponents and
// denominators, because no axiom carries a sum into them. So
//   - a value e with axes F fits a normal form u of the program with axes A only as Σ over F \ A of e;
//   - a root, an exponent, a denominator or a function's argument with axes F fits only a u with F ⊆ A;
//   - what has been summed over axis a, wholly or in part, is multiplied by nothing that still has a on the way to a u
//     without a: the sum over a would have to be taken again, and u has it once (Σ q · Σ k is not Σ q·k).
// A product of sums that the program takes element by element, such as (x + y)², is never computed term by term: that
// takes more operators over the same elements. So of the terms that such a product has in the normal form a value
// covers all or none. (This rule loses graphs, all of them slower; the others lose none.)
//
// Extents of different axes are coprime (Axis), so a sum over the wrong axis does not fit either.
// docs/search.md has the argument that no graph is lost that the axioms can prove.
#pragma once

#include <tbb/concurrent_unordered_map.h>

#include <unordered_map>

#include "superopt/expr/subexpression_oracle.h"
#include "superopt/search/model.h"

namespace strata {

/// A set of axes; axes from 63 on share the last bit, which no test uses.
using AxisSet = uint64_t;
AxisSet axis_set(const std::vector<int>& axes);

/// Passes expressions through to the normal forms and knows the axes of every operand: the union of its own operands',
/// which is exact for what operators write inside roots, exponents and denominators.
///
/// Maxima along a dimension lose their extent here (kRowMax): max is idempotent, and a softmax that subtracts the
/// maximum of each tile and rescales is the one that subtracts the maximum of the row. Entries tell them apart.
constexpr std::string_view kRowMax = "row_max";

bool is_row_max(const NormalForms& forms, ExprId e);
/// Whether every term of `e` has an exponential in whose exponent `row_max` occurs: what rescaling is good for.
bool relative_to(const NormalForms& forms, ExprId e, ExprId row_max);

class AxisTracker final : public ExprBuilder {
 public:
  explicit AxisTracker(NormalForms& forms) : forms_(forms) {}

  void operand(ExprId e, AxisSet axes);
  AxisSet axes(ExprId e) const;

  ExprId input(std::string_view name) override { return forms_.input(name); }
  ExprId constant(const Rational& value) override { return forms_.constant(value); }
  ExprId add(ExprId a, ExprId b) override { return join(forms_.add(a, b), {a, b}); }
  ExprId mul(ExprId a, ExprId b) override { return join(forms_.mul(a, b), {a, b}); }
  ExprId div(ExprId a, ExprId b) override { return bound(b), join(forms_.div(a, b), {a, b}); }
  ExprId exp(ExprId a) override { return bound(a), join(forms_.exp(a), {a}); }
  ExprId sqrt(ExprId a) override { return bound(a), join(forms_.sqrt(a), {a}); }
  ExprId sum(int64_t k, ExprId a) override { return join(forms_.sum(k, a), {a}); }
  ExprId function(std::string_view name, int64_t parameter, std::span<const ExprId> arguments,
                  bool commutative) override;

  /// What stood in a root, exponent, denominator or function so far, with its axes.
  const std::vector<std::pair<ExprId, AxisSet>>& bounds() const { return bounds_; }

 private:
  ExprId join(ExprId result, std::initializer_list<ExprId> from);
  void bound(ExprId e) { bounds_.emplace_back(e, axes(e)); }

  NormalForms& forms_;
  std::vector<std::pair<ExprId, AxisSet>> axes_;
  std::vector<std::pair<ExprId, AxisSet>> bounds_;
};

/// The test, for one program. Thread-safe.
class AxisFilter {
 public:
  /// With `products`, the last rule above too.
  AxisFilter(const Model& model, NormalForms& forms, SubexpressionOracle& oracle, bool products);

  /// Whether a value with these axes, which count `extents` (both by dimension), can become part of the program.
  bool fits(ExprId e, const std::vector<int>& axes, const Shape& extents);
  /// Whether an expression can stand in a root, exponent, denominator or function with these axes.
  bool fits_bound(ExprId e, AxisSet axes);

 private:
  /// A product that the program takes of sums.
  struct Product {
    ExprId whole;
    std::vector<ExprId> factors;
  };
  void find_products(const Model& model);
  /// What the program's products of sums became in the normal forms: for each part, sets of its terms, by number.
  void find_expansions();
  /// Whether a match keeps whatever comes of a product of sums together.
  bool keeps_products(ExprId e, MonomialId multiplier, size_t part);
  /// Whether `e`, once summed over axes of the extents `summed`, is part of `part` with a multiplier that leaves the
  /// axes alone that `e` has been summed over.
  bool fits_part(ExprId e, const Shape& summed, size_t part);
  /// Axes that some prime factor of an extent belongs to; of axes that extents do not tell, none.
  AxisSet axes_of_extent(int64_t extent) const;
  AxisSet axes_of(const Monomial& factor) const;

  NormalForms& forms_;
  SubexpressionOracle& oracle_;
  std::vector<Axis> axes_;
  std::unordered_map<ExprId, AxisSet> known_axes_;  ///< of the program's values and what stands inside them
  std::unordered_map<std::string, AxisSet> input_axes_;
  std::vector<Product> products_;
  std::vector<ExprId> parts_;                                 ///< the oracle's, and the factors of products of sums
  std::vector<std::vector<std::vector<size_t>>> expansions_;  ///< of each part
  std::vector<AxisSet> part_axes_;                            ///< of each part
  std::unordered_map<ExprId, AxisSet> row_max_axes_;  ///< of the program's maxima: none is taken along one of these
  tbb::concurrent_unordered_map<uint64_t, bool> known_;
};

}  // namespace strata
