// Compiles a µGraph, or the candidates of a program, with every schedule that the emitters offer, for a machine with a
// GPU to time:
//
//   build/release/bin/schedules FILE.strata FOLDER [MOST schedules a graph [MOST graphs]]
//   build/release/bin/schedules FILE.strata FOLDER LABEL    that schedule alone
//   build/release/bin/schedules --features FOLDER    what bench/codegen/fit.py fits the cost of schedules to
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
#include "superopt/codegen/schedule_cost.h"
#include "superopt/superoptimize.h"

namespace {

using namespace strata;

Result<void> compile(const Graph& graph, const Target& target, const std::string& name, size_t most,
                     const std::string& only = "") {
  size_t done = 0;
  for (const Schedules& schedules : all_schedules(graph, target)) {
    if (!only.empty() && label(schedules) != only) continue;
    if (done++ == most) break;
    STRATA_TRY(const GeneratedProgram program, generate_cuda(graph, target, schedules));
    STRATA_TRY(const std::vector<char> cubin, compile_cubin(program.source, target));
    const std::filesystem::path to = name + label(schedules);
    std::filesystem::create_directories(to);
    std::ofstream(to / "best.sm_90a.cubin", std::ios::binary).write(cubin.data(), std::ssize(cubin));
    auto manifest = nlohmann::ordered_json::parse(launch_manifest(program));
    manifest["estimated_us"] = scheduled_cost(graph, target, schedules).seconds * 1e6;
    std::ofstream(to / "best.launch.json") << manifest.dump(1);
    std::ofstream(to / "best.cu") << program.source;
    std::ofstream(to / "best.strata") << print(graph);
  }
  fmt::print("{}: {} schedules\n", name, done);
  return {};
}

Result<void> run(const std::string& path, const std::string& folder, size_t most, int graphs, const std::string& only) {
  STRATA_TRY(const GraphPtr graph, load_graph(path));
  STRATA_TRY(const Target* target, find_target("sm_90a"));
  const std::string name = folder + "/" + std::filesystem::path(path).stem().string() + "@";
  const bool searched = std::any_of(graph->operations().begin(), graph->operations().end(),
                                    [](const Operation& op) { return op.body != nullptr; });
  if (searched) return compile(*graph, *target, name + "0", most, only);
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

/// "r1g8s3c2w", as label() writes it.
std::optional<BlockSchedule> read_label(const std::string& text) {
  BlockSchedule schedule;
  int end = 0;
  if (std::sscanf(text.c_str(), "r%ldg%lds%ldc%ld%n", &schedule.row_warps, &schedule.loop_warps, &schedule.stages,
                  &schedule.cluster, &end) < 4) {
    return std::nullopt;
  }
  schedule.wide = text[static_cast<size_t>(end)] == 'w';
  schedule.bulk = std::sscanf(text.c_str() + end + (schedule.wide ? 1 : 0), "b%ld", &schedule.sharers) == 1;
  schedule.turns = text.back() == 't';
  return schedule;
}

/// What fit.py fits the cost of schedules to: for each folder of kernels, what schedule_seconds is told of them.
Result<void> features(const std::string& folder) {
  STRATA_TRY(const Target* target, find_target("sm_90a"));
  nlohmann::ordered_json all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    auto graph = load_graph((entry.path() / "best.strata").string());
    if (!graph) continue;
    const size_t at = name.find_last_of('r');
    const auto labelled = read_label(name.substr(at == std::string::npos ? 0 : at));
    auto& kernels = all[name] = nlohmann::ordered_json::array();
    size_t most = 0;
    for (const Operation& op : (*graph)->operations()) {
      if (op.body) most = std::max(most, block_schedules(op, operand_strides(**graph, op), *target).size());
    }
    bool given = false;
    for (const Operation& op : (*graph)->operations()) {
      if (!op.body) continue;
      const auto offered = block_schedules(op, operand_strides(**graph, op), *target);
      const bool labelled_one = !given && labelled && offered.size() == most;
      given |= labelled_one;
      const auto description = describe_schedule(**graph, op, labelled_one ? labelled : std::nullopt, *target);
      if (!description) continue;
      const auto& [code, schedule, seconds] = *description;
      const BlockWork& w = code.work;
      kernels.push_back({{"blocks", blocks_of(op, schedule)},
                         {"device_bytes", device_bytes(op, operand_strides(**graph, op))},
                         {"threads", code.threads},
                         {"shared_bytes", code.shared_bytes},
                         {"registers", code.registers},
                         {"wide", !code.wide.empty()},
                         {"row_warps", schedule.row_warps},
                         {"loop_warps", schedule.loop_warps},
                         {"cluster", schedule.cluster},
                         {"bulk", schedule.bulk},
                         {"sharers", schedule.sharers},
                         {"shared_loads", w.shared_bytes},
                         {"iterations", w.iterations},
                         {"iteration_bytes", w.iteration_bytes},
                         {"ahead", w.ahead},
                         {"once_bytes", w.once_bytes},
                         {"products", w.products},
                         {"elements", w.elements},
                         {"products_after", w.products_after},
                         {"elements_after", w.elements_after},
                         {"partial_bytes", w.partial_bytes},
                         {"seconds", seconds}});
    }
  }
  fmt::print("{}\n", all.dump(1));
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    fmt::print(stderr, "usage: schedules FILE.strata FOLDER [MOST [GRAPHS]]\n");
    return 2;
  }
  if (std::string_view(arguments[1]) == "--features") {
    const auto listed = features(arguments[2]);
    if (!listed) fmt::print(stderr, "{}\n", listed.error().message);
    return listed ? 0 : 1;
  }
  const std::string third = count > 3 ? arguments[3] : "";
  const bool number = !third.empty() && third.find_first_not_of("0123456789") == std::string::npos;
  const auto done = run(arguments[1], arguments[2], number ? std::stoul(third) : 1000,
                        count > 4 ? std::stoi(arguments[4]) : 8, number ? "" : third);
  if (!done) fmt::print(stderr, "{}\n", done.error().message);
  return done ? 0 : 1;
}
