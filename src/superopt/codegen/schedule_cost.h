// The time of a block function with a schedule: what the emitters know that the cost model of graphs (optimize/cost.h)
// does not. docs/cost-model.md has the formula and how the rates were fitted that it takes.
#pragma once

#include "superopt/codegen/block_code.h"

namespace strata {

/// Seconds of a launch of the code that an emitter made of a graph-defined operator; strides are those of its operands
/// in device memory.
double schedule_seconds(const Operation& op, const OperandPlaces& strides, const BlockCode& code,
                        const BlockSchedule& schedule, const Target& target);

/// Seconds that a kernel takes after another one in the same launch, where each block computes `rounds` of its blocks.
/// `clusters`: its blocks form some.
double handover_seconds(const BlockCode& code, int64_t rounds, bool clusters, const Target& target);

/// Blocks of the launch, those of clusters each.
int64_t blocks_of(const Operation& op, const BlockSchedule& schedule);

/// Bytes of one multiprocessor's shared memory that a block must ask for lest more blocks than their share lie on one
/// while others are idle: a multiprocessor that is done with the kernel before takes as many as fit.
int64_t spreading_bytes(int64_t blocks, const BlockSchedule& schedule, const Target& target);

/// Bytes that memory moves for the operator's operands and results, each once: it moves whole lines.
double device_bytes(const Operation& op, const OperandPlaces& strides);

}  // namespace strata
