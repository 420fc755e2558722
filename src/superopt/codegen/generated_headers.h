// What generated programs begin with on the host, precompiled for tests that run them there
// (cmake/StrataTargets.cmake): parsing and compiling it takes longer than the programs. They link the functions of the
// library, which are compiled once.
#define STRATA_HOST_APART
#include "superopt/codegen/device/strata_host_threads.h"
// These two take the one before them.
#include <sys/mman.h>

#include <cmath>
#include <utility>

#include "superopt/codegen/device/strata_host.h"
#include "superopt/codegen/device/strata_host_bulk.h"
