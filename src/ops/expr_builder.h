// The vocabulary in which an operator states its abstract expression (Mirage, section 4.3, Table 1).
// The normal-form engine and its Z3 oracle both implement it, so that they read one definition.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "support/rational.h"

namespace strata {

/// A handle into one ExprBuilder; equal handles are equivalent expressions where the builder normalises.
using ExprId = uint32_t;

class ExprBuilder {
 public:
  virtual ~ExprBuilder() = default;

  virtual ExprId input(std::string_view name) = 0;
  virtual ExprId constant(const Rational& value) = 0;
  virtual ExprId add(ExprId a, ExprId b) = 0;
  virtual ExprId mul(ExprId a, ExprId b) = 0;
  virtual ExprId div(ExprId a, ExprId b) = 0;
  virtual ExprId exp(ExprId a) = 0;
  virtual ExprId sqrt(ExprId a) = 0;
  /// sum(k, a): the sum of k elements that a stands for.
  virtual ExprId sum(int64_t k, ExprId a) = 0;
  /// An operator without axioms of its own (silu, max); `parameter` tells instances apart (a reduction's extent).
  virtual ExprId function(std::string_view name, int64_t parameter, std::span<const ExprId> arguments,
                          bool commutative) = 0;
};

}  // namespace strata
