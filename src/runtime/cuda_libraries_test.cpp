#include "runtime/cuda_libraries.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

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
  setenv("STRATA_CUFFT", STRATA_BINARY_DIR "/lib/libfake_cufft.so", 1);
  setenv("STRATA_CUSOLVER", STRATA_BINARY_DIR "/lib/libfake_cusolver.so", 1);
  setenv("STRATA_CUBLAS", "/nowhere/libcublas.so", 1);
  const auto probes = probe_cuda_libraries();
  unsetenv("STRATA_CUFFT");
  unsetenv("STRATA_CUSOLVER");
  unsetenv("STRATA_CUBLAS");
  unsetenv("STRATA_CUBLAS_LT");
  unsetenv("STRATA_CUDNN");
  ASSERT_EQ(probes.size(), 7U);
  EXPECT_EQ(probes[1].name, "nvJitLink");
  EXPECT_EQ(probes[1].missing, "");
  EXPECT_EQ(probes[2].version, "13.1.0");
  EXPECT_EQ(probes[4].version, "12.0.0");
  EXPECT_EQ(probes[5].version, "12.0.0");
  EXPECT_EQ(probes[6].missing, "cuBLAS (/nowhere/libcublas.so) cannot be loaded");
  EXPECT_EQ(probes[3].missing, "cuDNN (/nowhere/libcudnn.so) cannot be loaded");
  EXPECT_EQ(describe({{"A", "1.2", ""}, {"B", "", "B is gone"}, {"C", "3", ""}, {"D", "", "D is lost"}}),
            "A 1.2, C 3; missing: B is gone; D is lost");
  EXPECT_EQ(describe({{"A", "1.2", ""}}), "A 1.2");
  EXPECT_EQ(describe({{"B", "", "B is gone"}}), "missing: B is gone");
}

/// A variable of the environment with another value, or none, for a while.
class Variable {
 public:
  Variable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = std::getenv(name); before != nullptr) before_ = before;
    set(value);
  }
  ~Variable() { set(before_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const std::optional<std::string>& value) { value ? setenv(name_, value->c_str(), 1) : unsetenv(name_); }

  const char* name_;
  std::optional<std::string> before_;
};

std::vector<fs::path> folders(const std::vector<CudaRoot>& roots) {
  std::vector<fs::path> all;
  for (const CudaRoot& root : roots) all.push_back(root.folder);
  return all;
}

/// An environment with cuDNN's package; where the package lies.
fs::path plant_packages(const fs::path& environment) {
  const fs::path root = environment / "lib" / "python3.12" / "site-packages" / "nvidia" / "cudnn";
  fs::create_directories(root / "lib");
  return root;
}

TEST(CudaLibraries, PackagesOfAPythonEnvironmentAreRoots) {
  const TemporaryFolder folder("strata-venv");
  const fs::path cudnn = plant_packages(folder.path());
  fs::create_directories(folder.path() / "bin");
  std::ofstream(folder.path() / "bin" / "python3") << "";
  const Variable no_environment("VIRTUAL_ENV", std::nullopt);
  {
    const Variable active("VIRTUAL_ENV", folder.path().string());
    EXPECT_THAT(folders(cuda_roots()), Contains(cudnn));
  }
  {
    const Variable path("PATH", "/nowhere::" + (folder.path() / "bin").string());
    EXPECT_THAT(folders(cuda_roots()), Contains(cudnn));
  }
  const Variable path("PATH", "/nowhere");
  EXPECT_THAT(folders(cuda_roots()), Not(Contains(cudnn)));
}

TEST(CudaLibraries, WhereTheUserStandsDoesNotMatter) {
  const TemporaryFolder folder("strata-planted");
  plant_packages(folder.path() / ".venv");
  plant_packages(folder.path());
  fs::create_directories(folder.path() / "bin");
  std::ofstream(folder.path() / "bin" / "python3") << "";
  fs::create_directories(folder.path() / "work");
  const fs::path before = fs::current_path();
  const Variable relative_path("PATH", ":.:bin:../bin");
  const Variable relative_environment("VIRTUAL_ENV", ".");
  const Variable relative_root("STRATA_CUDA_ROOT", "lib/python3.12/site-packages/nvidia/cudnn");
  for (const fs::path& at : {folder.path(), folder.path() / "work"}) {
    fs::current_path(at);
    const auto roots = folders(cuda_roots());
    fs::current_path(before);
    for (const fs::path& root : roots) {
      EXPECT_TRUE(root.is_absolute()) << root;
      EXPECT_THAT(root.string(), Not(StartsWith(folder.path().string())));
    }
  }
}

TEST(CudaLibraries, OfTheExecutableItsPrefixAndTheBuildTree) {
  const TemporaryFolder folder("strata-prefix");
  const fs::path& base = folder.path();
  const fs::path in_prefix = plant_packages(base / "build" / "release");
  const fs::path in_checkout = plant_packages(base / ".venv");
  EXPECT_THAT(folders(roots_of_own_file(base / "build" / "release" / "bin" / "strata")),
              testing::ElementsAre(in_prefix, in_checkout));
  for (const CudaRoot& root : roots_of_own_file(base / "build" / "release" / "bin" / "strata")) EXPECT_TRUE(root.own);
  // An installed program looks in no folder above its prefix.
  plant_packages(base / "usr" / ".venv");
  plant_packages(base / "usr" / "bin" / ".venv");
  EXPECT_THAT(folders(roots_of_own_file(base / "usr" / "bin" / "strata")), testing::IsEmpty());
  EXPECT_THAT(folders(roots_of_own_file(base / "other" / "release" / "bin" / "strata")), testing::IsEmpty());
  EXPECT_THAT(folders(roots_of_own_file("build/release/bin/strata")), testing::IsEmpty());
}

TEST(CudaLibraries, ARelativePathInAVariableIsNotOpened) {
  const Variable variable("STRATA_CUDNN", "lib/libfake_cudnn.so");
  const auto opened =
      open_cuda_library({.name = "cuDNN", .variable = "STRATA_CUDNN", .files = {"libcudnn.so.9"}, .remedy = "get it"});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().message, "cuDNN (lib/libfake_cudnn.so) is not opened: its path is relative");
  EXPECT_EQ(opened.error().remedy, "let STRATA_CUDNN be an absolute path");
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
