// Scans written out as a recursion over pairs as windows that grow with the index.
#pragma once

#include <functional>

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether a combiner (a₀ … aₖ₋₁, b₀ … bₖ₋₁) → c₀ … cₖ₋₁ of scalars is known to be associative, except for roundings.
using IsAssociative = std::function<bool(const Computation& combiner)>;

/// The length of the longest scan in the entry, with all calls written out, that fold_associative_scans might rewrite;
/// 0 where there is none.
int64_t longest_scan_recursion(const Module& module);

/// The module with calls written out, and each scan of its entry that is written as a recursion (scan_recursion.h) by
/// an associative combiner as a reduce-window that grows with the index (scan_window.h), from the end where elements
/// and results are reversed. Where the combiner is one operator of one array, by that with its neutral initial value;
/// else by an optional combiner (optional_combiner.h), with an array of true before the others. Elements are then
/// combined in another order. Others stay as they are.
Module fold_associative_scans(const Module& module, const IsAssociative& is_associative);

}  // namespace strata::hlo
