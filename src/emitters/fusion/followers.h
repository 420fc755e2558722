// Groups of a large module that join without a look at what it saves: operators with their only readers.
#pragma once

#include <utility>
#include <vector>

#include "emitters/fusion/group.h"
#include "emitters/fusion/pass.h"
#include "hlo/hlo.h"

namespace strata::emitters {

/// A group of elementwise operators follows another one that alone reads what it computes, element by element: as one
/// kernel they do the same work, move no more bytes and start once. Chains and unrolled steps of hundreds of operators
/// become few groups so, and the pass rates pairs of these.
class Followers {
 public:
  using Users = std::vector<std::vector<std::pair<ArrayValue, hlo::InstructionId>>>;  ///< of each instruction
  /// All but the computation are looked at here alone.
  Followers(const hlo::Computation& computation, const Users& users, const std::vector<bool>& is_result,
            const std::vector<Group>& groups);

  /// Whether group `number`, of the instructions `group`, follows `reader`.
  bool follows(int number, int reader, const Group& group, const std::vector<int>& group_of) const;
  /// The second group takes in the first one.
  void join(int from, int to);

 private:
  const hlo::Computation& computation_;
  const Users& users_;
  /// Of instructions: whether all readers read it at their own index, so that it may be computed where they are.
  std::vector<bool> may_follow_;
  std::vector<bool> plain_;         ///< of groups: elementwise operators alone
  std::vector<double> operations_;  ///< of groups: of an element
};

}  // namespace strata::emitters
