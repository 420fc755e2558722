// Groups of a large module that join without a look at what it saves: operators with their only readers.
#pragma once

#include <vector>

#include "emitters/fusion/array_uses.h"
#include "emitters/fusion/group.h"
#include "hlo/hlo.h"

namespace strata::emitters {

/// A group of elementwise operators follows another one that alone reads what it computes, element by element: as one
/// kernel they do the same work, pass nothing on and start once. Chains and unrolled steps of hundreds of operators
/// become few groups so, and the pass rates pairs of these. Only operators of long runs follow. In short ones, between
/// reductions and products, prices tell what joins what first: a sum of two arrays that one reduction has at hand is
/// less to pass on than both.
class Followers {
 public:
  /// Groups are of one instruction each.
  Followers(const hlo::Computation& computation, const ArrayUses& uses, const std::vector<Group>& groups);

  /// Whether group `number`, of the instructions `group`, follows `reader`.
  bool follows(int number, int reader, const Group& group, const std::vector<int>& group_of) const;
  /// The second group takes in the first one.
  void join(int from, int to);

 private:
  void leave_short_runs();

  const hlo::Computation& computation_;
  const ArrayUses& uses_;
  /// Of instructions: whether all readers read it at their own index, so that it may be computed where they are.
  std::vector<bool> may_follow_;
  std::vector<bool> plain_;         ///< of groups: elementwise operators alone
  std::vector<double> operations_;  ///< of groups: of an element
};

}  // namespace strata::emitters
