// Rules for single expressions; simplify.h is the way in.
#pragma once

#include <unordered_map>

#include "indexing/expr_range.h"

namespace strata::indexing {

/// Rewrites expressions given the ranges of their parts. Remembers what it has done.
class ExprSimplifier {
 public:
  explicit ExprSimplifier(ExprRange& range) : range_(range) {}
  Expr operator()(const Expr& expr);

 private:
  Expr once(const Expr& expr);
  Expr sum(const Expr& expr);
  Expr floor_quotient(const Expr& x, const Expr& divisor);
  Expr remainder(const Expr& x, const Expr& divisor);
  Expr quotient_rules(const Expr& x, int64_t c);
  Expr remainder_rules(const Expr& x, int64_t c);
  /// Sums where a remainder meets its quotient.
  Expr join(const Expr& expr);

  ExprRange& range_;
  std::unordered_map<Expr, Expr, ExprHash> done_;
  int depth_ = 0;
};

}  // namespace strata::indexing
