// What libraries without a GPU share: elements in memory, and work on the stream of fake_cuda, computed on the host.
#pragma once

#include <dlfcn.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda_driver.h"
#include "runtime/storage.h"
#include "support/half.h"

namespace strata::fake {

template <class Stored>
Stored element(const char* memory, int64_t i) {
  Stored value;
  std::memcpy(&value, memory + static_cast<size_t>(i) * sizeof value, sizeof value);
  return value;
}

inline double load(const char* memory, DType type, int64_t i) {
  switch (type) {
    case DType::F16:
      return half_to_double(element<uint16_t>(memory, i));
    case DType::BF16:
      return std::bit_cast<float>(static_cast<uint32_t>(element<uint16_t>(memory, i)) << 16);
    case DType::F32:
      return element<float>(memory, i);
    case DType::F64:
      return element<double>(memory, i);
  }
  return 0;
}

inline void store(char* memory, DType type, int64_t i, double value) {
  const std::string bytes = encode(Tensor<double>({1}, {value}), type);
  std::memcpy(memory + static_cast<size_t>(i) * bytes.size(), bytes.data(), bytes.size());
}

/// The fake driver, which is open already.
template <class Function>
Function driver_function(const char* name) {
  void* driver = dlopen(std::getenv("STRATA_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function>(dlsym(driver, name));
}

/// Puts work that takes so many microseconds on the stream. It is kept as long as the process: a graph may run it
/// again.
inline int enqueue(CudaStream stream, double us, std::function<void()> work) {
  struct Kept {
    double us;
    std::function<void()> work;
  };
  static std::vector<std::unique_ptr<Kept>> kept;
  kept.push_back(std::make_unique<Kept>(Kept{us, std::move(work)}));
  const auto run = [](void* argument) {
    const auto* one = static_cast<const Kept*>(argument);
    one->work();
    static const auto spend = driver_function<void (*)(double)>("fakeCudaSpend");
    spend(one->us);
  };
  static const auto launch = driver_function<int (*)(CudaStream, void (*)(void*), void*)>("cuLaunchHostFunc");
  return launch(stream, run, kept.back().get());
}

}  // namespace strata::fake
