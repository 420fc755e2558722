// Eigenvalues and singular values by a library that computes on the host: one by one and all in a call, and in a graph.
#include "runtime/matrix_spectrum.h"

#include <gmock/gmock.h>

#include "runtime/gpu_device.h"
#include "runtime/recorded_graph.h"
#include "runtime/test_driver.h"

namespace strata {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

using MatrixSpectrumTest = FakeGpuTest;

constexpr float kNear = 1e-5F;

TEST_F(MatrixSpectrumTest, EigenvaluesOfATriangle) {
  for (const bool upper : {false, true}) {
    const MatrixSpectrum spectrum{SpectrumKind::Eigen, {}, 2, 2, 2, SpectrumVectors::Full, upper};
    const auto work = device_->prepare(spectrum);
    ASSERT_TRUE(work) << work.error().to_string();
    auto workspace = GpuMemory::allocate(*device_, (*work)->workspace_bytes());
    ASSERT_TRUE(workspace);
    // Column by column, of which one triangle is read.
    const GpuMemory a = upper ? on_device<float>({2, 9, 1, 2, 5, 9, 0, 3}) : on_device<float>({2, 1, 9, 2, 5, 0, 9, 3});
    const GpuMemory made = on_device<float>(std::vector<float>(8)), values = on_device<float>(std::vector<float>(4));
    const GpuMemory info = on_device<int32_t>({7, 7});
    ASSERT_TRUE((*work)->run(device_->stream(), {a.pointer(), made.pointer(), values.pointer(), info.pointer()},
                             workspace->pointer()));
    EXPECT_THAT(from_device<float>(values), Pointwise(FloatNear(kNear), {1.F, 3.F, 3.F, 5.F}));
    EXPECT_THAT(from_device<int32_t>(info), ElementsAre(0, 0));
    const std::vector<float> vectors = from_device<float>(made);
    EXPECT_NEAR(vectors[0] + vectors[1], 0, kNear);  // of 1
    EXPECT_NEAR(vectors[2] - vectors[3], 0, kNear);  // of 3
    EXPECT_NEAR(vectors[2] * vectors[2], 0.5F, kNear);
    EXPECT_THAT(from_device<float>(a)[0], 2);
  }
}

TEST_F(MatrixSpectrumTest, SingularValuesOfWhatHasMoreRows) {
  for (const SpectrumVectors vectors : {SpectrumVectors::Full, SpectrumVectors::None}) {
    const MatrixSpectrum spectrum{SpectrumKind::Singular, {}, 3, 2, 2, vectors};
    SCOPED_TRACE(describe(spectrum));
    const auto work = device_->prepare(spectrum);
    ASSERT_TRUE(work) << work.error().to_string();
    auto workspace = GpuMemory::allocate(*device_, (*work)->workspace_bytes());
    ASSERT_TRUE(workspace);
    const GpuMemory a = on_device<float>({0, 0, -2, 3, 0, 0, 1, 0, 0, 0, 4, 0});
    const GpuMemory made = on_device<float>(std::vector<float>(12)), values = on_device<float>(std::vector<float>(4));
    const GpuMemory u = on_device<float>(std::vector<float>(18)), v = on_device<float>(std::vector<float>(8));
    const GpuMemory info = on_device<int32_t>({7, 7});
    std::vector<CudaPointer> arguments{a.pointer(), made.pointer(), values.pointer()};
    if (spectrum.has_factors()) arguments.insert(arguments.end(), {u.pointer(), v.pointer()});
    arguments.push_back(info.pointer());
    ASSERT_EQ(arguments.size(), spectrum.arguments());
    ASSERT_TRUE((*work)->run(device_->stream(), arguments, workspace->pointer()));
    EXPECT_THAT(from_device<float>(values), Pointwise(FloatNear(kNear), {3.F, 2.F, 4.F, 1.F}));
    EXPECT_THAT(from_device<int32_t>(info), ElementsAre(0, 0));
    if (!spectrum.has_factors()) continue;
    const std::vector<float> left = from_device<float>(u), right = from_device<float>(v);
    EXPECT_NEAR(left[0] * right[1], 1, kNear);  // 3 in the first row and the second column
    EXPECT_NEAR(left[5] * right[2], -1, kNear);
    EXPECT_NEAR(left[7] * left[7], 1, kNear);  // what no value has
    EXPECT_NEAR(left[9 + 1] * right[4 + 1], 1, kNear);
  }
}

// Diagonal matrices, of which the values are known.
TEST_F(MatrixSpectrumTest, AGraphHoldsWhatDoesNotWaitOnTheHost) {
  for (const auto& [kind, n] : {std::pair(SpectrumKind::Eigen, 32),
                                {SpectrumKind::Eigen, 33},
                                {SpectrumKind::Eigen, 513},
                                {SpectrumKind::Singular, 32}}) {
    const MatrixSpectrum spectrum{kind, {}, n, n, 2};
    SCOPED_TRACE(describe(spectrum));
    const auto work = device_->prepare(spectrum);
    ASSERT_TRUE(work) << work.error().to_string();
    auto workspace = GpuMemory::allocate(*device_, (*work)->workspace_bytes());
    const auto order = static_cast<size_t>(n);
    std::vector<float> diagonals(2 * order * order);
    for (size_t i = 0; i < order; ++i) diagonals[i * order + i] = diagonals[order * order + i * order + i] = 2;
    diagonals.back() = 5;
    const GpuMemory a = on_device(diagonals), values = on_device<float>(std::vector<float>(2 * order));
    const GpuMemory info = on_device<int32_t>({7, 7});
    const std::vector<CudaPointer> arguments{a.pointer(), a.pointer(), values.pointer(), info.pointer()};
    RecordedGraph graph(device_->driver());
    const auto recorded = graph.record(
        device_->stream(), [&] { return (*work)->run(device_->stream(), arguments, workspace->pointer()); });
    EXPECT_EQ(recorded.has_value(), !waits_on_host(spectrum));
    EXPECT_EQ(waits_on_host(spectrum), n == 513);
    if (!recorded) continue;
    ASSERT_TRUE(graph.launch(device_->stream()));
    EXPECT_THAT(from_device<int32_t>(info), ElementsAre(0, 0));
    const std::vector<float> found = from_device<float>(values);
    EXPECT_NEAR(found[0], 2, kNear);
    EXPECT_NEAR(found[kind == SpectrumKind::Eigen ? 2 * order - 1 : order], 5, kNear);
  }
}

TEST_F(MatrixSpectrumTest, WhatTheLibraryHasNotSaysSo) {
  const auto refused = [&](const MatrixSpectrum& spectrum) {
    const auto work = device_->prepare(spectrum);
    return work ? "prepared" : work.error().message;
  };
  MatrixSpectrum spectrum{SpectrumKind::Singular, {}, 31, 8, 2, SpectrumVectors::Full};
  EXPECT_EQ(refused(spectrum), "prepared");
  spectrum.vectors = SpectrumVectors::Thin;
  EXPECT_THAT(refused(spectrum), HasSubstr("cuSOLVER has no singular vectors f32 2 of 31×8"));
  spectrum.vectors = SpectrumVectors::Full;
  std::swap(spectrum.rows, spectrum.columns);
  EXPECT_THAT(refused(spectrum), HasSubstr("cuSOLVER has no singular vectors f32 2 of 8×31, full"));
  spectrum = {SpectrumKind::Singular, {}, 33, 8};
  EXPECT_THAT(refused(spectrum), HasSubstr("cuSOLVER has no singular values f32 1 of 33×8"));
  spectrum = {};
  spectrum.element.complex = true;
  EXPECT_THAT(refused(spectrum), HasSubstr("cuSOLVER has no eigenvalues c64 1 of 1×1, lower"));
  spectrum = {};
  spectrum.rows = spectrum.columns = int64_t{1} << 16;
  EXPECT_THAT(refused(spectrum), HasSubstr("cuSOLVER has no eigenvalues f32 1 of 65536"));
  spectrum = {};
  spectrum.algorithm = 1;
  EXPECT_THAT(refused(spectrum), HasSubstr("has 1 algorithm"));
  Cusolver older{};
  spectrum = {};
  EXPECT_TRUE(is_there(older, spectrum));
  spectrum.rows = spectrum.columns = 33;
  EXPECT_FALSE(is_there(older, spectrum));
}

// A workspace for so many matrices at once would be too large: there are several calls.
TEST_F(MatrixSpectrumTest, LargeBatchesAreSeveralCalls) {
  const MatrixSpectrum spectrum{SpectrumKind::Eigen, {}, 34, 34, 5};
  setenv("STRATA_FAKE_CUSOLVER_WORKSPACE", "100000000", 1);  // for each
  const auto work = device_->prepare(spectrum);
  unsetenv("STRATA_FAKE_CUSOLVER_WORKSPACE");
  ASSERT_TRUE(work) << work.error().to_string();
  EXPECT_LE((*work)->workspace_bytes(), 200000256);
  auto workspace = GpuMemory::allocate(*device_, (*work)->workspace_bytes());
  std::vector<float> matrices(5 * 34 * 34);
  for (size_t i = 0; i < 5 * 34; ++i) matrices[i * 34 + i % 34] = 1 + static_cast<float>(i / 34);
  const GpuMemory a = on_device(matrices), values = on_device<float>(std::vector<float>(5 * 34));
  const GpuMemory info = on_device<int32_t>({7, 7, 7, 7, 7});
  ASSERT_TRUE((*work)->run(device_->stream(), {a.pointer(), a.pointer(), values.pointer(), info.pointer()},
                           workspace->pointer()));
  const std::vector<float> found = from_device<float>(values);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], 1 + static_cast<float>(i / 34), kNear);
  EXPECT_THAT(from_device<int32_t>(info), ElementsAre(0, 0, 0, 0, 0));
}

TEST_F(MatrixSpectrumTest, VeryManySmallOnesAreSeveralCalls) {
  for (const SpectrumKind kind : {SpectrumKind::Eigen, SpectrumKind::Singular}) {
    const MatrixSpectrum spectrum{kind, {}, 1, 1, 40000};
    const auto work = device_->prepare(spectrum);
    ASSERT_TRUE(work) << work.error().to_string();
    auto workspace = GpuMemory::allocate(*device_, (*work)->workspace_bytes());
    std::vector<float> matrices(40000);
    for (size_t i = 0; i < matrices.size(); ++i) matrices[i] = static_cast<float>(i % 1000);
    const GpuMemory a = on_device(matrices), values = on_device<float>(std::vector<float>(matrices.size()));
    const GpuMemory info = on_device<int32_t>(std::vector<int32_t>(matrices.size(), 7));
    ASSERT_TRUE((*work)->run(device_->stream(), {a.pointer(), a.pointer(), values.pointer(), info.pointer()},
                             workspace->pointer()));
    EXPECT_THAT(from_device<float>(values), Pointwise(FloatNear(kNear), matrices));
    EXPECT_THAT(from_device<int32_t>(info), testing::Each(0));
  }
}

}  // namespace
}  // namespace strata
