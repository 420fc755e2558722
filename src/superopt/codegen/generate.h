// CUDA C++ from µGraphs, first version: correct for every legal graph.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/target.h"

namespace strata {

/// One kernel launch of a generated program. Arguments are device pointers, in order.
struct KernelLaunch {
  std::string kernel;  ///< extern "C" name in the source
  std::array<int64_t, 3> grid{1, 1, 1};
  int64_t threads = 128;
  int64_t shared_bytes = 0;            ///< dynamic shared memory
  std::vector<std::string> arguments;  ///< names of buffers: inputs, outputs or intermediates
};

struct DeviceBuffer {
  std::string name;
  TensorType type;
};

struct GeneratedProgram {
  std::string source;  ///< one translation unit; includes the device library by name
  std::vector<DeviceBuffer> inputs;
  std::vector<DeviceBuffer> outputs;
  std::vector<DeviceBuffer> intermediates;
  std::vector<KernelLaunch> launches;  ///< in order, each after the one before it
};

/// Error (Unsupported) where a graph has something that the generator cannot express.
Result<GeneratedProgram> generate_cuda(const Graph& graph, const Target& target);

/// {"kernels": […], "buffers": […]}: what a runner needs beside the cubin.
std::string launch_manifest(const GeneratedProgram& program);

}  // namespace strata
