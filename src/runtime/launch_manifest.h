// What a runner needs beside a cubin (best.launch.json): buffers and launches, as plain values. The generator makes
// them, the runtime reads them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ops/types.h"
#include "runtime/library_work.h"

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

/// One launch: a kernel of the cubin, or what a library computes. Arguments are device pointers, in order, and tensor
/// maps behind them.
struct GpuLaunch {
  std::string kernel;                  ///< extern "C" name in the source
  std::optional<LibraryWork> library;  ///< where set, the cubin has no such kernel, and there is no shape
  std::array<int64_t, 3> grid{1, 1, 1};
  int64_t threads = 1;
  int64_t shared_bytes = 0;  ///< dynamic shared memory
  int64_t cluster = 1;       ///< blocks, next to each other along x, that form a cluster; divides grid[0]
  /// Starts while the launch before it still runs (programmatic dependent launch); its kernel waits by itself.
  bool overlaps_previous = false;
  bool resident = false;               ///< blocks wait for each other: refused where not all run at the same time
  std::vector<std::string> arguments;  ///< names of buffers
  std::vector<GpuTensorMap> tensor_maps;

  /// Null where it is none.
  const MatrixProduct* product() const { return library ? std::get_if<MatrixProduct>(&*library) : nullptr; }
  const Fft* fft() const { return library ? std::get_if<Fft>(&*library) : nullptr; }
  const Convolution* convolution() const { return library ? std::get_if<Convolution>(&*library) : nullptr; }
};

struct LaunchManifest {
  std::vector<GpuBuffer> buffers;
  std::vector<GpuLaunch> launches;  ///< in order, each after the one before it

  /// Whether anything of the cubin is launched.
  bool uses_kernels() const;
  /// Of all buffers of a role.
  int64_t bytes(BufferRole role) const;
};

/// All that a library's work is, where describe() leaves strides out.
std::string identity_of(const LibraryWork& work);

/// {"buffers": […], "kernels": […]}, which parse_launch_manifest reads.
std::string print(const LaunchManifest& manifest);
/// Error (InvalidInput) where the text is no manifest, or a launch names a buffer that is not listed.
Result<LaunchManifest> parse_launch_manifest(const std::string& text);

}  // namespace strata
