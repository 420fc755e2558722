// Indexing maps: which elements of one tensor an element of another is computed from, or which elements a thread of a
// block visits. A map takes values of its dimension variables (given: output indices, or block and thread) to one index
// for each result, for every value of its range variables (summed, reduced or looped over), under constraints.
//
//   (d0, d1)[s0]{rt0} -> (d0 * 4 + s0, d1 + rt0),
//     domain: d0 in [0, 7], d1 in [0, 31], s0 in [0, 3], rt0 = 5:1[d0] in [0, 9], d0 * 4 + s0 in [0, 29]
//
// is a map of two dimensions, one range and one runtime variable, the value of element [d0] of operand 1 of instruction
// 5, with one constraint. The domain is the set of values within all ranges that satisfy all constraints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "indexing/expr.h"
#include "indexing/interval.h"
#include "support/error.h"

namespace strata::indexing {

/// That an expression lies in an interval.
struct Constraint {
  Expr expr;
  Interval bounds;
  bool operator==(const Constraint&) const = default;
};

/// A value that is only known when the program runs: element `element` of operand `operand` of instruction
/// `instruction`. This, and never the position in a map, says which value it is. `element` is written over the other
/// variables of the map, runtime variables with smaller numbers among them.
struct RuntimeVariable {
  int64_t instruction = 0;
  int operand = 0;
  std::vector<Expr> element;
  Interval range;  ///< in which the value is known to lie; what is only asked of it is a constraint
  bool operator==(const RuntimeVariable&) const = default;
};

struct IndexingMap {
  std::vector<Expr> results;
  std::vector<Interval> dims;
  std::vector<Interval> ranges;
  std::vector<RuntimeVariable> runtime;
  std::vector<Constraint> constraints;
  /// Whether the domain is known to be empty. A simplified map with an empty domain has this, results of 0, ranges
  /// [0, -1] and nothing else.
  bool known_empty = false;

  bool operator==(const IndexingMap&) const = default;
  uint64_t hash() const;
  /// The range of a dimension, range or runtime variable.
  const Interval& range_of(ExprKind kind, int number) const;
  /// What computing results and constraints costs, in additions (Expr::cost); saturates.
  int64_t cost() const;
  /// Whether some expression has no value, because of overflow when the map was made.
  bool is_undefined() const;
};

/// The map of a shape to itself: (d0, …) -> (d0, …).
IndexingMap identity_map(const std::vector<int64_t>& shape);

/// Whether the point lies in the domain; false too where a constraint cannot be evaluated.
bool in_domain(const IndexingMap& map, const Point& point);
/// The results at a point of the domain; nothing where one cannot be evaluated (see evaluate in expr.h).
std::optional<std::vector<int64_t>> evaluate(const IndexingMap& map, const Point& point);

/// second after first: the results of `first` are the dimensions of `second`. Range and runtime variables of `first`
/// come before those of `second`; where a result of `first` may leave the range of a dimension of `second`, it is
/// constrained. Not simplified. Asserts that the numbers fit.
IndexingMap compose(const IndexingMap& first, const IndexingMap& second);

/// Row-major strides of a shape, in elements; an error where the element count is no int64_t.
Result<std::vector<int64_t>> row_major_strides(const std::vector<int64_t>& shape);
/// Σ index · stride.
Expr linearize(const std::vector<Expr>& index, const std::vector<int64_t>& strides);
/// The index in a shape with that row-major position: quotients and remainders. Undefined where the shape's element
/// count is no int64_t.
std::vector<Expr> delinearize(const Expr& position, const std::vector<int64_t>& shape);

/// `d0 in [0, 7]`-style text of a constraint.
std::string to_string(const Constraint& constraint);
/// The text form above, on one line. A known empty map has `domain: empty` before what is left of its domain.
std::string to_string(const IndexingMap& map);
/// Reads the text form; variables of each kind are numbered from 0 in order. Errors have line and column.
Result<IndexingMap> parse_indexing_map(const std::string& text);

}  // namespace strata::indexing
