// The time of a block function with a schedule: what the emitters know that the cost model of graphs (optimize/cost.h)
// does not. docs/cost-model.md has the formula and how its constants were fitted.
#pragma once

#include "superopt/codegen/block_code.h"

namespace strata {

/// Rates and latencies that the formula takes, fitted to measurements (bench/codegen/fit.py). Seconds, bytes/s.
struct ScheduleCosts {
  double launch = 0.2e-6;            ///< of a kernel, and its end
  double first_byte = 1.21e-6;       ///< from a block's start to its first tile
  double bulk_start = 0.0;           ///< what TMA takes longer to that: barriers, descriptions of tensors
  double sharing_start = 0.319e-6;   ///< what clusters of sharers take longer to that
  double latency = 0.477e-6;         ///< from a load's issue to its arrival
  double sharing = 0.076e-6;         ///< until all sharers have freed a tile's place, each doubling
  double block_bandwidth = 94e9;     ///< of one multiprocessor
  double l2_bandwidth = 9e12;        ///< of all
  double shared_bandwidth = 237e9;   ///< of one multiprocessor's shared memory
  double iteration = 0.168e-6;       ///< waiting, barriers, addresses and copies of an iteration
  double bulk_iteration = 0.139e-6;  ///< the same where TMA brings the tiles
  double row_iteration = 0.056e-6;   ///< the same of an unrolled loop that loads rows to registers
  double product = 2.47e-9;          ///< an instruction of one warp, its latency
  double product_rate = 6.12e-9;     ///< an instruction's share of a quarter of a multiprocessor
  double wide = 0.539;               ///< of both, in products of four warps
  double element = 0.932e-9;         ///< an operation on a register's element, its latency
  double element_rate = 0.25e-9;     ///< its share of a quarter of a multiprocessor
  double groups = 0.111e-6;          ///< combining groups, each doubling
  double partial_bandwidth = 96e9;   ///< of what they leave for each other, in one block
  double cluster = 1.5e-6;           ///< combining blocks, each doubling
  double handover = 1.5e-6;          ///< from a block's last store to others' first load in the same launch
  double handover_cluster = 0.8e-6;  ///< what that takes longer where blocks form clusters
};

/// Seconds of a launch of the code that an emitter made of a graph-defined operator; strides are those of its operands
/// in device memory.
double schedule_seconds(const Operation& op, const std::vector<std::vector<int64_t>>& strides, const BlockCode& code,
                        const BlockSchedule& schedule, const Target& target, const ScheduleCosts& costs = {});

/// Seconds that a kernel takes behind another one in the same launch, where each block computes `rounds` of its blocks.
/// `clusters`: its blocks form some.
double handover_seconds(const BlockCode& code, int64_t rounds, bool clusters, const ScheduleCosts& costs = {});

/// Blocks of the launch, those of clusters each.
int64_t blocks_of(const Operation& op, const BlockSchedule& schedule);

/// Bytes of one multiprocessor's shared memory that a block must ask for lest more blocks than their share lie on one
/// while others are idle: a multiprocessor that is done with the kernel before takes as many as fit.
int64_t spreading_bytes(int64_t blocks, const BlockSchedule& schedule, const Target& target);

/// Bytes that memory moves for the operator's operands and results, each once: it moves whole lines.
double device_bytes(const Operation& op, const std::vector<std::vector<int64_t>>& strides);

}  // namespace strata
