// Which operators, and which sets of them, the search takes.
#pragma once

#include <optional>
#include <string>

#include "superopt/partition/partition.h"

namespace strata {

/// Why an operator of a program is never searched; empty where it may be.
std::string not_searched(const Graph& program, const Operation& op, const PartitionLimits& limits);

/// Why a part is not searched as a whole, limits on its size apart: what cannot be proved, or products that would be
/// repeated.
std::optional<std::string> not_fusible(const Graph& part, const PartitionLimits& limits);

/// Whether an operator of a program is outside the Lax fragment.
bool outside_lax(const Graph& program);

/// The part of these operations, ascending.
Part make_part(const Graph& program, std::vector<int> operations);

}  // namespace strata
