// What the blocks of an emitted kernel read and write, found in its code: one way for all emitters, which says what the
// kernel does and not what was planned.
#pragma once

#include <mlir/Dialect/Func/IR/FuncOps.h>

#include "block/regions.h"
#include "emitters/kinds/decision.h"

namespace strata::emitters {

/// The regions of a kernel whose calls are inlined where that was worth it, and whose indices are simplified. Its
/// arguments are arrays of the given shapes; regions have their numbers. The coordinate is the number of the block.
/// Where an index is a value that the program computes, it is a runtime variable; where nothing is known of an access,
/// the region is the whole array.
std::vector<AccessRegion> block_regions(mlir::func::FuncOp kernel, const Launch& launch,
                                        const std::vector<hlo::Shape>& arguments);

}  // namespace strata::emitters
