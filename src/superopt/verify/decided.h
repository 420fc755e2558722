// Comparisons and selections that no argument of a program reaches: masks of iotas. They are constants, which finite
// fields compute exactly, so they are inside the Lax fragment.
#pragma once

#include <unordered_map>
#include <vector>

#include "ir/graph.h"

namespace strata {

/// By graph and operation: whether it is a comparison of small integers that are known, or a selection by what is made
/// of these. A body that several operators carry has those that are decided in each.
using DecidedOperators = std::unordered_map<const Graph*, std::vector<bool>>;

DecidedOperators decided_operators(const Graph& graph);

/// Whether iotas that count reach exponentials only as conditions of selections between a constant and another value:
/// then which exponents are there depends on them, but no exponent is another one's multiple because of them.
bool only_hides_exponents(const Graph& graph);

/// What every mask that only hides (only_hides_exponents) does.
enum class Masks {
  Show,  ///< selects the other value, everywhere
  Hide,  ///< selects the constant, everywhere
};
Result<GraphPtr> with_masks(const Graph& graph, Masks masks);

/// Whether some input is an iota.
bool has_iotas(const Graph& graph);

/// By TensorId of a kernel graph: whether it depends on iotas alone, which are such themselves.
std::vector<bool> known_tensors(const Graph& graph);

}  // namespace strata
