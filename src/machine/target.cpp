#include "machine/target.h"

namespace strata {

const std::vector<Target>& targets() {
  // sm_90a: bandwidth, matrix rate, launch cost and room for clusters as measured on an H200; the rest, and sm_80, from
  // datasheets.
  static const std::vector<Target> table = {
      {.name = "sm_80",
       .gpu = "NVIDIA A100 80GB",
       .multiprocessors = 108,
       .threads_per_multiprocessor = 2048,
       .blocks_per_multiprocessor = 32,
       .shared_memory = 163 << 10,
       .multiprocessor_shared_memory = 164 << 10,
       .reserved_shared_memory = 1 << 10,
       .registers = 65536,
       .l2_bytes = 40 << 20,
       .device_memory = int64_t{80} << 30,
       .cluster = 1,
       .large_cluster = 2,
       .cluster_multiprocessors = 108,
       .wide_products = false,
       .overlapping_kernels = false,
       .bulk_copies = false,
       .vector_atomics = false,
       .memory_bandwidth = 1.8e12,
       .matrix_rate = 250e12,
       .scalar_rate = 19.5e12,
       .launch_seconds = 1.6e-6},
      {.name = "sm_90a",
       .gpu = "NVIDIA H200",
       .multiprocessors = 132,
       .threads_per_multiprocessor = 2048,
       .blocks_per_multiprocessor = 32,
       .shared_memory = 227 << 10,
       .multiprocessor_shared_memory = 228 << 10,
       .reserved_shared_memory = 1 << 10,
       .registers = 65536,
       .l2_bytes = 50 << 20,
       .device_memory = int64_t{141} << 30,
       .cluster = 8,
       .large_cluster = 4,
       .cluster_multiprocessors = 120,
       .wide_products = true,
       .overlapping_kernels = true,
       .bulk_copies = true,
       .vector_atomics = true,
       .memory_bandwidth = 4.39e12,
       .matrix_rate = 680e12,
       .scalar_rate = 60e12,
       .launch_seconds = 1.4e-6},
  };
  return table;
}

Result<const Target*> find_target(std::string_view name) {
  for (const Target& target : targets()) {
    if (target.name == name) return &target;
  }
  return with_remedy(invalid("unknown target '{}'; expected sm_80 or sm_90a", name), "write one of the two");
}

const Target& default_target() { return targets().back(); }

}  // namespace strata
