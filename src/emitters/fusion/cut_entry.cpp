#include "emitters/fusion/cut_entry.h"

#include <utility>

#include "emitters/fusion/factor_sums.h"
#include "emitters/fusion/nest_reductions.h"
#include "emitters/fusion/place_products.h"
#include "emitters/fusion/reduce_pieces.h"
#include "emitters/fusion/share_long_products.h"
#include "emitters/fusion/share_long_reductions.h"
#include "emitters/fusion/sink_transposes.h"
#include "emitters/fusion/split_reductions.h"
#include "emitters/fusion/widen_sums.h"

namespace strata::emitters {

FusedModule cut_entry(const hlo::Module& module, const Target& target, Parameters parameters) {
  Ratings ratings(target);
  const auto fused_of = [&](const hlo::Module& of) { return fuse_recomputing(of, ratings, parameters); };
  const auto kernels_of = [&](const hlo::Module& of) {
    return fused_of(share_long_reductions(split_reductions(of, target), target));
  };
  hlo::Module flat = reduce_pieces(widen_sums(place_products(share_long_products(module, target))), target);
  if (std::optional<hlo::Module> sunk = sink_transposes(flat)) flat = *std::move(sunk);
  std::optional<hlo::Module> factored = factor_sums(flat);
  if (flat.entry_computation().instructions.size() > kFewInstructions)
    return kernels_of(nest_reductions(factored ? *factored : flat));
  const std::optional<hlo::Module> early = factor_waiting_sums(flat);
  flat = nest_reductions(flat);
  FusedModule fused = kernels_of(flat);
  const auto consider = [&](hlo::Module other) {
    FusedModule instead = kernels_of(other);
    if (microseconds(instead.parts) >= microseconds(fused.parts)) return;
    fused = std::move(instead);
    flat = std::move(other);
  };
  if (factored) consider(nest_reductions(*factored));
  if (early) consider(nest_reductions(*early));
  if (std::optional<hlo::Module> nested = nest_beside_reductions(flat)) consider(*std::move(nested));
  if (const auto shared = share_atomic_reductions(split_reductions(flat, target), target)) {
    FusedModule instead = fused_of(*shared);
    if (microseconds(instead.parts) < microseconds(fused.parts)) fused = std::move(instead);
  }
  return fused;
}

}  // namespace strata::emitters
