// The part of the CUDA driver's interface that Strata uses, opened at run time: neither headers nor a toolkit are
// needed to build, and Strata starts where there is no GPU. Types are laid out as the driver's own header has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "support/error.h"

namespace strata {

using CudaDevice = int;
using CudaPointer = unsigned long long;
using CudaContext = struct CudaContextTag*;
using CudaModule = struct CudaModuleTag*;
using CudaFunction = struct CudaFunctionTag*;
using CudaStream = struct CudaStreamTag*;
using CudaEvent = struct CudaEventTag*;
using CudaGraph = struct CudaGraphTag*;
using CudaGraphExec = struct CudaGraphExecTag*;

struct CudaLaunchAttribute {
  static constexpr int kCooperative = 2;       ///< all blocks run at the same time, or none does; value: 1
  static constexpr int kClusterDimension = 4;  ///< value: three sizes
  static constexpr int kOverlapsPrevious = 6;  ///< "programmatic stream serialization"; value: 1
  int id = 0;
  int padding = 0;
  std::array<unsigned, 16> value{};
};

struct CudaLaunchConfig {
  std::array<unsigned, 3> grid{1, 1, 1};
  std::array<unsigned, 3> block{1, 1, 1};
  unsigned shared_bytes = 0;
  CudaStream stream = nullptr;
  CudaLaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

static_assert(sizeof(CudaLaunchAttribute) == 72 && offsetof(CudaLaunchAttribute, value) == 8);
static_assert(sizeof(CudaLaunchConfig) == 56 && offsetof(CudaLaunchConfig, stream) == 32);

/// What a kernel's parameter of type CUtensorMap holds.
struct alignas(64) CudaTensorMap {
  std::array<uint64_t, 16> words{};
};

/// Functions return 0, or an error that check() names.
struct CudaDriver {
  // Of cuDeviceGetAttribute and cuFuncSetAttribute.
  static constexpr int kMultiprocessors = 16;
  static constexpr int kL2CacheBytes = 38;
  static constexpr int kCapabilityMajor = 75;
  static constexpr int kCapabilityMinor = 76;
  static constexpr int kCooperativeLaunch = 95;
  static constexpr int kMostSharedBytes = 97;  ///< that a block may use
  static constexpr int kMostDynamicSharedBytes = 8;
  // Of cuFuncGetAttribute: of a thread.
  static constexpr int kLocalBytes = 3;
  static constexpr int kRegisters = 4;
  // Of cuMemHostAlloc.
  static constexpr unsigned kMapped = 2;
  // What cuStreamQuery returns while something runs.
  static constexpr int kNotReady = 600;
  // Of cuTensorMapEncodeTiled: elements of 2 and of 4 bytes; lines of 256 bytes are brought to the L2 cache.
  static constexpr int kElements16 = 1;
  static constexpr int kElements32 = 2;
  static constexpr int kPromote256 = 3;
  // Of cuStreamCreate and cuStreamBeginCapture.
  static constexpr unsigned kNonBlocking = 1;
  static constexpr int kCaptureThreadLocal = 1;

  int (*init)(unsigned);
  int (*driver_version)(int*);
  int (*error_name)(int, const char**);
  int (*error_text)(int, const char**);
  int (*device_get)(CudaDevice*, int);
  int (*device_name)(char*, int, CudaDevice);
  int (*device_attribute)(int*, int, CudaDevice);
  int (*context_retain)(CudaContext*, CudaDevice);
  int (*context_release)(CudaDevice);
  int (*context_use)(CudaContext);
  int (*memory_info)(size_t*, size_t*);
  int (*allocate)(CudaPointer*, size_t);
  int (*release)(CudaPointer);
  int (*copy_to_device)(CudaPointer, const void*, size_t);
  int (*copy_to_host)(void*, CudaPointer, size_t);
  int (*copy_on_device)(CudaPointer, CudaPointer, size_t);
  int (*allocate_host)(void**, size_t, unsigned);  ///< pinned; the device has it at the same address
  int (*release_host)(void*);
  int (*copy_to_device_later)(CudaPointer, const void*, size_t, CudaStream);
  int (*copy_to_host_later)(void*, CudaPointer, size_t, CudaStream);
  int (*fill)(CudaPointer, unsigned char, size_t);
  int (*copy_on_device_later)(CudaPointer, CudaPointer, size_t, CudaStream);
  int (*fill_bytes_later)(CudaPointer, unsigned char, size_t, CudaStream);
  int (*fill_halves_later)(CudaPointer, unsigned short, size_t, CudaStream);
  int (*fill_words_later)(CudaPointer, unsigned, size_t, CudaStream);
  /// (to, bytes from row to row, value, words of a row, rows, stream)
  int (*fill_rows_later)(CudaPointer, size_t, unsigned, size_t, size_t, CudaStream);
  int (*load_module)(CudaModule*, const void*);
  int (*unload_module)(CudaModule);
  int (*get_function)(CudaFunction*, CudaModule, const char*);
  int (*set_function_attribute)(CudaFunction, int, int);
  int (*function_attribute)(int*, int, CudaFunction);
  /// (blocks, function, threads of a block, bytes of dynamic shared memory)
  int (*blocks_per_multiprocessor)(int*, CudaFunction, int, size_t);
  int (*launch)(const CudaLaunchConfig*, CudaFunction, void**, void**);
  /// (map, type, rank, base, sizes, strides from the second dimension on in bytes, box, steps, interleaving, swizzle,
  /// promotion, filling)
  int (*encode_tensor_map)(CudaTensorMap*, int, unsigned, void*, const uint64_t*, const uint64_t*, const uint32_t*,
                           const uint32_t*, int, int, int, int);
  int (*synchronize)();
  int (*create_stream)(CudaStream*, unsigned);
  int (*destroy_stream)(CudaStream);
  int (*query_stream)(CudaStream);
  int (*synchronize_stream)(CudaStream);
  int (*begin_capture)(CudaStream, int);
  int (*end_capture)(CudaStream, CudaGraph*);
  int (*instantiate_graph)(CudaGraphExec*, CudaGraph, unsigned long long);
  int (*launch_graph)(CudaGraphExec, CudaStream);
  int (*destroy_graph)(CudaGraph);
  int (*destroy_graph_exec)(CudaGraphExec);
  int (*create_event)(CudaEvent*, unsigned);
  int (*destroy_event)(CudaEvent);
  int (*record_event)(CudaEvent, CudaStream);
  int (*synchronize_event)(CudaEvent);
  int (*elapsed)(float*, CudaEvent, CudaEvent);  ///< milliseconds

  /// Error (Environment) "WHAT: CUDA_ERROR_…: …" unless `status` is 0.
  Result<void> check(int status, std::string_view what) const;
};

/// The driver's library: $STRATA_CUDA_DRIVER, else libcuda.so.1. Error (Environment, with a remedy) where it is missing
/// or lacks a function. It is never closed, because its threads may outlive any owner.
Result<CudaDriver> open_cuda_driver();

}  // namespace strata
