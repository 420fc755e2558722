// Where programs are defined. A quotient by a rational function, or by one in the roots and exponentials of a program,
// is undefined on a set without volume; one by something that a maximum or a comparison selects may be so on a region.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace strata {

/// Whether a graph divides by something that depends on a maximum or on a free operator (lax.h; none where null) and is
/// not positive for all inputs.
bool divides_by_selected(const Graph& graph, const FreeOperators* free);

/// By TensorId, whether every entry has a part in the outputs, come what may; `outputs`: whether those have. Where
/// such a tensor is undefined, so are the outputs.
std::vector<bool> read_wholly(const Graph& graph, const std::vector<bool>& outputs);

/// Whether some operator of a graph, read or not, may be undefined on more than a set without volume.
bool undefined_on_region(const Graph& graph, const FreeOperators* free);

/// A program is defined where its results are: a root or quotient that select drops, that a slice leaves out or that
/// nothing reads takes no part in that, while the tests would take it for defined. Names the first operator with such
/// an entry whose root is of something that may be negative, or whose divisor may be 0 on a region (`free` as above);
/// nothing where there is none. `output`: for this one alone, by its number.
std::optional<std::string> unread_domain(const Graph& graph, const FreeOperators* free,
                                         std::optional<size_t> output = std::nullopt);

}  // namespace strata
