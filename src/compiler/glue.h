// Predefined operators of a kernel graph as a module of HLO.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "support/error.h"

namespace strata::compiler {

/// Operators of a graph between those that are µGraphs: what moves or reduces elements or computes each, and products.
struct Glue {
  std::string module;             ///< text of HLO: its entry's parameters are `inputs`, its root a tuple of `outputs`
  std::vector<TensorId> inputs;   ///< that they read, ascending
  std::vector<TensorId> outputs;  ///< of theirs that others read, ascending
};

/// The operations `of` (ascending) of a kernel graph; `views` (by operation) are computed with them where they are
/// read, and where others read a view they read what it is made of. Numbers of 16 bits are computed in f32, as in
/// generated kernels, and rounded where they are written. Of concatenations in `starts`, by result, only what lies from
/// that index on is made, which is not more than all that follows their first operand's beginning; none of the
/// operations reads it. Error (Unsupported) where an operator is no glue and no product (glue_operators.h).
Result<Glue> glue(const Graph& graph, const std::vector<size_t>& of, const std::vector<bool>& views,
                  const std::map<TensorId, int64_t>& starts = {});

}  // namespace strata::compiler
