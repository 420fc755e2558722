// The program that is written beside best.cu: compiled and run on the fake driver, which logs what is launched.
#include "superopt/codegen/launcher.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "ir/text.h"
#include "runtime/cuda_libraries.h"
#include "runtime/test_driver.h"
#include "support/read_file.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// The folder of cuda.h, which the wheels of requirements-cuda.txt have too.
std::string cuda_headers() {
  for (const auto& [root, own] : cuda_roots()) {
    for (const char* folder : {"include", "targets/x86_64-linux/include"}) {
      if (fs::exists(root / folder / "cuda.h")) return (root / folder).string();
    }
  }
  return {};
}

/// What the fake driver logs of a launch.
std::string logged(const GpuLaunch& launch) {
  std::string line = fmt::format("{} grid {}x{}x{} threads {} shared {}", launch.kernel, launch.grid[0], launch.grid[1],
                                 launch.grid[2], launch.threads, launch.shared_bytes);
  if (launch.cluster > 1) line += fmt::format(" cluster {}", launch.cluster);
  if (launch.resident) line += " resident";
  if (launch.overlaps_previous) line += " overlaps";
  return line + "\n";
}

class Launcher : public FakeDriverTest {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  int run(const std::string& command) const {
    return std::system(fmt::format("cd {} && {} > log 2>&1", folder_.path().string(), command).c_str());
  }
  std::string log() const { return read_file(path("log")).value_or(""); }
};

TEST_F(Launcher, LaunchesWhatTheManifestSays) {
  ASSERT_NE(cuda_headers(), "");
  size_t maps = 0, overlaps = 0, launches = 0;
  for (const char* name : {"programs/lora.strata", "tests/data/rmsnorm_fused.strata",
                           "tests/data/gated_mlp_fused.strata", "programs/ntrans.strata"}) {
    const auto graph = load_graph(std::string(STRATA_SOURCE_DIR "/") + name);
    ASSERT_TRUE(graph) << graph.error().to_string();
    const auto program = generate_cuda(**graph, targets().back());
    ASSERT_TRUE(program) << program.error().to_string();
    const auto text = launcher_program(*program);
    ASSERT_TRUE(text) << text.error().to_string();
    file("best.launch.cpp", *text);
    ASSERT_EQ(run(fmt::format("c++ -std=c++17 -O0 -Wall -Wextra -Werror best.launch.cpp -isystem {} {} -o launch",
                              cuda_headers(), STRATA_BINARY_DIR "/lib/libfake_cuda.so")),
              0)
        << log() << *text;
    // As a cubin: each kernel says how it is launched, the last fills what its last argument points to.
    fs::remove(path("launched"));
    std::string expected;
    std::string cubin = fmt::format("log {}\n", path("launched"));
    for (const KernelLaunch& launch : program->launches) {
      expected += logged(launch);
      maps += launch.tensor_maps.size();
      overlaps += launch.overlaps_previous ? 1 : 0;
      ++launches;
    }
    const KernelLaunch& last = program->launches.back();
    const std::string& output = program->outputs.back().name;
    const auto argument = std::find(last.arguments.begin(), last.arguments.end(), output) - last.arguments.begin();
    ASSERT_LT(argument, std::ssize(last.arguments)) << name;
    cubin += fmt::format("kernel {}\nfill {} 77\n", last.kernel, argument);
    file("best.cubin", cubin);
    ASSERT_EQ(run("./launch best.cubin"), 0) << log();
    EXPECT_EQ(read_file(path("launched")).value_or(""), expected) << name;
    const auto bytes = static_cast<size_t>(program->outputs.back().type.bytes());
    EXPECT_TRUE(read_file(path(output + ".raw")).value_or("") == std::string(bytes, 77)) << name;
    // Inputs are files of their size.
    file("short.raw", "x");
    EXPECT_NE(run("./launch best.cubin short.raw"), 0);
    EXPECT_NE(log().find("; the file has 1"), std::string::npos) << log();
    EXPECT_NE(run("./launch"), 0);
    EXPECT_NE(run("./launch nowhere.cubin"), 0);
  }
  EXPECT_GT(launches, 10U);
  EXPECT_GT(maps, 0U);
  EXPECT_GT(overlaps, 0U);
}

TEST_F(Launcher, SourcesSayWhatToCallAndWhere) {
  const auto graph = load_graph(STRATA_SOURCE_DIR "/tests/data/rmsnorm_fused.strata");
  ASSERT_TRUE(graph) << graph.error().to_string();
  const auto program = generate_cuda(**graph, targets().back());
  ASSERT_TRUE(program) << program.error().to_string();
  const std::string text = annotated_source(*program, **graph, targets().back());
  EXPECT_TRUE(text.ends_with(program->source));
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  const KernelLaunch& launch = program->launches.front();
  const std::string head = text.substr(0, text.size() - program->source.size());
  EXPECT_LE(std::count(head.begin(), head.end(), '\n'), 15);
  EXPECT_NE(head.find(fmt::format("{}({})", launch.kernel, fmt::join(launch.arguments, ", "))), std::string::npos)
      << head;
  EXPECT_NE(head.find("sm_90a"), std::string::npos) << head;
  const size_t at = head.find("begins in line ");
  ASSERT_NE(at, std::string::npos) << head;
  const size_t line = std::stoul(head.substr(at + 15));
  ASSERT_LE(line, lines.size());
  EXPECT_EQ(lines[line - 1], "// The program:");
  const size_t from = head.find("takes lines ");
  ASSERT_NE(from, std::string::npos) << head;
  const size_t library = std::stoul(head.substr(from + 12));
  EXPECT_EQ(lines[library - 2], "");
  EXPECT_EQ(lines[library - 1], program->source.substr(0, program->source.find('\n')));
}

}  // namespace
}  // namespace strata
