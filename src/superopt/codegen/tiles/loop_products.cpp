#include "superopt/codegen/tiles/loop_products.h"

#include <algorithm>
#include <set>

namespace strata {

std::optional<LoopProducts> loop_products(const Graph& body, const std::vector<LoopStage>& stages,
                                          const std::function<bool(const Operation&)>& invariant,
                                          const std::function<bool(const Operation&)>& wide,
                                          const std::function<bool(const Operation&)>& accumulated) {
  LoopProducts products;
  std::set<TensorId> from_products;
  for (size_t i = 0; i < body.operations().size(); ++i) {
    const Operation& op = body.operations()[i];
    if (stages[i] != LoopStage::Body || invariant(op)) continue;
    const bool needs =
        std::any_of(op.operands.begin(), op.operands.end(), [&](TensorId id) { return from_products.count(id) != 0; });
    const bool is_wide = multiplies_matrices(op.kind) && wide(op);
    if (needs || is_wide) from_products.insert(op.results.begin(), op.results.end());
    if (!is_wide) continue;
    if (needs ? !accumulated(op) : !products.behind.empty()) return std::nullopt;
    (needs ? products.behind : products.front).push_back(&op);
  }
  if (products.front.empty() || products.behind.empty()) return std::nullopt;
  return products;
}

}  // namespace strata
