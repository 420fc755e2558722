// What the compiler must know of a GPU: the limits of Definition 2.1 (2) and the rates of the cost model.
#pragma once

#include <string_view>
#include <vector>

#include "support/error.h"

namespace strata {

struct Target {
  std::string_view name;  ///< "sm_90a": NVRTC's architecture
  int multiprocessors;
  int64_t shared_memory;  ///< bytes a block may use; a multiprocessor has 1 KiB more
  int cluster;            ///< blocks that a cluster may have; 1 where there are none
  int large_cluster;      ///< clusters of so many blocks or more run on cluster_multiprocessors alone
  int cluster_multiprocessors;
  bool wide_products;        ///< wgmma
  bool overlapping_kernels;  ///< programmatic dependent launch
  bool bulk_copies;          ///< TMA
  int64_t device_memory;     ///< bytes
  int64_t registers;         ///< 32-bit registers of a block
  double memory_bandwidth;   ///< bytes/s, measured reading
  double matrix_rate;        ///< half-precision multiply-adds counted as two operations, operations/s
  double scalar_rate;        ///< single-precision operations/s
  double launch_seconds;     ///< an empty kernel node in a CUDA graph
};

/// sm_80 (A100) and sm_90a (H200).
const std::vector<Target>& targets();
/// Error that lists the known targets.
Result<const Target*> find_target(std::string_view name);

}  // namespace strata
