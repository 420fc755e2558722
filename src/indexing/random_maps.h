// Random expressions and maps for property tests.
#pragma once

#include "indexing/indexing_map.h"
#include "support/random.h"

namespace strata::indexing {

struct RandomMapOptions {
  int results = 2;
  int max_variables = 3;       ///< of dimensions, and of ranges
  int max_runtime = 2;
  int max_constraints = 3;
  int max_depth = 4;           ///< of expressions
  int64_t max_domain = 4000;   ///< points within all ranges
};

/// A map whose domain is small enough to be enumerated, of nested sums, multiples, quotients and remainders; some divide
/// by variables, some are linear positions of a shape taken apart for another.
IndexingMap random_map(Random& random, const RandomMapOptions& options = {});
/// An expression over the variables of the map.
Expr random_expr(Random& random, const IndexingMap& map, int depth);

/// Calls `visit` for all points within the ranges of the variables, constraints or not. False if there are more than
/// `limit`, and then calls nothing.
bool for_each_point(const IndexingMap& map, int64_t limit, const std::function<void(const Point&)>& visit);

}  // namespace strata::indexing
