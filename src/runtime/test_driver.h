// For tests: scripts in place of cubins, on the driver of tests/fake_cuda.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "runtime/gpu_device.h"
#include "support/temporary_folder.h"
#include "test_paths.h"

namespace strata {

/// The fake driver, cuBLASLt, cuDNN, cuFFT, cuSOLVER and cuBLAS for the time of a test, and a folder of its own.
class FakeDriverTest : public testing::Test {
 protected:
  void SetUp() override {
    use("fake_cuda");
    setenv("STRATA_CUBLAS_LT", STRATA_BINARY_DIR "/lib/libfake_cublas_lt.so", 1);
    setenv("STRATA_CUDNN", STRATA_BINARY_DIR "/lib/libfake_cudnn.so", 1);
    setenv("STRATA_CUFFT", STRATA_BINARY_DIR "/lib/libfake_cufft.so", 1);
    setenv("STRATA_CUSOLVER", STRATA_BINARY_DIR "/lib/libfake_cusolver.so", 1);
    setenv("STRATA_CUBLAS", STRATA_BINARY_DIR "/lib/libfake_cublas.so", 1);
  }
  void TearDown() override {
    for (const char* variable : {"STRATA_CUDA_DRIVER", "STRATA_FAKE_CUDA_SCRIPT", "STRATA_FAKE_CUDA_DEVICES",
                                 "STRATA_FAKE_CUDA_LOOPS", "STRATA_CUBLAS_LT", "STRATA_FAKE_CUBLAS_LT", "STRATA_CUDNN",
                                 "STRATA_FAKE_CUDNN", "STRATA_CUFFT", "STRATA_CUSOLVER", "STRATA_CUBLAS"})
      unsetenv(variable);
  }
  static void use(const std::string& library) {
    setenv("STRATA_CUDA_DRIVER", (std::string(STRATA_BINARY_DIR "/lib/lib") + library + ".so").c_str(), 1);
  }
  /// Writes a file of the test's folder; its path.
  std::string file(const std::string& name, const std::string& contents) const {
    const std::string path = (folder_.path() / name).string();
    std::ofstream(path, std::ios::binary) << contents;
    return path;
  }

  TemporaryFolder folder_{"strata-fake"};
};

/// The same with its first device open.
class FakeGpuTest : public FakeDriverTest {
 protected:
  void SetUp() override {
    FakeDriverTest::SetUp();
    auto device = GpuDevice::open();
    ASSERT_TRUE(device) << device.error().to_string();
    device_ = std::move(*device);
  }

  template <class Number>
  GpuMemory on_device(const std::vector<Number>& values) {
    auto memory = GpuMemory::allocate(*device_, std::ssize(values) * static_cast<int64_t>(sizeof(Number)));
    EXPECT_TRUE(memory &&
                memory->upload({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number)}));
    return *std::move(memory);
  }
  template <class Number>
  static std::vector<Number> from_device(const GpuArray& array) {
    std::vector<Number> values(static_cast<size_t>(array.bytes()) / sizeof(Number));
    EXPECT_TRUE(array.download(values.data()));
    return values;
  }

  std::unique_ptr<GpuDevice> device_;
};

}  // namespace strata
