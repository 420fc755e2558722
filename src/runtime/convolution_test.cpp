#include "runtime/convolution.h"

#include <gmock/gmock.h>

#include <array>
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
  manifest.buffers = {{"X", BufferRole::Input, TensorType{c.type, c.images_shape()}},
                      {"W", BufferRole::Input, TensorType{c.type, c.filters_shape()}},
                      {"Y", BufferRole::Output, TensorType{c.type, c.result_shape()}}};
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

/// What Convolution's comment says, of tensors that lie as it says.
Tensor<double> expected_of(const Convolution& c, const Tensor<double>& x, const Tensor<double>& w) {
  // With two spatial dimensions the third, the outermost, is one of one element.
  std::vector<ConvolutionDimension> d = c.spatial;
  if (d.size() == 2) d.insert(d.begin(), ConvolutionDimension{});
  const auto place = [&](int64_t outer, int64_t channel, int64_t channels, std::array<int64_t, 3> at,
                         std::array<int64_t, 3> sizes) {
    const int64_t inner = (at[0] * sizes[1] + at[1]) * sizes[2] + at[2], all = sizes[0] * sizes[1] * sizes[2];
    return static_cast<size_t>(c.channels_last ? (outer * all + inner) * channels + channel
                                               : (outer * channels + channel) * all + inner);
  };
  const std::array<int64_t, 3> results{d[0].result(), d[1].result(), d[2].result()};
  const std::array<int64_t, 3> sizes{d[0].size, d[1].size, d[2].size};
  const std::array<int64_t, 3> filters{d[0].filter, d[1].filter, d[2].filter};
  const int64_t positions = results[0] * results[1] * results[2], elements = filters[0] * filters[1] * filters[2];
  const auto at = [](int64_t i, const std::array<int64_t, 3>& of) {
    return std::array<int64_t, 3>{i / (of[1] * of[2]), i / of[2] % of[1], i % of[2]};
  };
  const int64_t group = c.channels / c.groups;
  Tensor<double> y(c.result_shape());
  for (int64_t result = 0; result < c.images * c.filters * positions; ++result) {
    const int64_t n = result / (c.filters * positions), o = result / positions % c.filters;
    const std::array<int64_t, 3> position = at(result % positions, results);
    double& sum = y.data[place(n, o, c.filters, position, results)];
    for (int64_t term = 0; term < group * elements; ++term) {
      const std::array<int64_t, 3> element = at(term % elements, filters);
      std::array<int64_t, 3> from{};
      bool inside = true;
      for (size_t i = 0; i < 3; ++i) {
        from[i] = position[i] * d[i].stride + element[i] * d[i].dilation - d[i].padding;
        inside = inside && from[i] >= 0 && from[i] < sizes[i];
      }
      if (!inside) continue;
      const int64_t channel = o / (c.filters / c.groups) * group + term / elements;
      sum += x.data[place(n, channel, c.channels, from, sizes)] *
             w.data[place(o, term / elements, group, element, filters)];
    }
  }
  return y;
}

class ConvolutionTest : public FakeGpuTest {
 protected:
  void SetUp() override {
    FakeGpuTest::SetUp();
    std::tie(c_.images, c_.channels, c_.filters) = std::tuple(2, 3, 4);
    c_.spatial = {{.size = 7, .filter = 3}, {.size = 5, .filter = 2}};
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
  Convolution c_;
};

TEST_F(ConvolutionTest, TypesStridesAndPaddings) {
  for (const DType type : {DType::F16, DType::BF16, DType::F32}) {
    for (const int64_t stride : {1, 2}) {
      for (const int64_t padding : {0, 1}) {
        c_.type = type;
        for (ConvolutionDimension& each : c_.spatial) std::tie(each.stride, each.padding) = std::tie(stride, padding);
        EXPECT_LT(error(), tolerance(type)) << describe(c_);
      }
    }
  }
  EXPECT_EQ(describe(c_), "f32 2×3×7×5 by 4×3×3×2, stride 2, padding 1, algorithm 0");
}

TEST_F(ConvolutionTest, DimensionsThatDiffer) {
  c_.type = DType::F32;
  c_.spatial = {{.size = 9, .filter = 3, .stride = 2, .padding = 1}, {.size = 8, .filter = 2, .dilation = 3}};
  EXPECT_LT(error(), tolerance(c_.type)) << describe(c_);
  EXPECT_EQ(describe(c_), "f32 2×3×9×8 by 4×3×3×2, stride 2×1, padding 1×0, dilation 1×3, algorithm 0");
}

TEST_F(ConvolutionTest, ThreeSpatialDimensions) {
  c_.spatial = {
      {.size = 5, .filter = 3, .padding = 1}, {.size = 7, .filter = 2, .stride = 2}, {.size = 6, .filter = 3}};
  for (const DType type : {DType::F16, DType::BF16, DType::F32}) {
    for (const bool last : {false, true}) {
      std::tie(c_.type, c_.channels_last) = std::tie(type, last);
      EXPECT_LT(error(), tolerance(type)) << describe(c_);
    }
  }
  std::tie(c_.channels, c_.groups) = std::tuple(6, 2);
  EXPECT_LT(error(), tolerance(c_.type)) << describe(c_);
  EXPECT_EQ(describe(c_),
            "f32 2×6×5×7×6 by 4×3×3×2×3, stride 1×2×1, padding 1×0×0, 2 groups, channels last, algorithm 0");
}

TEST_F(ConvolutionTest, AlgorithmsAreCountedWithoutThoseThatRoundMore) {
  // In the order of the heuristic, fallbacks after it.
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
  // Where float32 may be that, they are allowed, and those that round more are not.
  c_.tf32 = true;
  EXPECT_NEAR(time(), 7, 1e-3);
  c_.algorithm = 3;
  EXPECT_THAT(load_error(), HasSubstr("cuDNN has 3 algorithms for f32 as tf32 2×3×7×5 by 4×3×3×2, algorithm 3"));
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
