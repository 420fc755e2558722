// Which operators, and which sets of them, the search takes.
#pragma once

#include <optional>
#include <string>

#include "superopt/partition/partition.h"

namespace strata {

/// Why an operator of a program is never searched; empty where it may be.
std::string not_searched(const Graph& program, const Operation& op);

/// Why a part is not searched as a whole, limits on its size apart: what is outside the Lax fragment, or products
/// that would be repeated with more than `max_repeated_bytes` read.
std::optional<std::string> not_fusible(const Graph& part, int64_t max_repeated_bytes);

/// The part of these operations, ascending.
Part make_part(const Graph& program, std::vector<int> operations);

}  // namespace strata
