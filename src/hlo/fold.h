// Values that are combined into accumulators by a computation: what reduce, reduce-window, scatter and
// select-and-scatter are made of.
#pragma once

#include <functional>

#include "hlo/evaluate_parts.h"

namespace strata::hlo {

/// Sums and products of floats by a computation that is one operator are kept in double precision (complex ones in
/// c128) and rounded once at the end; all other computations run as they are written.
class Folder {
 public:
  /// One literal an operand of a variadic operator, all of the same number of elements; so are the values.
  Folder(const ScalarFunction& function, std::vector<Literal> accumulators, const std::vector<Literal>& values);

  /// accumulator[to[i]] = function(accumulator[to[i]], value[from[i]]), in order.
  Result<void> combine(const std::vector<int64_t>& to, const std::vector<int64_t>& from);
  /// The accumulators in their own types.
  std::vector<Literal> finish();

 private:
  Result<void> combine_distinct(const std::vector<int64_t>& to, const std::vector<int64_t>& from);

  const ScalarFunction& function_;
  std::vector<Literal> accumulators_;
  const std::vector<Literal>& values_;
  std::function<void(const std::vector<int64_t>&, const std::vector<int64_t>&)> fast_;  ///< empty if there is none
  std::function<Literal()> finish_fast_;
};

}  // namespace strata::hlo
