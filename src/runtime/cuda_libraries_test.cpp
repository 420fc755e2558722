#include "runtime/cuda_libraries.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/cublas_lt.h"
#include "runtime/nv_jit_link.h"
#include "support/temporary_folder.h"
#include "test_paths.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kPtx = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry store_seven(.param .u64 place) {
  .reg .u64 %rd<3>;
  .reg .u32 %r<2>;
  ld.param.u64 %rd1, [place];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, 7;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

TEST(NvJitLink, LinksPtxToCubins) {
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const auto cubin = link_ptx(kPtx, arch);
    ASSERT_TRUE(cubin) << cubin.error().to_string();
    const std::string text(cubin->begin(), cubin->end());
    EXPECT_THAT(text, StartsWith("\x7f"
                                 "ELF"));
    EXPECT_THAT(text, HasSubstr("store_seven"));
  }
}

TEST(NvJitLink, MistakesAreErrorsWithItsLog) {
  const auto cubin = link_ptx(".version 8.0\n.target sm_80\n.address_size 64\nnonsense\n", "sm_80");
  ASSERT_FALSE(cubin);
  EXPECT_EQ(cubin.error().code, ErrorCode::Unsupported);
  EXPECT_THAT(cubin.error().message, HasSubstr("nonsense"));
  const auto other = link_ptx(kPtx, "sm_1");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("sm_1"));
}

TEST(CudaLibraries, EachIsThereOrSaysWhyNot) {
  setenv("STRATA_CUBLAS_LT", STRATA_BINARY_DIR "/lib/libfake_cublas_lt.so", 1);
  setenv("STRATA_CUDNN", "/nowhere/libcudnn.so", 1);
  const auto probes = probe_cuda_libraries();
  unsetenv("STRATA_CUBLAS_LT");
  unsetenv("STRATA_CUDNN");
  ASSERT_EQ(probes.size(), 4U);
  EXPECT_EQ(probes[1].name, "nvJitLink");
  EXPECT_EQ(probes[1].missing, "");
  EXPECT_EQ(probes[2].version, "13.1.0");
  EXPECT_EQ(probes[3].missing, "cuDNN (/nowhere/libcudnn.so) cannot be loaded");
  EXPECT_EQ(describe({{"A", "1.2", ""}, {"B", "", "B is gone"}, {"C", "3", ""}, {"D", "", "D is lost"}}),
            "A 1.2, C 3; missing: B is gone; D is lost");
  EXPECT_EQ(describe({{"A", "1.2", ""}}), "A 1.2");
  EXPECT_EQ(describe({{"B", "", "B is gone"}}), "missing: B is gone");
}

TEST(CudaLibraries, PackagesOfAPythonEnvironmentAreRoots) {
  const TemporaryFolder folder("strata-venv");
  const fs::path packages = folder.path() / "lib" / "python3.12" / "site-packages" / "nvidia";
  fs::create_directories(packages / "cudnn" / "lib");
  fs::create_directories(folder.path() / "bin");
  std::ofstream(folder.path() / "bin" / "python3") << "";
  const auto roots_with = [](const char* variable, const std::string& value) {
    const char* before = std::getenv(variable);
    const std::string kept = before == nullptr ? "" : before;
    setenv(variable, value.c_str(), 1);
    const auto roots = cuda_roots();
    before == nullptr ? unsetenv(variable) : setenv(variable, kept.c_str(), 1);
    return roots;
  };
  const char* active = std::getenv("VIRTUAL_ENV");
  const std::string kept = active == nullptr ? "" : active;
  EXPECT_THAT(roots_with("VIRTUAL_ENV", folder.path().string()), Contains(packages / "cudnn"));
  unsetenv("VIRTUAL_ENV");
  EXPECT_THAT(roots_with("PATH", "/nowhere::" + (folder.path() / "bin").string()), Contains(packages / "cudnn"));
  EXPECT_THAT(roots_with("PATH", "/nowhere"), Not(Contains(packages / "cudnn")));
  if (active != nullptr) setenv("VIRTUAL_ENV", kept.c_str(), 1);
  EXPECT_THAT(cuda_roots(), Not(Contains(packages / "cudnn")));
}

TEST(CudaLibraries, WhatIsNowhereIsMissingWithARemedy) {
  const CudaLibraryFiles files{"a library", "STRATA_NO_SUCH_VARIABLE", {"libno_such_library.so.1"}, "get it"};
  const auto opened = open_cuda_library(files);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().message, "a library (libno_such_library.so.1) was not found");
  EXPECT_EQ(opened.error().remedy, "get it");
}

}  // namespace
}  // namespace strata
