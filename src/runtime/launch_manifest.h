// What a runner needs beside a cubin (best.launch.json): buffers and kernel launches, as plain values.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ops/types.h"
#include "runtime/matrix_product.h"

namespace strata {

/// Counters are 0 before the first run, and after each.
enum class BufferRole : uint8_t { Input, Intermediate, Counters, Output };

struct GpuBuffer {
  std::string name;
  BufferRole role = BufferRole::Input;
  TensorType type;
};

/// A tensor as TMA takes boxes from it: dimensions innermost first.
struct GpuTensorMap {
  size_t argument = 0;           ///< of the launch: where the tensor lies
  int64_t element_bytes = 2;     ///< 2 or 4
  std::vector<int64_t> sizes;    ///< elements
  std::vector<int64_t> strides;  ///< bytes; the first is that of an element
  std::vector<int64_t> box;      ///< elements
  int64_t swizzle = 0;           ///< bytes: 0, 32, 64, 128
};

/// One launch: a kernel of the cubin, or a product that cuBLASLt computes. Arguments are device pointers,
/// in order, and tensor maps behind them.
struct GpuLaunch {
  std::string kernel;
  std::optional<MatrixProduct> product;  ///< where set, the cubin has no such kernel, and there is no shape
  std::array<int64_t, 3> grid{1, 1, 1};
  int64_t threads = 1;
  int64_t shared_bytes = 0;        ///< dynamic shared memory
  int64_t cluster = 1;             ///< blocks along x that form a cluster
  bool overlaps_previous = false;  ///< programmatic dependent launch
  bool resident = false;           ///< blocks wait for each other: refused where not all run at the same time
  std::vector<std::string> arguments;
  std::vector<GpuTensorMap> tensor_maps;
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
