// Two programs on the same arguments, which they may list in different orders. Iotas are no arguments: each program has
// its own, whose elements are known.
#pragma once

#include "ir/graph.h"

namespace strata {

/// Error, saying what, where the arguments (by name) or outputs (in order) of the graphs do not agree.
Result<void> check_interface(const Graph& reference, const Graph& candidate);

/// As check_interface. Error as well where the iotas differ (by name): a graph that takes a program's place reads the
/// program's.
Result<void> check_replacement(const Graph& program, const Graph& graph);

/// For each argument of the candidate, which argument of the reference it is. The interfaces agree.
std::vector<size_t> input_order(const Graph& reference, const Graph& candidate);

/// "X[2, 3], Y[3]", the arguments: what a verdict says of the shapes that it is about.
std::string input_shapes(const Graph& graph);

/// `values` in that order. Each is moved once: an input may be used by one name only.
template <class T>
std::vector<T> reordered(std::vector<T> values, const std::vector<size_t>& order) {
  std::vector<T> result;
  for (size_t from : order) result.push_back(std::move(values[from]));
  return result;
}

}  // namespace strata
