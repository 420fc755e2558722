#include "runtime/convolution.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ops/arithmetic.h"
#include "runtime/gpu_program.h"
#include "runtime/storage.h"
#include "runtime/test_driver.h"
#include "support/random.h"
#include "test_paths.h"

namespace strata {
namespace {

using testing::HasSubstr;

template <class T>
std::string message(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

LaunchManifest manifest_of(const Convolution& c) {
  LaunchManifest manifest;
  manifest.buffers = {
      {"X", BufferRole::Input, TensorType{c.type, {c.images, c.channels, c.height, c.width}}},
      {"W", BufferRole::Input, TensorType{c.type, {c.filters, c.channels, c.filter_height, c.filter_width}}},
      {"Y", BufferRole::Output, TensorType{c.type, {c.images, c.filters, c.result_height(), c.result_width()}}}};
  GpuLaunch launch;
  launch.kernel = "convolution";
  launch.library = c;
  launch.arguments = {"X", "W", "Y"};
  manifest.steps = {launch};
  return manifest;
}

Tensor<double> random_tensor(const TensorType& type, Random& random) {
  Tensor<double> tensor(type.shape);
  for (double& value : tensor.data) value = round_to(random.uniform(-1, 1), type.dtype);
  return tensor;
}

/// What conv2d's comment says.
Tensor<double> expected_of(const Convolution& c, const Tensor<double>& x, const Tensor<double>& w) {
  Tensor<double> y({c.images, c.filters, c.result_height(), c.result_width()});
  size_t next = 0;
  for (int64_t n = 0; n < c.images; ++n) {
    for (int64_t o = 0; o < c.filters; ++o) {
      for (int64_t row = 0; row < c.result_height(); ++row) {
        for (int64_t column = 0; column < c.result_width(); ++column) {
          double& sum = y.data[next++];
          for (int64_t term = 0; term < c.channels * c.filter_height * c.filter_width; ++term) {
            const int64_t at = term / c.filter_width;
            const int64_t r = row * c.stride + at % c.filter_height - c.padding;
            const int64_t s = column * c.stride + term % c.filter_width - c.padding;
            if (r < 0 || r >= c.height || s < 0 || s >= c.width) continue;
            const int64_t image = n * c.channels + at / c.filter_height;
            sum += x.data[static_cast<size_t>((image * c.height + r) * c.width + s)] *
                   w.data[static_cast<size_t>(o * c.channels * c.filter_height * c.filter_width + term)];
          }
        }
      }
    }
  }
  return y;
}

class ConvolutionTest : public FakeDriverTest {
 protected:
  void SetUp() override {
    FakeDriverTest::SetUp();
    auto device = GpuDevice::open();
    ASSERT_TRUE(device) << message(device);
    device_ = std::move(*device);
    std::tie(c_.images, c_.channels, c_.height, c_.width) = std::tuple(2, 3, 7, 5);
    std::tie(c_.filters, c_.filter_height, c_.filter_width) = std::tuple(4, 3, 2);
  }
  std::string load_error() { return message(GpuProgram::load(*device_, "", manifest_of(c_))); }
  double error() {
    Random random(7);
    const LaunchManifest manifest = manifest_of(c_);
    const auto x = random_tensor(*manifest.buffers[0].type.tensor(), random);
    const auto w = random_tensor(*manifest.buffers[1].type.tensor(), random);
    const auto program = GpuProgram::load(*device_, "", manifest);
    EXPECT_TRUE(program) << message(program);
    if (!program) return std::nan("");
    auto buffers = (*program)->allocate();
    EXPECT_TRUE(buffers->at("X").upload(encode(x, c_.type)));
    EXPECT_TRUE(buffers->at("W").upload(encode(w, c_.type)));
    const auto launched = (*program)->launch(*buffers);
    EXPECT_TRUE(launched) << message(launched);
    return relative_error(decode(*buffers->at("Y").download(), *manifest.buffers[2].type.tensor()),
                          expected_of(c_, x, w));
  }
  /// Microseconds of a run.
  double time() {
    const auto program = GpuProgram::load(*device_, "", manifest_of(c_));
    EXPECT_TRUE(program) << message(program);
    std::vector<GpuBuffers> sets;
    for (int i = 0; i < 2; ++i) sets.push_back(std::move(*(*program)->allocate()));
    return *(*program)->microseconds(sets);
  }

  std::unique_ptr<GpuDevice> device_;
  Convolution c_;
};

TEST_F(ConvolutionTest, TypesStridesAndPaddings) {
  for (const DType type : {DType::F16, DType::BF16, DType::F32}) {
    for (const int64_t stride : {1, 2}) {
      for (const int64_t padding : {0, 1}) {
        std::tie(c_.type, c_.stride, c_.padding) = std::tuple(type, stride, padding);
        EXPECT_LT(error(), tolerance(type)) << describe(c_);
      }
    }
  }
  EXPECT_EQ(describe(c_), "f32 2×3×7×5 by 4×3×3×2, stride 2, padding 1, algorithm 0");
}

TEST_F(ConvolutionTest, AlgorithmsAreCountedWithoutThoseThatRoundMore) {
  // In the order of the heuristic, fallbacks behind it.
  setenv("STRATA_FAKE_CUDNN", "9f 5d 4r 3x 2w 6 7t", 1);
  EXPECT_NEAR(time(), 6, 1e-3);
  c_.algorithm = 1;
  EXPECT_NEAR(time(), 7, 1e-3);
  c_.algorithm = 2;
  EXPECT_NEAR(time(), 9, 1e-3);
  c_.algorithm = 3;
  EXPECT_THAT(load_error(), HasSubstr("cuDNN has 3 algorithms for f16 2×3×7×5 by 4×3×3×2, algorithm 3"));
  // Tensor cores take float32 for TF32.
  std::tie(c_.type, c_.algorithm) = std::tuple(DType::F32, 1);
  EXPECT_NEAR(time(), 9, 1e-3);
  setenv("STRATA_FAKE_CUDNN", "", 1);
  c_.algorithm = 0;
  EXPECT_THAT(load_error(), HasSubstr("cuDNN has 0 algorithms"));
}

TEST_F(ConvolutionTest, AMissingLibraryIsAnError) {
  setenv("STRATA_CUDNN", "/nowhere/libcudnn.so.9", 1);
  EXPECT_EQ(load_error(), "cuDNN (/nowhere/libcudnn.so.9) cannot be loaded");
  EXPECT_EQ(GpuProgram::load(*device_, "", manifest_of(c_)).error().code, ErrorCode::Environment);
  setenv("STRATA_CUDNN", STRATA_BINARY_DIR "/lib/libfake_cuda.so", 1);
  EXPECT_EQ(load_error(), "cuDNN has no function cudnnGetVersion");
}

}  // namespace
}  // namespace strata
