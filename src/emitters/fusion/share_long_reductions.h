// Reductions of few and long rows or columns, whatever they combine by: several blocks share each, in two steps.
#pragma once

#include <optional>

#include "hlo/hlo.h"
#include "machine/target.h"

namespace strata::emitters {

/// The module with some reductions of its entry as two, of parts and of these parts' results: those that so few blocks
/// would compute that they reach neither the memory's bandwidth nor the rate of arithmetic, of one run of dimensions
/// that lie together. They may
/// combine several arrays (the place of a maximum beside it) by any computation that XLA lets reduce (associative and
/// commutative) and whose constant initial values combine with themselves to themselves: then it does not matter how
/// often these are combined, and what is left of the last part is filled up with them. Sums and products that would be
/// rounded to less than 32 bits in between stay whole, and so do those that blocks can add to one result atomically,
/// but for those beside one that is shared, of which neither needs the other: one kernel reads what both do
/// (docs/emitters.md).
hlo::Module share_long_reductions(const hlo::Module& module, const Target& target);

/// The same with reductions, too, that blocks can add to one result atomically, but which lose that if the kernel goes
/// on with the result: those of whose results others of their shape are computed, and those beside one that is shared.
/// Which way takes less time is for the caller to find out. Nothing where there is none of them.
std::optional<hlo::Module> share_atomic_reductions(const hlo::Module& module, const Target& target);

}  // namespace strata::emitters
