// Work on matrices on libraries that compute on the host: at once and in a graph, on arrays wherever they lie.
#include "runtime/matrix_solver.h"

#include <gmock/gmock.h>

#include "runtime/gpu_device.h"
#include "runtime/recorded_graph.h"
#include "runtime/test_driver.h"

namespace strata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using MatrixSolverTest = FakeGpuTest;

TEST_F(MatrixSolverTest, AGraphHoldsTheAddressesOfABatch) {
  MatrixFactor factor;
  factor.rows = factor.columns = factor.batch = 2;
  factor.together = true;
  const auto work = device_->prepare(factor);
  ASSERT_TRUE(work) << work.error().to_string();
  auto workspace = GpuMemory::allocate(*device_, (*work)->workspace_bytes());
  ASSERT_TRUE(workspace);
  // Column by column, of which the lower triangle is read; the second has no factor.
  const GpuMemory a = on_device<float>({4, 2, -1, 5, 1, 2, -1, 4});
  for (int run = 0; run < 2; ++run) {  // on other arrays each time
    const GpuMemory made = on_device<float>(std::vector<float>(8)), info = on_device<int32_t>({7, 7});
    const std::vector<CudaPointer> arguments{a.pointer(), made.pointer(), info.pointer()};
    RecordedGraph graph(device_->driver());
    ASSERT_TRUE(graph.record(device_->stream(),
                             [&] { return (*work)->run(device_->stream(), arguments, workspace->pointer()); }));
    EXPECT_THAT(from_device<int32_t>(info), ElementsAre(7, 7));
    ASSERT_TRUE(workspace->clear());
    ASSERT_TRUE(graph.launch(device_->stream()));
    EXPECT_THAT(from_device<int32_t>(info), ElementsAre(0, 2));
    const std::vector<float> factors = from_device<float>(made);
    EXPECT_THAT(std::vector<float>(factors.begin(), factors.begin() + 4), ElementsAre(2, 1, -1, 2));
  }
}

TEST_F(MatrixSolverTest, WhatLiesThereAlreadyIsNotCopied) {
  MatrixSolve solve;
  solve.order = 2;
  solve.unit = true;
  const auto work = device_->prepare(solve);
  ASSERT_TRUE(work) << work.error().to_string();
  auto workspace = GpuMemory::allocate(*device_, (*work)->workspace_bytes());
  const GpuMemory a = on_device<float>({9, 3, 9, 9}), b = on_device<float>({1, 5}), x = on_device<float>({0, 0});
  for (const GpuMemory* to : {&x, &b}) {
    ASSERT_TRUE((*work)->run(device_->stream(), {a.pointer(), b.pointer(), to->pointer()}, workspace->pointer()));
    EXPECT_THAT(from_device<float>(*to), ElementsAre(1, 2));
    EXPECT_THAT(from_device<float>(b), to == &b ? ElementsAre(1, 2) : ElementsAre(1, 5));
  }
}

TEST_F(MatrixSolverTest, WhatIsMissingSaysSo) {
  setenv("STRATA_CUBLAS", "/nowhere/libcublas.so", 1);
  const auto work = device_->prepare(MatrixSolve{});
  ASSERT_FALSE(work);
  EXPECT_THAT(work.error().to_string(), HasSubstr("cuBLAS (/nowhere/libcublas.so) cannot be loaded"));
  setenv("STRATA_CUBLAS", STRATA_BINARY_DIR "/lib/libfake_cublas.so", 1);
  MatrixFactor factor;
  factor.rows = factor.columns = int64_t{1} << 16;
  EXPECT_THAT(device_->prepare(factor).error().message, HasSubstr("cuSOLVER has no Cholesky f32 1 of 65536"));
  factor = {};
  factor.algorithm = 1;
  EXPECT_THAT(device_->prepare(factor).error().message, HasSubstr("has 1 algorithm"));
}

}  // namespace
}  // namespace strata
