// The Lax fragment (Mirage, OSDI'25, section 5): multilinear operators, division, and at most one exponentiation on
// every path. Only for programs inside it do the tests over finite fields have an error bound.
#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"

namespace strata {

/// Why a kernel graph is outside the fragment, naming operator and tensor; nothing where it is inside.
std::optional<std::string> lax_violation(const Graph& graph);

/// Whether a graph, or one inside it, takes square roots.
bool takes_roots(const Graph& graph);

/// Whether a graph, or one inside it, takes maxima.
bool takes_maxima(const Graph& graph);

}  // namespace strata
