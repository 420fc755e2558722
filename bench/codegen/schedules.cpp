// Compiles a µGraph with every schedule that the emitters offer, for a machine with a GPU to time:
//
//   build/release/bin/schedules GRAPH.strata FOLDER [MOST]
//   tests/gpu/run.py FOLDER                 on the machine with the GPU
//
// One folder a schedule, FOLDER/PROGRAM@r1g8s3c2 for 1 row warp, 8 groups, 3 stages and clusters of 2 blocks, with
// cubin and launch manifest.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "ir/text.h"
#include "runtime/compile.h"
#include "superopt/codegen/generate.h"
#include "superopt/codegen/tiles.h"

namespace {

using namespace strata;

/// The schedules of the operator that has the most, each with the other operators' own choice.
std::vector<Schedules> all_schedules(const Graph& graph, const Target& target) {
  std::vector<Schedules> all;
  for (size_t i = 0; i < graph.operations().size(); ++i) {
    const Operation& op = graph.operations()[i];
    if (!op.body) continue;
    const auto offered = tile_schedules(op, operand_strides(graph, op), target);
    if (offered.size() <= all.size()) continue;
    all.clear();
    for (const BlockSchedule& schedule : offered) {
      Schedules schedules(graph.operations().size());
      schedules[i] = schedule;
      all.push_back(schedules);
    }
  }
  if (all.empty()) all.emplace_back();
  return all;
}

std::string label(const Schedules& schedules) {
  for (const auto& schedule : schedules) {
    if (schedule)
      return fmt::format("@r{}g{}s{}c{}", schedule->row_warps, schedule->loop_warps, schedule->stages,
                         schedule->cluster);
  }
  return "@own";
}

Result<void> run(const std::string& path, const std::filesystem::path& folder, size_t most) {
  STRATA_TRY(const GraphPtr graph, load_graph(path));
  STRATA_TRY(const Target* target, find_target("sm_90a"));
  const std::string stem = std::filesystem::path(path).stem().string();
  size_t done = 0;
  for (const Schedules& schedules : all_schedules(*graph, *target)) {
    if (done++ == most) break;
    STRATA_TRY(const GeneratedProgram program, generate_cuda(*graph, *target, schedules));
    STRATA_TRY(const std::vector<char> cubin, compile_cubin(program.source, *target));
    const std::filesystem::path to = folder / (stem + label(schedules));
    std::filesystem::create_directories(to);
    std::ofstream(to / "best.sm_90a.cubin", std::ios::binary).write(cubin.data(), std::ssize(cubin));
    std::ofstream(to / "best.launch.json") << launch_manifest(program);
    std::ofstream(to / "best.cu") << program.source;
    fmt::print("{}\n", to.string());
  }
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    fmt::print(stderr, "usage: schedules GRAPH.strata FOLDER [MOST]\n");
    return 2;
  }
  const auto done = run(arguments[1], arguments[2], count > 3 ? std::stoul(arguments[3]) : 1000);
  if (!done) fmt::print(stderr, "{}\n", done.error().message);
  return done ? 0 : 1;
}
