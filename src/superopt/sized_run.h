// A program with dims at one of its sizes: what a run makes for it, and what it says of that (docs/sizes.md).
#pragma once

#include "superopt/superoptimize.h"

namespace strata {

struct SizePlan {
  DimSizes wanted;
  DimSizes made;     ///< what kernels are made for: the sizes wanted, or larger ones to which inputs are padded
  std::string note;  ///< why they are padded, or why not though tiles do not divide them; empty: they are divided
};

/// Plans the run and sets `options.sized` for it. A size that the tiles of the nearest known result do not divide is
/// padded to the next that they do, where that is less than twice the size and changes no result. Error where the
/// program has no such dim, or the sizes do not fit each other.
Result<SizePlan> plan_size(const std::shared_ptr<const SizedProgram>& program, const DimSizes& wanted,
                           SuperoptimizeOptions& options);

/// Whether all parts are made of what was searched at other sizes.
bool is_made_of_known(const Superoptimized& result);

/// Keeps the choice for other sizes. `device` and `schedule`: where it was measured, and the fastest schedule; empty:
/// the model chose. What was made of other sizes' results and not measured is not kept.
void keep_choice(const Superoptimized& result, const SuperoptimizeOptions& options, const std::string& device,
                 const std::string& schedule);

/// "searched at tokens=16", or "made of what was searched at tokens=16", with the reason for each part that was
/// searched though something was known.
std::string describe_origin(const Superoptimized& result, const SuperoptimizeOptions& options);

/// "the choice was measured at tokens=16, 64 on NVIDIA H200", or that it was measured at no size.
std::string describe_measured(const SuperoptimizeOptions& options);

}  // namespace strata
