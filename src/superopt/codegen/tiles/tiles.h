// Block functions with matrix products, done in registers: tiles arrive by asynchronous copies in a ring of shared
// memory, products run on tensor cores, and every computed tensor stays in the registers of the warp that computes it.
//
// A block's warps are divided twice. The loop's iterations go to groups of warps in turn, each with a ring of its own,
// so that no group waits for another; what accumulators hold is combined when the loop has ended: sums are added,
// maxima taken, and rescaled sums brought to a common reference. Within a group, warps divide one axis of the tile that
// no operator reduces.
#pragma once

#include "superopt/codegen/block_code.h"

namespace strata {

/// The block function of a graph-defined operator; strides are those of its operands in device memory, which need not
/// be row-major. Pointers must be aligned to 16 bytes. Error (Unsupported) with the reason where plan.h finds no
/// plan, or where tiles and partial results do not fit shared memory.
Result<BlockCode> emit_tiles(const Operation& op, const std::string& name, const OperandPlaces& strides,
                             const BlockSchedule& schedule, const Target& target);

/// Schedules worth trying, the best guess first; those that emit_tiles refuses are left out. Empty where there is none.
std::vector<BlockSchedule> tile_schedules(const Operation& op, const OperandPlaces& strides, const Target& target);

}  // namespace strata
