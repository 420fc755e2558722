#include "superopt/codegen/launcher.h"

#include <algorithm>
#include <map>

#include "runtime/memory_layout.h"

namespace strata {
namespace {

/// What ends the device library in a source, and begins the program.
constexpr std::string_view kProgramBegins = "// The program:\n";

constexpr std::string_view kHead =
    R"(// Loads a cubin of best.cu and launches its kernels in order, by the CUDA driver's interface alone, without
// Strata. Take load() and launch() into your program, or try it as it is:
//
//   g++ -std=c++17 best.launch.cpp -I$CUDA_HOME/include -lcuda -o best.launch
//   ./best.launch CUBIN [INPUT.raw ...]     one file an input, in the order of kBuffers; random bytes for others
//
// It writes NAME.raw for each output: the elements, row-major, without a header.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

enum class Role { Input, Intermediate, Counters, Output };

/// Device memory that the kernels are given. You own all of it; counters must be 0 before the first launch, and are 0
/// after each. Intermediates lie in one allocation of kWorkingBytes, where those that live at different times share
/// bytes; memory of their own does as well.
struct Buffer {
  const char* name;
  Role role;
  const char* type;  ///< row-major
  size_t bytes;
  long long offset;  ///< in the working memory; -1: it has memory of its own
};

/// How TMA takes boxes from a buffer: sizes and boxes in elements, the innermost dimension first; strides in bytes.
struct TensorMap {
  size_t argument;  ///< of the launch
  int element_bytes;
  std::vector<cuuint64_t> sizes, strides;
  std::vector<cuuint32_t> box;
  int swizzle;  ///< bytes
};

struct Launch {
  const char* kernel;
  unsigned grid[3];
  unsigned threads;
  unsigned shared_bytes;
  unsigned cluster;          ///< blocks
  bool overlaps_previous;    ///< starts while the launch before it still runs; the kernel waits by itself
  bool resident;             ///< all blocks must run at the same time
  std::vector<int> buffers;  ///< arguments, as numbers in kBuffers; tensor maps follow
  std::vector<TensorMap> maps;
};

)";

constexpr std::string_view kFunctions = R"(
struct Program {
  CUmodule module = nullptr;
  std::vector<CUfunction> kernels;
};

/// `cubin`: the bytes of the file for the GPU's architecture. The context in which it is used must be current.
inline CUresult load(const void* cubin, Program& program) {
  CUresult status = cuModuleLoadData(&program.module, cubin);
  for (size_t i = 0; i < kLaunches.size() && status == CUDA_SUCCESS; ++i) {
    CUfunction kernel = nullptr;
    status = cuModuleGetFunction(&kernel, program.module, kLaunches[i].kernel);
    if (status == CUDA_SUCCESS && kLaunches[i].shared_bytes > 48 << 10) {
      status = cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  static_cast<int>(kLaunches[i].shared_bytes));
    }
    program.kernels.push_back(kernel);
  }
  return status;
}

