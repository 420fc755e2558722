#include "runtime/matrix_product.h"

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

/// One product as a program on buffers A, B, bias and C of these many elements.
LaunchManifest manifest_of(const MatrixProduct& product, std::array<int64_t, 3> elements) {
  LaunchManifest manifest;
  manifest.buffers = {{"A", BufferRole::Input, TensorType{product.type, {elements[0]}}},
                      {"B", BufferRole::Input, TensorType{product.type, {elements[1]}}},
                      {"bias", BufferRole::Input, TensorType{product.type, {product.n}}},
                      {"C", BufferRole::Output, TensorType{product.type, {elements[2]}}}};
  // What is added to has to be there before.
  if (product.accumulates) manifest.buffers.back().role = BufferRole::Input;
  GpuLaunch launch;
  launch.kernel = "product";
  launch.library = product;
  launch.arguments = {"A", "B"};
  if (product.bias) launch.arguments.emplace_back("bias");
  launch.arguments.emplace_back("C");
  manifest.steps = {launch};
  return manifest;
}

Tensor<double> random_tensor(int64_t count, DType type, Random& random) {
  Tensor<double> tensor({count});
  for (double& value : tensor.data) value = round_to(random.uniform(-1, 1), type);
  return tensor;
}

/// What MatrixProduct's comment says.
Tensor<double> expected_of(const MatrixProduct& p, const Tensor<double>& a, const Tensor<double>& b,
                           const Tensor<double>& bias) {
  const auto at = [](const MatrixProduct::Operand& o, int64_t batch, int64_t i, int64_t j) {
    return static_cast<size_t>(o.offset + batch * o.batch_stride +
                               (o.transposed ? j * o.leading + i : i * o.leading + j));
  };
  Tensor<double> c({p.batch * p.m * p.n});
  size_t next = 0;
  for (int64_t batch = 0; batch < p.batch; ++batch) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = p.bias ? bias.data[static_cast<size_t>(j)] : 0;
        for (int64_t k = 0; k < p.k; ++k) sum += a.data[at(p.a, batch, i, k)] * b.data[at(p.b, batch, k, j)];
        if (p.activation == Activation::Relu) sum = std::max(sum, 0.0);
        if (p.activation == Activation::Gelu)
          sum = sum / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
        c.data[next++] = sum;
      }
    }
  }
  return c;
}

class MatrixProductTest : public FakeGpuTest {
 protected:
  /// The error of a product on random matrices that are as long as their places are.
  double error(const MatrixProduct& p, int64_t a_elements, int64_t b_elements) {
    Random random(7);
    const auto a = random_tensor(a_elements, p.type, random);
    const auto b = random_tensor(b_elements, p.type, random);
    const auto bias = random_tensor(p.n, p.type, random);
    const auto program = GpuProgram::load(*device_, "", manifest_of(p, {a_elements, b_elements, p.batch * p.m * p.n}));
    EXPECT_TRUE(program) << message(program);
    if (!program) return std::nan("");
    auto buffers = (*program)->allocate();
    EXPECT_TRUE(buffers->at("A").upload(encode(a, p.type)));
    EXPECT_TRUE(buffers->at("B").upload(encode(b, p.type)));
    EXPECT_TRUE(buffers->at("bias").upload(encode(bias, p.type)));
    const auto launched = (*program)->launch(*buffers);
    EXPECT_TRUE(launched) << message(launched);
    const auto expected = expected_of(p, a, b, bias);
    return relative_error(decode(*buffers->at("C").download(), {p.type, expected.shape}), expected);
  }
};

TEST_F(MatrixProductTest, MatricesLieAsTheirPlacesSay) {
  for (const DType type : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        MatrixProduct p;
        p.type = type;
        std::tie(p.batch, p.m, p.n, p.k) = std::tuple(3, 4, 5, 6);
        // Rows are further apart than they are long, and B is one for all.
        p.a = {a_transposed, a_transposed ? 7 : 9, 60};
        p.b = {b_transposed, b_transposed ? 8 : 6, 0};
        EXPECT_LT(error(p, 180, 60), tolerance(type)) << name_of(type) << a_transposed << b_transposed;
      }
    }
  }
}

