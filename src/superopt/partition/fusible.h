// Which operators, and which sets of them, the search takes.
#pragma once

#include <functional>
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

/// The part of these operations, ascending. `is_wanted` says of a value that they make whether it is an output of the
/// program or read by other operations.
Part make_part(const Graph& program, std::vector<int> operations, const std::function<bool(TensorId)>& is_wanted);

}  // namespace strata
