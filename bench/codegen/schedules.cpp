// Compiles a µGraph, or the candidates of a program, with every schedule that the emitters offer, for a machine with a
// GPU to time:
//
//   build/release/bin/schedules FILE.strata FOLDER [MOST schedules a graph [MOST graphs]]
//   tests/gpu/run.py FOLDER                 on the machine with the GPU
//
// One folder each, FOLDER/PROGRAM@0r1g8s3c2 (first candidate) for 1 row warp, 8 groups, 3 stages and clusters of 2
// blocks, with cubin and launch manifest.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "ir/text.h"
#include "runtime/compile.h"
#include "superopt/codegen/all_schedules.h"
#include "superopt/superoptimize.h"

namespace {

using namespace strata;

Result<void> compile(const Graph& graph, const Target& target, const std::string& name, size_t most) {
  size_t done = 0;
  for (const Schedules& schedules : all_schedules(graph, target)) {
    if (done++ == most) break;
    STRATA_TRY(const GeneratedProgram program, generate_cuda(graph, target, schedules));
    STRATA_TRY(const std::vector<char> cubin, compile_cubin(program.source, target));
    const std::filesystem::path to = name + label(schedules);
    std::filesystem::create_directories(to);
    std::ofstream(to / "best.sm_90a.cubin", std::ios::binary).write(cubin.data(), std::ssize(cubin));
    auto manifest = nlohmann::ordered_json::parse(launch_manifest(program));
    manifest["estimated_us"] = estimate_cost(graph, target).seconds * 1e6;
    std::ofstream(to / "best.launch.json") << manifest.dump(1);
    std::ofstream(to / "best.cu") << program.source;
    std::ofstream(to / "best.strata") << print(graph);
  }
  fmt::print("{}: {} schedules\n", name, done);
  return {};
}

Result<void> run(const std::string& path, const std::string& folder, size_t most, int graphs) {
  STRATA_TRY(const GraphPtr graph, load_graph(path));
  STRATA_TRY(const Target* target, find_target("sm_90a"));
  const std::string name = folder + "/" + std::filesystem::path(path).stem().string() + "@";
  const bool searched = std::any_of(graph->operations().begin(), graph->operations().end(),
                                    [](const Operation& op) { return op.body != nullptr; });
  if (searched) return compile(*graph, *target, name + "0", most);
  SuperoptimizeOptions options;
  options.search.target = target;
  options.search.threads = static_cast<int>(std::thread::hardware_concurrency());
  options.search.time_limit = 50;
  options.candidates = graphs;
  STRATA_TRY(const Superoptimized result, superoptimize(graph, options));
  for (size_t c = 0; c < result.candidates.size() && c < static_cast<size_t>(graphs); ++c) {
    if (auto done = compile(*result.candidates[c].graph, *target, fmt::format("{}{}", name, c), most); !done) {
      fmt::print(stderr, "{}{}: {}\n", name, c, done.error().message);
    }
  }
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    fmt::print(stderr, "usage: schedules FILE.strata FOLDER [MOST [GRAPHS]]\n");
    return 2;
  }
  const auto done = run(arguments[1], arguments[2], count > 3 ? std::stoul(arguments[3]) : 1000,
                        count > 4 ? std::stoi(arguments[4]) : 8);
  if (!done) fmt::print(stderr, "{}\n", done.error().message);
  return done ? 0 : 1;
}
