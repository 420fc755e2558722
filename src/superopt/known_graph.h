// The end of a superoptimisation without its search: a µGraph that was found before is proved and compiled anew.
#pragma once

#include "superopt/superoptimize.h"

namespace strata {

struct KnownGraph {
  GraphPtr graph;
  /// How its kernels are scheduled (label of codegen/all_schedules.h); empty: the model's choice.
  std::string schedule = {};
  bool grouped = false;  ///< whether independent kernels share launches
};

/// Proves the graph equivalent to the program, which needs no proof where it is the program itself, and makes code of
/// it. Errors: InvalidInput where it does not compute the program, or its inputs are not the program's; Unsupported
/// where it cannot be proved, or there is no such schedule.
Result<Superoptimized> superoptimize_known(const GraphPtr& program, const KnownGraph& known,
                                           const SuperoptimizeOptions& options);

}  // namespace strata
