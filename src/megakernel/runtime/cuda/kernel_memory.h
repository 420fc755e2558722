// What a kernel of cuda_target.h and cuda_graph.h has of a GPU.
#pragma once

#include "megakernel/runtime/cuda/cuda_target.h"

namespace strata::megakernel {

template <class T>
CudaPointer pointer_of(T* place) {
  return reinterpret_cast<CudaPointer>(place);
}

struct CudaKernel::Memory {
  explicit Memory(const CudaDriver& of) : driver(&of) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (stream != nullptr) driver->destroy_stream(stream);
    if (copies != nullptr) driver->destroy_stream(copies);
    if (module != nullptr) driver->unload_module(module);
  }

  const CudaDriver* driver;
  CudaModule module = nullptr;
  CudaFunction function = nullptr;
  CudaStream stream = nullptr;   ///< of the kernel
  CudaStream copies = nullptr;   ///< beside it
  std::vector<GpuMemory> parts;  ///< see Part
  std::vector<PinnedMemory> pinned;

  enum Part { kConstants, kEvents, kLaunch, kProfile };
  enum PinnedPart { kWords, kMirror, kTokens };
};

}  // namespace strata::megakernel
