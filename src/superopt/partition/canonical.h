// One form for programs that differ in names and in the order of statements and commutative operands alone. Equal texts
// are equal programs; programs that are equal and so symmetric that the form tells them apart are merely searched
// twice.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"

namespace strata {

/// From names of tensors to names.
using Names = std::map<std::string, std::string>;

struct CanonicalProgram {
  GraphPtr graph;                    ///< inputs x0, x1, …; results y0, y1, …
  Names original;                    ///< names of `graph` to those of the program
  std::vector<size_t> output_order;  ///< for each output of `graph`, which output of the program it is
};

/// Of a kernel graph of predefined operators.
CanonicalProgram canonicalize(const Graph& program);

/// The graph with its tensors, those of its bodies and names derived from them ("x0_tile") renamed.
GraphPtr rename(const Graph& graph, const Names& names, const std::string& graph_name,
                const std::vector<size_t>& output_order = {});

/// A kernel graph that computes `form.graph`, as one that computes the program: its names and its order of outputs.
GraphPtr restore(const Graph& graph, const CanonicalProgram& form, const std::string& graph_name);

}  // namespace strata
