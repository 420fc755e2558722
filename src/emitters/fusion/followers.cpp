#include "emitters/fusion/followers.h"

#include <algorithm>
#include <numeric>

#include "hlo/element_work.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

bool is_elementwise_array(const Instruction& it) {
  return hlo::is_elementwise(it.opcode) && it.called.empty() && it.shape.is_array();
}

}  // namespace

Followers::Followers(const hlo::Computation& computation, const ArrayUses& uses, const std::vector<Group>& groups)
    : computation_(computation), uses_(uses) {
  // What is in no group, such as a constant's broadcast, follows nobody: it is at hand everywhere.
  may_follow_.assign(computation.instructions.size(), false);
  for (const Group& group : groups) {
    const InstructionId id = *group.begin();
    const Instruction& it = computation[id];
    // Of what is narrower than its readers' results, fewer bytes are stored if they stay apart.
    const auto reads_in_place = [&](const std::pair<ArrayValue, InstructionId>& use) {
      const Instruction& user = computation[use.second];
      return is_elementwise_array(user) && user.shape.dims == it.shape.dims &&
             user.shape.minor_to_major == it.shape.minor_to_major &&
             hlo::byte_width(user.shape.type) <= hlo::byte_width(it.shape.type);
    };
    const bool may = is_elementwise_array(it) || it.opcode == Opcode::Broadcast;
    may_follow_[static_cast<size_t>(id)] =
        may && !uses.is_result(id) && !uses.users(id).empty() && std::ranges::all_of(uses.users(id), reads_in_place);
  }
  leave_short_runs();
  for (const Group& group : groups) {
    const InstructionId id = *group.begin();
    plain_.push_back(is_elementwise_array(computation[id]) || may_follow_[static_cast<size_t>(id)]);
    operations_.push_back(hlo::element_operations(computation, computation[id]));
  }
}

/// Runs are what follow each other, with their last readers.
void Followers::leave_short_runs() {
  constexpr int kShort = 64;  // instructions, which are soon rated: there prices tell better what joins what first
  std::vector<InstructionId> run(may_follow_.size());
  std::iota(run.begin(), run.end(), 0);
  const auto run_of = [&](InstructionId id) {
    while (run[static_cast<size_t>(id)] != id) {
      InstructionId& next = run[static_cast<size_t>(id)];
      next = run[static_cast<size_t>(next)];
      id = next;
    }
    return static_cast<size_t>(id);
  };
  const auto end = static_cast<InstructionId>(may_follow_.size());
  for (InstructionId id = 0; id < end; ++id) {
    if (!may_follow_[static_cast<size_t>(id)]) continue;
    for (const auto& use : uses_.users(id)) run[run_of(id)] = static_cast<InstructionId>(run_of(use.second));
  }
  std::vector<int> lengths(may_follow_.size(), 0);
  for (InstructionId id = 0; id < end; ++id) ++lengths[run_of(id)];
  for (InstructionId id = 0; id < end; ++id) {
    if (lengths[run_of(id)] <= kShort) may_follow_[static_cast<size_t>(id)] = false;
  }
}

bool Followers::follows(int number, int reader, const Group& group, const std::vector<int>& group_of) const {
  const auto from = static_cast<size_t>(number), to = static_cast<size_t>(reader);
  if (!plain_[from] || !plain_[to] || operations_[from] + operations_[to] > kMostCode / 2) return false;
  return std::ranges::all_of(group, [&](InstructionId id) {
    const auto& users = uses_.users(id);
    const bool inside = std::ranges::all_of(
        users, [&](const auto& use) { return group_of[static_cast<size_t>(use.second)] == number; });
    if (inside && !users.empty()) return true;
    return may_follow_[static_cast<size_t>(id)] && std::ranges::all_of(users, [&](const auto& use) {
             const int of_user = group_of[static_cast<size_t>(use.second)];
             return of_user == number || of_user == reader;
           });
  });
}

void Followers::join(int from, int to) {
  const auto i = static_cast<size_t>(from), k = static_cast<size_t>(to);
  plain_[k] = plain_[k] && plain_[i];
  operations_[k] += operations_[i];
}

}  // namespace strata::emitters
