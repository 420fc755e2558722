// Block functions without matrix products, done in registers: a crew of threads holds each row of a tile. Inputs come
// straight from device memory by vector loads, and only reductions over more than a warp pass through shared memory.
#pragma once

#include "superopt/codegen/block_code.h"

namespace strata {

/// The block function of a graph-defined operator with row_warps warps; strides are those of its operands in device
/// memory. Pointers must be aligned to 16 bytes. Error (Unsupported) with the reason for operators that move elements,
/// products, reductions over other dimensions than the last, tiles that broadcast along some leading dimensions only,
/// and f64.
Result<BlockCode> emit_rows(const Operation& op, const std::string& name, const OperandPlaces& strides,
                            const BlockSchedule& schedule, const Target& target);

/// Schedules worth trying, the best guess first; empty where emit_rows takes none.
std::vector<BlockSchedule> row_schedules(const Operation& op, const OperandPlaces& strides, const Target& target);

}  // namespace strata
