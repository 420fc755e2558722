// What `strata doctor` says beside runtime/doctor.h.
#pragma once

#include "runtime/doctor.h"

namespace strata::compiler {

/// The LLVM that this build has.
Finding llvm_finding();

}  // namespace strata::compiler
