// What a runner needs beside a cubin (best.launch.json): buffers and kernel launches, as plain values.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ops/types.h"
#include "runtime/matrix_product.h"

namespace strata {

enum class BufferRole : uint8_t { Input, Intermediate, Output };

struct GpuBuffer {
  std::string name;
  BufferRole role = BufferRole::Input;
  TensorType type;
};

/// One launch: a kernel of the cubin, or a product that cuBLASLt computes. Arguments are device pointers, in order.
struct GpuLaunch {
  std::string kernel;
  std::optional<MatrixProduct> product;  ///< where set, the cubin has no such kernel, and there is no shape
  std::array<int64_t, 3> grid{1, 1, 1};
  int64_t threads = 1;
  int64_t shared_bytes = 0;        ///< dynamic shared memory
  int64_t cluster = 1;             ///< blocks along x that form a cluster
  bool overlaps_previous = false;  ///< programmatic dependent launch
  std::vector<std::string> arguments;
};

struct LaunchManifest {
  std::vector<GpuBuffer> buffers;
  std::vector<GpuLaunch> launches;  ///< in order, each after the one before it

  bool uses_products() const;
  bool uses_kernels() const;
  /// Of all buffers of a role.
  int64_t bytes(BufferRole role) const;
};

/// Error (InvalidInput) where the text is no manifest, or a launch names a buffer that is not listed.
Result<LaunchManifest> parse_launch_manifest(const std::string& text);

}  // namespace strata