/// Puts all launches on the stream and does not wait. `memory`: one address for each of kBuffers, in that order.
inline CUresult launch(const Program& program, const CUdeviceptr* memory, CUstream stream) {
  for (size_t i = 0; i < kLaunches.size(); ++i) {
    const Launch& one = kLaunches[i];
    std::vector<CUdeviceptr> pointers;
    for (int buffer : one.buffers) pointers.push_back(memory[buffer]);
    std::vector<CUtensorMap> maps(one.maps.size());
    for (size_t n = 0; n < maps.size(); ++n) {
      const TensorMap& map = one.maps[n];
      const std::vector<cuuint32_t> steps(map.box.size(), 1);
      const CUresult status = cuTensorMapEncodeTiled(
          &maps[n], map.element_bytes == 4 ? CU_TENSOR_MAP_DATA_TYPE_UINT32 : CU_TENSOR_MAP_DATA_TYPE_UINT16,
          static_cast<cuuint32_t>(map.sizes.size()), reinterpret_cast<void*>(pointers[map.argument]), map.sizes.data(),
          map.strides.data(), map.box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
          map.swizzle == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
          : map.swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
          : map.swizzle == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                              : CU_TENSOR_MAP_SWIZZLE_NONE,
          CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
      if (status != CUDA_SUCCESS) return status;
    }
    std::vector<void*> arguments;
    for (CUdeviceptr& pointer : pointers) arguments.push_back(&pointer);
    for (CUtensorMap& map : maps) arguments.push_back(&map);
    CUlaunchAttribute attributes[3] = {};
    CUlaunchConfig config = {};
    config.gridDimX = one.grid[0], config.gridDimY = one.grid[1], config.gridDimZ = one.grid[2];
    config.blockDimX = one.threads, config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = one.shared_bytes;
    config.hStream = stream;
    config.attrs = attributes;
    if (one.cluster > 1) {
      CUlaunchAttribute& attribute = attributes[config.numAttrs++];
      attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attribute.value.clusterDim.x = one.cluster;
      attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    }
    if (one.resident) {
      CUlaunchAttribute& attribute = attributes[config.numAttrs++];
      attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
      attribute.value.cooperative = 1;
    }
    if (one.overlaps_previous) {
      CUlaunchAttribute& attribute = attributes[config.numAttrs++];
      attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      attribute.value.programmaticStreamSerializationAllowed = 1;
    }
    const CUresult status = cuLaunchKernelEx(&config, program.kernels[i], arguments.data(), nullptr);
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

// The rest is for trying it.

static void check(CUresult status, const std::string& what) {
  if (status == CUDA_SUCCESS) return;
  const char* text = nullptr;
  cuGetErrorString(status, &text);
  std::fprintf(stderr, "%s: %s\n", what.c_str(), text != nullptr ? text : "unknown error");
  std::exit(1);
}

static std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) check(CUDA_ERROR_FILE_NOT_FOUND, path);
  return {std::istreambuf_iterator<char>(file), {}};
}

int main(int count, char** words) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s CUBIN [INPUT.raw ...]\n", words[0]);
    return 2;
  }
  CUdevice device = 0;
  CUcontext context = nullptr;
  check(cuInit(0), "starting the CUDA driver");
  check(cuDeviceGet(&device, 0), "no GPU");
  check(cuDevicePrimaryCtxRetain(&context, device), "making a context");
  check(cuCtxSetCurrent(context), "using the context");
  const std::string cubin = read_file(words[1]);
  Program program;
  check(load(cubin.data(), program), std::string("loading ") + words[1]);

  CUdeviceptr working = 0;
  if (kWorkingBytes > 0) check(cuMemAlloc(&working, kWorkingBytes), "working memory");
  std::vector<CUdeviceptr> memory;
  std::mt19937_64 random(1);
  int file = 2;
  for (const Buffer& buffer : kBuffers) {
    if (buffer.offset >= 0) {
      memory.push_back(working + static_cast<CUdeviceptr>(buffer.offset));
      continue;
    }
    CUdeviceptr at = 0;
    check(cuMemAlloc(&at, buffer.bytes), std::string("memory for ") + buffer.name);
    check(cuMemsetD8(at, 0, buffer.bytes), "clearing memory");
    memory.push_back(at);
    if (buffer.role != Role::Input) continue;
    std::string bytes(buffer.bytes, '\0');
    if (file < count) {
      bytes = read_file(words[file++]);
    } else {
      // Small numbers in every type: the upper bits of an exponent stay 0.
      for (char& byte : bytes) byte = static_cast<char>(random() & 0x3b);
    }
    if (bytes.size() != buffer.bytes) {
      std::fprintf(stderr, "%s is %s, which has %zu bytes; the file has %zu\n", buffer.name, buffer.type, buffer.bytes,
                   bytes.size());
      return 1;
    }
    check(cuMemcpyHtoD(at, bytes.data(), bytes.size()), "copying an input");
  }
  check(launch(program, memory.data(), nullptr), "launching");
  check(cuCtxSynchronize(), "running the kernels");
  for (size_t i = 0; i < kBuffers.size(); ++i) {
    if (kBuffers[i].role != Role::Output) continue;
    std::string bytes(kBuffers[i].bytes, '\0');
    check(cuMemcpyDtoH(&bytes[0], memory[i], bytes.size()), "copying an output");
    const std::string path = std::string(kBuffers[i].name) + ".raw";
    std::ofstream(path, std::ios::binary) << bytes;
    std::printf("%s: %s\n", path.c_str(), kBuffers[i].type);
  }
  return 0;
}
)";

std::string_view role_text(BufferRole role) {
  switch (role) {
    case BufferRole::Input:
      return "Role::Input";
    case BufferRole::Intermediate:
      return "Role::Intermediate";
    case BufferRole::Counters:
      return "Role::Counters";
    case BufferRole::Output:
      return "Role::Output";
    case BufferRole::Constant:
    case BufferRole::Carried:
      break;  // a generated program has none
  }
  return "";
}

