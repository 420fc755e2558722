// Compiles a µGraph, or the candidates of a program, with every schedule that the emitters offer, for a machine with a
// GPU to time:
//
//   build/release/bin/schedules FILE.strata FOLDER [MOST schedules a graph [MOST graphs]]
//   build/release/bin/schedules FILE.strata FOLDER LABEL    that schedule alone
//   build/release/bin/schedules --features REPORT…    what bench/codegen/fit.py fits the cost of schedules to: of
//                          report.json of `strata optimize --profile`, a line each
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
#include "support/write_file.h"

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
    STRATA_CHECK(write_file(to / "best.sm_90a.cubin", {cubin.data(), cubin.size()}));
    auto manifest = nlohmann::ordered_json::parse(launch_manifest(program));
    manifest["estimated_us"] = scheduled_cost(graph, target, schedules).seconds * 1e6;
    STRATA_CHECK(write_file(to / "best.launch.json", manifest.dump(1)));
    STRATA_CHECK(write_file(to / "best.cu", program.source));
    STRATA_CHECK(write_file(to / "best.strata", print(graph)));
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

nlohmann::ordered_json describe(const Graph& graph, const Operation& op, const ScheduledBlock& block) {
  const auto& [code, schedule, seconds] = block;
  const BlockWork& w = code.work;
  return {{"blocks", blocks_of(op, schedule)},
          {"device_bytes", device_bytes(op, operand_strides(graph, op))},
          {"threads", code.threads},
          {"idle_threads", code.threads - code.computing_threads()},
          {"shared_bytes", code.shared_bytes},
          {"registers", code.registers},
          {"wide", !code.wide.empty()},
          {"row_warps", schedule.row_warps},
          {"loop_warps", schedule.loop_warps},
          {"stages", schedule.stages},
          {"cluster", schedule.cluster},
          {"bulk", schedule.bulk},
          {"sharers", schedule.sharers},
          {"turns", schedule.turns},
          {"shared_loads", w.shared_bytes},
          {"read_bytes", w.read_bytes},
          {"overlaps", w.overlaps},
          {"iterations", w.iterations},
          {"iteration_bytes", w.iteration_bytes},
          {"ahead", w.ahead},
          {"once_bytes", w.once_bytes},
          {"products", w.products},
          {"elements", w.elements},
          {"products_after", w.products_after},
          {"elements_after", w.elements_after},
          {"partial_bytes", w.partial_bytes},
          {"seconds", seconds}};
}

/// Candidate of a report: its graph, the emitters' own choice for each block, and the operator that labels speak of.
struct Candidate {
  GraphPtr graph;
  std::vector<std::optional<ScheduledBlock>> own;  ///< by operator
  size_t labelled = 0;
  double others = 0;  ///< seconds of what has no schedule
};

Result<Candidate> read_candidate(const std::string& text, const Target& target) {
  Candidate candidate;
  STRATA_TRY(candidate.graph, parse_graph(text));
  const Graph& graph = *candidate.graph;
  Schedules schedules;
  double described = 0;
  for (const Operation& op : graph.operations()) {
    auto& own = candidate.own.emplace_back();
    auto& schedule = schedules.emplace_back();
    if (!op.body) continue;
    if (auto block = describe_schedule(graph, op, std::nullopt, target)) {
      described += block->seconds;
      schedule = block->schedule;
      own = std::move(*block);
    }
  }
  candidate.others = scheduled_cost(graph, target, schedules).seconds - described;
  const Schedules first = all_schedules(graph, target).front();
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i]) candidate.labelled = i;
  }
  return candidate;
}

/// What fit.py fits the cost of schedules to: of each schedule that `strata optimize --profile` measured, its times and
/// what schedule_seconds is told of its kernels.
Result<void> features(const std::string& path) {
  STRATA_TRY(const Target* target, find_target("sm_90a"));
  std::ifstream file(path);
  const auto report = nlohmann::ordered_json::parse(file, nullptr, false);
  if (!report.contains("profile")) return invalid("{}: no report of measured candidates", path);
  std::vector<Candidate> candidates;
  for (const auto& listed : report["candidates"]) {
    STRATA_TRY(candidates.emplace_back(), read_candidate(listed["graph"].get<std::string>(), *target));
  }
  auto rows = nlohmann::ordered_json::array();
  int refused = 0;
  for (const auto& row : report["profile"]["rows"]) {
    const auto schedule = read_label(row["schedule"].get<std::string>());
    const auto number = static_cast<size_t>(std::atoi(row["candidate"].get<std::string>().c_str()));
    const bool library = row["schedule"].get<std::string>().find("lt") != std::string::npos;
    if (row["verdict"] != "right" || !schedule || library || schedule->handover != Handover::Launch || number < 1 ||
        number > candidates.size())
      continue;
    const Candidate& candidate = candidates[number - 1];
    const Graph& graph = *candidate.graph;
    auto kernels = nlohmann::ordered_json::array();
    bool described = true;
    for (size_t i = 0; i < graph.operations().size(); ++i) {
      const Operation& op = graph.operations()[i];
      if (i == candidate.labelled) {
        const auto block = describe_schedule(graph, op, schedule, *target);
        described = block.has_value();
        if (described) kernels.push_back(describe(graph, op, *block));
      } else if (candidate.own[i]) {
        kernels.push_back(describe(graph, op, *candidate.own[i]));
      }
    }
    refused += described ? 0 : 1;
    if (!described) continue;
    rows.push_back({{"candidate", number},
                    {"schedule", row["schedule"]},
                    {"cold_us", row["cold_us"]},
                    {"hot_us", row["hot_us"]},
                    {"others_seconds", candidate.others},
                    {"kernels", kernels}});
  }
  if (refused > 0) fmt::print(stderr, "{}: {} measured schedules are no longer offered\n", path, refused);
  // A program of another shape has the same name inside: that of the folder tells them apart.
  const std::string folder = std::filesystem::path(path).parent_path().filename().string();
  const nlohmann::ordered_json all = {{"program", folder.substr(0, folder.find('@'))}, {"rows", rows}};
  fmt::print("{}\n", all.dump());
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    fmt::print(stderr, "usage: schedules FILE.strata FOLDER [MOST [GRAPHS]]\n");
    return 2;
  }
  if (std::string_view(arguments[1]) == "--features") {
    for (int n = 2; n < count; ++n) {
      const auto listed = features(arguments[n]);
      if (!listed) {
        fmt::print(stderr, "{}\n", listed.error().message);
        return 1;
      }
    }
    return 0;
  }
  const std::string third = count > 3 ? arguments[3] : "";
  const bool number = !third.empty() && third.find_first_not_of("0123456789") == std::string::npos;
  const auto done = run(arguments[1], arguments[2], number ? std::stoul(third) : 1000,
                        count > 4 ? std::stoi(arguments[4]) : 8, number ? "" : third);
  if (!done) fmt::print(stderr, "{}\n", done.error().message);
  return done ? 0 : 1;
}
