// Which products of a loop tensor cores may still compute while its warps go on.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "ir/views.h"

namespace strata {

/// The wide products of a loop's body. `front` ones need no other product of the iteration. `behind` ones need one of
/// these, but nothing of the iteration needs them. So these may end in the next iteration, while other groups of
/// warps compute: S = QKᵀ and O += PV of attention (FlashAttention-3, section 3).
struct LoopProducts {
  std::vector<const Operation*> front;
  std::vector<const Operation*> behind;
};

/// Nothing where one kind is missing, or a `behind` product is not just added up. `stages` are the operators', and
/// `wide`, `accumulated` say of an operator whether four warps compute it together, and whether an accumulator alone
/// uses its result, in place. Invariant operators are no part of the body.
std::optional<LoopProducts> loop_products(const Graph& body, const std::vector<LoopStage>& stages,
                                          const std::function<bool(const Operation&)>& invariant,
                                          const std::function<bool(const Operation&)>& wide,
                                          const std::function<bool(const Operation&)>& accumulated);

}  // namespace strata
