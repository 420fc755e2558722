// Two programs on the same inputs, which they may list in different orders.
#pragma once

#include "ir/graph.h"

namespace strata {

/// Error, saying what, where the inputs (by name) or outputs (in order) of the graphs do not agree.
Result<void> check_interface(const Graph& reference, const Graph& candidate);

/// For each input of the candidate, which input of the reference it is. The interfaces agree.
std::vector<size_t> input_order(const Graph& reference, const Graph& candidate);

/// "X[2, 3], Y[3]": what a verdict says of the shapes that it is about.
std::string input_shapes(const Graph& graph);

/// `values` in that order. Each is moved once: an input may be used by one name only.
template <class T>
std::vector<T> reordered(std::vector<T> values, const std::vector<size_t>& order) {
  std::vector<T> result;
  for (size_t from : order) result.push_back(std::move(values[from]));
  return result;
}

}  // namespace strata
