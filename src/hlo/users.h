// What reads each instruction of a computation.
#pragma once

#include <optional>
#include <vector>

#include "hlo/hlo.h"

namespace strata::hlo {

/// By InstructionId: the users, in their order, once an operand. The root is read by kCaller too, after all others.
using Users = std::vector<std::vector<InstructionId>>;
inline constexpr InstructionId kCaller = -1;

Users users_of(const Computation& computation);
/// The only user of a value, if it has one and that is an instruction.
std::optional<InstructionId> only_user(const Users& users, InstructionId id);

}  // namespace strata::hlo
