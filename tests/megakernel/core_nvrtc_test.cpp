// The mega-kernel's device code (src/megakernel/runtime) is what NVRTC compiles, with the block functions of the tests
// on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "megakernel/runtime/cuda/source.h"
#include "support/test_rounds.h"

namespace strata {

std::string_view megakernel_test_text();  // the GPU tests' block functions, which CMake embeds

namespace {

using ::testing::HasSubstr;

/// A worker's block has 320 threads, and so 200 of a multiprocessor's 65,536 registers each.
TEST(Core, CompilesUnderNvrtcWithoutSpills) {
  for (const Target& target : targets()) {
    for (const bool profile : {false, true}) {
      // Profiles are the same code on every target but for what is around it.
      if (profile && rounds(2) != 2 && &target != &default_target()) continue;
      SCOPED_TRACE(fmt::format("{}, profile {}", target.name, profile));
      const auto code = megakernel::compile_cuda_code(megakernel_test_text(), target, profile);
      ASSERT_TRUE(code) << code.error().to_string();
      EXPECT_EQ(code->profile, profile);
      EXPECT_GT(code->cubin.size(), 1000u);
      EXPECT_GT(code->use.registers, 16);
      EXPECT_LE(code->use.registers, 200);
      EXPECT_EQ(code->use.stack_bytes, 0);
      EXPECT_EQ(code->use.spilled_bytes, 0);
    }
  }
}

constexpr const char* kNoLoads =
    "namespace strata::megakernel { STRATA_DEVICE void load_task(const Descriptor&, CudaLoad&) {} }\n";

TEST(Core, BlockFunctionsThatDoNotCompileAreRefusedWithTheirErrors) {
  const auto code = megakernel::compile_cuda_code(
      std::string(kNoLoads) +
          "namespace strata::megakernel { STRATA_DEVICE void compute_task(const Descriptor&, CudaCompute& side) "
          "{ side.unheard_of(); } }\n",
      default_target(), false);
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(code.error().message, HasSubstr("unheard_of"));
}

TEST(Core, BlockFunctionsThatSpillAreRefused) {
  const auto code = megakernel::compile_cuda_code(std::string(kNoLoads) + R"(
namespace strata::megakernel {
STRATA_DEVICE void compute_task(const Descriptor& task, CudaCompute& side) {
  volatile float* memory = static_cast<volatile float*>(task.arguments[0]);
  float values[400];
  STRATA_UNROLL
  for (int i = 0; i < 400; ++i) values[i] = memory[i];
  STRATA_UNROLL
  for (int i = 0; i < 400; ++i) memory[i] = values[399 - i] * values[i];
}
})",
                                                  default_target(), false);
  ASSERT_FALSE(code);
  EXPECT_THAT(code.error().to_string(), HasSubstr("bytes are spilled"));
}

}  // namespace
}  // namespace strata