std::string map_text(const GpuTensorMap& map) {
  std::vector<int64_t> strides(map.strides.begin() + 1, map.strides.end());
  if (strides.empty()) strides.push_back(0);  // tensors of one dimension have none, but the driver wants an array
  return fmt::format("{{{}, {}, {{{}}}, {{{}}}, {{{}}}, {}}}", map.argument, map.element_bytes,
                     fmt::join(map.sizes, ", "), fmt::join(strides, ", "), fmt::join(map.box, ", "), map.swizzle);
}

}  // namespace

Result<std::string> launcher_program(const GeneratedProgram& program) {
  if (const std::string needed = needed_libraries(program); !needed.empty())
    return unsupported("launches need {}; best.launch.json describes them", needed);
  const LaunchManifest manifest = manifest_of(program, ManifestAccesses::Left);
  std::string text(kHead);
  std::map<std::string, size_t> numbers;
  text += "static const std::vector<Buffer> kBuffers = {\n";
  for (const GpuBuffer& buffer : manifest.buffers) {
    const size_t number = numbers.size();
    numbers[buffer.name] = number;
    const bool counters = buffer.role == BufferRole::Counters;
    text +=
        fmt::format("    {{\"{}\", {}, \"{}\", {}, {}}},  // {}\n", buffer.name, role_text(buffer.role),
                    counters ? "" : to_string(buffer.type), buffer.type.bytes(), buffer.offset.value_or(-1), number);
  }
  text += fmt::format("}};\nstatic const size_t kWorkingBytes = {};\n", layout_of(manifest).working_bytes);
  text += "\nstatic const std::vector<Launch> kLaunches = {\n";
  for (const GpuStep& step : manifest.steps) {
    const GpuLaunch& launch = *step.launch();
    std::vector<size_t> arguments;
    for (const std::string& name : launch.arguments) arguments.push_back(numbers.at(name));
    std::vector<std::string> maps;
    for (const GpuTensorMap& map : launch.tensor_maps) maps.push_back("\n      " + map_text(map));
    text += fmt::format("    {{\"{}\", {{{}}}, {}, {}, {}, {}, {}, {{{}}}, {{{}}}}},\n", launch.kernel,
                        fmt::join(launch.grid, ", "), launch.threads, launch.shared_bytes, launch.cluster,
                        launch.overlaps_previous, launch.resident, fmt::join(arguments, ", "), fmt::join(maps, ","));
  }
  return text + "};\n" + std::string(kFunctions);
}

std::string annotated_source(const GeneratedProgram& program, const Graph& graph, const Target& target) {
  const std::string& source = program.source;
  std::string text = fmt::format("// '{}' for {}, generated by Strata. Launch, in this order and on one stream:\n//\n",
                                 graph.name(), target.name);
  for (const KernelLaunch& launch : program.launches) {
    if (launch.library) {
      text += fmt::format("//   {}: {}, not in this file\n", launch.kernel, describe(*launch.library));
    } else {
      text +=
          fmt::format("//   {}({})  grid {}, {} threads, {} bytes of shared memory{}\n", launch.kernel,
                      fmt::join(launch.arguments, ", "), fmt::join(launch.grid, " x "), launch.threads,
                      launch.shared_bytes, launch.cluster > 1 ? fmt::format(", clusters of {}", launch.cluster) : "");
    }
  }
  const auto lines = [](std::string_view part) { return std::count(part.begin(), part.end(), '\n'); };
  const std::string rest =
      "//\n"
      "// Arguments are device pointers; TMA's tensor maps follow them where a kernel has any. best.launch.json has "
      "all\n"
      "// launches and buffers for programs to read, best.launch.cpp a program that loads a cubin and launches them.\n"
      "// Compile this file with NVRTC or with nvcc -cubin.\n";
  const auto begin = std::min(source.find(kProgramBegins), source.size());
  const auto before = lines(text) + lines(rest) + 2;  // and this line and an empty one
  const auto first = before + lines(std::string_view(source).substr(0, begin)) + 1;
  text +=
      rest +
      fmt::format("// The device library takes lines {} to {}; the program, its kernels last, begins in line {}.\n\n",
                  before + 1, first - 1, first);
  return text + source;
}

}  // namespace strata
