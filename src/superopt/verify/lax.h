// The Lax fragment (Mirage, OSDI'25, section 5): multilinear operators, division, and at most one exponentiation on
// every path. Only for programs inside it do the tests over finite fields have an error bound.
#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"

namespace strata {

/// Why a kernel graph is outside the fragment, naming operator and tensor; nothing where it is inside.
std::optional<std::string> lax_violation(const Graph& graph);

/// The elementwise operators of a kernel graph that the tests may only execute as random functions of their operands:
/// those outside the fragment, those with an exponential inside a quotient, and second exponentiations. What holds for
/// all functions holds for theirs. Nothing where another operator is outside.
std::optional<FreeOperators> free_operators(const Graph& graph);

/// Whether a graph, or one inside it, takes square roots.
bool takes_roots(const Graph& graph);

/// Whether a graph, or one inside it, takes maxima.
bool takes_maxima(const Graph& graph);

}  // namespace strata
