#include "hlo/users.h"

namespace strata::hlo {

Users users_of(const Computation& computation) {
  Users users(computation.instructions.size());
  for (size_t i = 0; i < computation.instructions.size(); ++i) {
    for (const InstructionId operand : computation.instructions[i].operands)
      users[static_cast<size_t>(operand)].push_back(static_cast<InstructionId>(i));
  }
  users[static_cast<size_t>(computation.root)].push_back(kCaller);
  return users;
}

std::optional<InstructionId> only_user(const Users& users, InstructionId id) {
  const std::vector<InstructionId>& readers = users[static_cast<size_t>(id)];
  if (readers.size() != 1 || readers[0] == kCaller) return std::nullopt;
  return readers[0];
}

}  // namespace strata::hlo
