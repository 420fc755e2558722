// The device text of a decode step's hand-written tasks, for tests that run it on the host: the parts that stand one
// after the other in an image's source, so their order counts. Not of this project's warnings: device compilers have
// others.
#pragma once
#pragma GCC system_header

// clang-format off
#include "superopt/codegen/device/strata_host_threads.h"
#include "superopt/codegen/device/strata_host.h"
#include "superopt/codegen/device/strata_host_bulk.h"
#include "superopt/codegen/device/strata_device.h"
#include "superopt/codegen/device/strata_tiles.h"
#include "superopt/codegen/device/strata_groups.h"
#include "superopt/codegen/device/strata_rows.h"
#include "superopt/codegen/device/strata_bulk.h"
#include "megakernel/tasks/device/strata_task.h"
#include "megakernel/tasks/device/strata_sequence.h"
#include "megakernel/tasks/device/strata_sampling.h"
#include "megakernel/tasks/device/strata_draw.h"
// clang-format on
