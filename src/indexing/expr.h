// Quasi-affine expressions over the variables of an indexing map: sums of multiples of variables, of products, and of
// floor quotients and remainders. An Expr is an immutable value: a shared node, cheap to copy and to compare.
//
// Expressions are kept in one form: sums are flat, sorted, without equal or zero terms; products are distributed over
// sums; constants are folded; constant divisors are positive. So a == b holds of many expressions that were written
// differently. What needs the ranges of variables is the simplifier's work (simplify.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "indexing/interval.h"

namespace strata::indexing {

class Expr;

/// A multiple of an expression that is neither a constant nor a sum.
struct Term;

enum class ExprKind : uint8_t { Constant, Dimension, Range, Runtime, Product, FloorDiv, Mod, Sum, Undefined };

class Expr {
 public:
  /// The constant 0.
  Expr();
  static Expr constant(int64_t value);
  /// The variable of that kind and number; kind is Dimension, Range or Runtime.
  static Expr variable(ExprKind kind, int number);
  static Expr dim(int number) { return variable(ExprKind::Dimension, number); }
  static Expr range(int number) { return variable(ExprKind::Range, number); }
  static Expr runtime(int number) { return variable(ExprKind::Runtime, number); }
  /// What has no value: arithmetic of constants that leaves int64_t, or division by the constant zero. Whatever is
  /// built from it is undefined too, so that overflow is never silent.
  static Expr undefined();
  /// The sum of `offset` and the terms, in canonical form.
  static Expr sum(int64_t offset, std::vector<Term> terms);

  ExprKind kind() const;
  bool is_constant() const { return kind() == ExprKind::Constant; }
  bool is_variable() const;
  bool is_undefined() const { return kind() == ExprKind::Undefined; }
  /// Of a constant: its value. Of a variable: its number. Of a sum: what is added to its terms.
  int64_t value() const;
  int number() const { return static_cast<int>(value()); }
  /// All direct parts; none of a constant or a variable.
  const std::vector<Expr>& operands() const;
  /// Of FloorDiv and Mod.
  const Expr& lhs() const;
  const Expr& rhs() const;
  /// Of a product: two or more, sorted, with repetitions.
  const std::vector<Expr>& factors() const { return operands(); }

  /// Of a sum: what is multiplied, sorted, and by what.
  const std::vector<Expr>& atoms() const { return operands(); }
  const std::vector<int64_t>& coefficients() const;

  /// Any expression as a sum: what is added, and the terms; of a constant there are none.
  int64_t offset() const;
  std::vector<Term> terms() const;

  /// A measure of what computing it costs, in additions; a quotient or remainder counts 8. Saturates.
  int64_t cost() const;
  uint64_t hash() const;
  /// Whether any variable of that kind occurs.
  bool uses(ExprKind kind) const;
  /// Whether that variable occurs.
  bool uses(ExprKind kind, int number) const;
  /// The identity of the shared node: equal only of the same object.
  const void* id() const { return node_.get(); }

  bool operator==(const Expr& other) const;
  /// A total order: variables before products, quotients and remainders; then by structure.
  std::strong_ordering operator<=>(const Expr& other) const;

 private:
  struct Node;
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  static Expr compound(ExprKind kind, std::vector<Expr> operands);
  static Expr product(std::vector<Expr> factors);
  std::shared_ptr<const Node> node_;

  friend Expr operator*(const Expr& a, const Expr& b);
  friend Expr floor_div(const Expr& a, const Expr& b);
  friend Expr mod(const Expr& a, const Expr& b);
};

struct Term {
  int64_t coefficient = 0;
  Expr atom;  ///< a variable, product, quotient or remainder
};

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
/// floor(a / b), and a - b * floor(a / b), which has the sign of b.
Expr floor_div(const Expr& a, const Expr& b);
Expr mod(const Expr& a, const Expr& b);
/// ceil(a / b), as a floor quotient.
Expr ceil_div(const Expr& a, const Expr& b);
Expr operator+(const Expr& a, int64_t b);
Expr operator-(const Expr& a, int64_t b);
Expr operator*(const Expr& a, int64_t b);
Expr floor_div(const Expr& a, int64_t b);
Expr mod(const Expr& a, int64_t b);

/// Values of the variables, by number.
struct Point {
  std::span<const int64_t> dims;
  std::span<const int64_t> ranges;
  std::span<const int64_t> runtime;
};

/// The value at a point that has all the variables; nothing where a sum, product or quotient leaves int64_t or a
/// divisor is zero.
std::optional<int64_t> evaluate(const Expr& expr, const Point& point);

/// What to put for the variable of a kind and number.
using Replacement = std::function<Expr(ExprKind kind, int number)>;
/// The expression with each variable replaced; nodes that are shared are replaced once.
Expr substitute(const Expr& expr, const Replacement& replacement);
std::vector<Expr> substitute(const std::vector<Expr>& exprs, const Replacement& replacement);

/// The text form: `d0 * 4 + (d1 floordiv 8) mod 3 - s0 + rt0`; precedence as in Python. Undefined prints as
/// `undefined`.
std::string to_string(const Expr& expr);

struct ExprHash {
  size_t operator()(const Expr& expr) const { return expr.hash(); }
};

}  // namespace strata::indexing
