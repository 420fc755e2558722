// The one description of a GPU that both back ends plan for: the limits of Definition 2.1 (2), what the code generators
// must know of its instructions, and the rates that the cost models take.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace strata {

struct Target {
  std::string_view name;  ///< "sm_90a": NVRTC's architecture
  std::string_view gpu;   ///< the GPU that limits and rates are those of
  int multiprocessors;
  int threads_per_multiprocessor;
  int blocks_per_multiprocessor;
  int64_t shared_memory;  ///< bytes a block may use
  int64_t multiprocessor_shared_memory;
  int64_t reserved_shared_memory;  ///< bytes of it that each block takes beside its own
  int64_t registers;               ///< 32-bit registers of a multiprocessor; a block may have all
  int64_t l2_bytes;
  int64_t device_memory;        ///< bytes
  int cluster;                  ///< blocks that a cluster may have; 1 where there are none
  int large_cluster;            ///< clusters of so many blocks or more run on cluster_multiprocessors alone
  int cluster_multiprocessors;  ///< (cuOccupancyMaxActiveClusters)
  bool wide_products;           ///< wgmma
  bool overlapping_kernels;     ///< programmatic dependent launch
  bool bulk_copies;             ///< TMA
  bool vector_atomics;          ///< one instruction adds 16 bytes of floats in device memory
  double memory_bandwidth;      ///< bytes/s, measured reading
  double matrix_rate;           ///< half-precision multiply-adds counted as two operations, operations/s
  double scalar_rate;           ///< single-precision operations/s
  double launch_seconds;        ///< an empty kernel node in a CUDA graph
};

/// sm_80 (A100) and sm_90a (H200): those that code is generated for.
const std::vector<Target>& targets();
/// Error that lists the known targets.
Result<const Target*> find_target(std::string_view name);
/// sm_90a.
const Target& default_target();

}  // namespace strata
