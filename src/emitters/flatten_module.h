// Modules as instructions of one computation, before kernels are formed.
#pragma once

#include "hlo/hlo.h"

namespace strata::emitters {

/// The module with calls and fusions of its entry written out, constants folded, and what hlo/ rewrites for kernels of
/// several operators; in default layouts where nobody has chosen others (docs/emitters-modules.md). `one_kernel`: the
/// entry is to be one kernel, and is not rewritten. A text that is one fusion is taken as it is.
hlo::Module flatten_module(const hlo::Module& module, bool one_kernel);

}  // namespace strata::emitters
