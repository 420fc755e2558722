// The simplifier of indexing maps: the only one, for code generation, partitioning and cost models. docs/indexing.md
// lists its rules.
#pragma once

#include "indexing/expr_range.h"
#include "indexing/indexing_map.h"

namespace strata::indexing {

/// What becomes of variables that neither results nor constraints use. Numbers of the others move down; a variable
/// whose range is empty is never unused, for it empties the domain.
enum class UnusedVariables {
  Keep,                  ///< for loops, whose variables are known by their numbers
  DropRangesAndRuntime,  ///< for comparing what is read: how often does not matter
  DropAll,               ///< dimensions too
};

/// A map that has the same results at every point of the domain, and the same domain: points outside the constraints
/// may give other results than before. Ranges of variables may become narrower, where constraints imply it, and these
/// constraints disappear, so that what is guarded follows from the ranges too: see guards(). Simplifying again changes
/// nothing. Takes microseconds to a few milliseconds; the number of steps is bounded.
IndexingMap simplify(const IndexingMap& map, UnusedVariables unused = UnusedVariables::DropRangesAndRuntime);

/// The expression, simplified where the variables have their ranges in `map` and, with
/// ExprRange::Facts::VariablesAndConstraints, on its domain only.
Expr simplify(const Expr& expr, const IndexingMap& map, ExprRange::Facts facts = ExprRange::Facts::Variables);

/// What must be tested before a point is used, where its dimensions are known to lie in `given_dims` and its range
/// variables in `given_ranges`: the map's constraints, and ranges of its variables that are narrower than what is
/// given.
std::vector<Constraint> guards(const IndexingMap& map, const std::vector<Interval>& given_dims,
                               const std::vector<Interval>& given_ranges);

}  // namespace strata::indexing
