// The one description of a GPU that both back ends plan for: the limits of Definition 2.1 (2), what the code generators
// must know of its instructions, and the rates that the cost models take.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "machine/rates.h"
#include "support/error.h"

namespace strata {

/// What the architectures of all targets have in common.
inline constexpr int kMostBlockThreads = 1024;
inline constexpr int64_t kMostThreadRegisters = 255;

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
  int large_cluster;            ///< clusters of this many blocks or more run on cluster_multiprocessors alone
  int cluster_multiprocessors;  ///< (cuOccupancyMaxActiveClusters)
  bool wide_products;           ///< wgmma
  bool overlapping_kernels;     ///< programmatic dependent launch
  bool bulk_copies;             ///< TMA
  bool vector_atomics;          ///< one instruction adds 16 bytes of floats in device memory
  bool plan;                    ///< no code is generated for it: it can be looked at
  Rates rates{};
  /// Where rates are from that are not those of Rates{}.
  struct Source {
    double Rates::*rate;
    std::string text;
  };
  std::vector<Source> sources{};

  void set_rate(const RateDescription& rate, double value, std::string source);
  std::string_view source_of(const RateDescription& rate) const;
  /// What a kernel takes beside its bytes and operations, after another of this compiler in a CUDA graph.
  double kernel_seconds() const { return overlapping_kernels ? rates.overlapped_kernel : rates.kernel; }
  /// The name, and the rates where they are not those built in: what decisions by the cost models depend on.
  std::string identity() const;
};

/// sm_80 (A100) and sm_90a (H200): those that code is generated for.
const std::vector<Target>& targets();
/// Error that lists the known targets, or says that the target is a plan.
Result<const Target*> find_target(std::string_view name);
/// These and the plans: sm_100a (B200).
const std::vector<Target>& described_targets();
/// Error that lists them.
Result<const Target*> find_described_target(std::string_view name);
/// sm_90a.
const Target& default_target();

}  // namespace strata