TEST_F(MatrixProductTest, MatricesBeginInsideOfTheirArguments) {
  for (const DType type : {DType::F16, DType::F32, DType::F64}) {
    MatrixProduct p;
    p.type = type;
    std::tie(p.batch, p.m, p.n, p.k) = std::tuple(2, 4, 5, 6);
    p.a = {false, 9, 60, {}, 16};
    p.b = {true, 8, 0, {}, 3};
    EXPECT_LT(error(p, 160, 63), tolerance(type)) << name_of(type);
  }
}

TEST_F(MatrixProductTest, Epilogues) {
  MatrixProduct p;
  std::tie(p.m, p.n, p.k) = std::tuple(3, 8, 4);
  p.a = {false, 4, 0};
  p.b = {false, 8, 0};
  for (const bool bias : {false, true}) {
    for (const Activation activation : {Activation::None, Activation::Relu, Activation::Gelu}) {
      p.bias = bias;
      p.activation = activation;
      EXPECT_LT(error(p, 12, 32), 5e-3) << describe(p);
    }
  }
}

TEST_F(MatrixProductTest, AddedToWhatIsThere) {
  for (const DType type : {DType::F16, DType::F64}) {
    MatrixProduct p;
    p.type = type;
    std::tie(p.m, p.n, p.k) = std::tuple(3, 8, 4);
    p.a = {false, 4, 0};
    p.b = {false, 8, 0};
    EXPECT_LT(error(p, 12, 32), tolerance(type));
    p.accumulates = true;
    EXPECT_TRUE(std::isnan(error(p, 12, 32)));  // what is there is NaN
    EXPECT_EQ(describe(p), fmt::format("{} 3×8×4 added, algorithm 0", name_of(type)));
  }
}

TEST_F(MatrixProductTest, AlgorithmsAreTimedInGraphs) {
  setenv("STRATA_FAKE_CUBLAS_LT", "5 3", 1);
  MatrixProduct p;
  std::tie(p.m, p.n, p.k) = std::tuple(2, 2, 2);
  p.a = p.b = {false, 2, 0};
  p.algorithm = 1;
  const auto program = GpuProgram::load(*device_, "", manifest_of(p, {4, 4, 4}));
  ASSERT_TRUE(program) << message(program);
  std::vector<GpuBuffers> sets;
  for (int i = 0; i < 2; ++i) sets.push_back(std::move(*(*program)->allocate()));
  EXPECT_NEAR(*(*program)->microseconds(sets), 3, 1e-3);
  p.algorithm = 2;
  EXPECT_THAT(message(GpuProgram::load(*device_, "", manifest_of(p, {4, 4, 4}))),
              HasSubstr("cuBLASLt has 2 algorithms for f16 2×2×2, algorithm 2"));
  p.algorithm = 0;
  p.a.leading = 1;  // rows overlap
  EXPECT_THAT(message(GpuProgram::load(*device_, "", manifest_of(p, {4, 4, 4}))),
              HasSubstr("cuBLASLt: CUBLAS_STATUS_NOT_SUPPORTED"));
}

TEST_F(MatrixProductTest, AMissingLibraryIsAnError) {
  setenv("STRATA_CUBLAS_LT", "/nowhere/libcublasLt.so", 1);
  MatrixProduct p;
  p.a = p.b = {false, 1, 0};
  const auto program = GpuProgram::load(*device_, "", manifest_of(p, {1, 1, 1}));
  EXPECT_THAT(message(program), HasSubstr("cuBLASLt (/nowhere/libcublasLt.so) cannot be loaded"));
  EXPECT_EQ(program.error().code, ErrorCode::Environment);
  // A library that is another one.
  setenv("STRATA_CUBLAS_LT", STRATA_BINARY_DIR "/lib/libfake_cuda.so", 1);
  EXPECT_THAT(message(GpuProgram::load(*device_, "", manifest_of(p, {1, 1, 1}))),
              HasSubstr("cuBLASLt has no function cublasLtGetVersion"));
}

}  // namespace
}  // namespace strata
