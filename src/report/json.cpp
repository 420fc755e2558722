#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "report/pages.h"
#include "report/report.h"
#include "report/summary.h"
#include "superopt/codegen/launcher.h"
#include "superopt/codegen/libraries.h"
#include "superopt/search/checkpoint.h"

namespace strata {
namespace {

Json cost_json(const CostEstimate& cost) {
  return {{"kernels", cost.kernels}, {"bytes", cost.device_bytes}, {"estimated_seconds", cost.seconds}};
}

/// What it took to choose the layouts of each kernel with tiles in registers.
Json layouts_json(const GeneratedProgram& program) {
  Json json = Json::array();
  for (const KernelLaunch& launch : program.launches) {
    const LayoutSearch& layouts = launch.layouts;
    if (layouts.choices == 0) continue;
    json.push_back({{"kernel", launch.kernel}, {"choices", layouts.choices}, {"seconds", layouts.seconds}});
  }
  return json;
}

Json launches_json(const GeneratedProgram& program) {
  Json json = Json::array();
  for (const KernelLaunch& launch : program.launches) {
    json.push_back({{"kernel", launch.kernel},
                    {"parts", launch.parts},
                    {"blocks", launch.grid[0] * launch.grid[1] * launch.grid[2]},
                    {"estimated_seconds", launch.seconds},
                    {"bytes", launch.device_bytes}});
  }
  return json;
}

std::string_view method_name(ProofMethod method) { return method == ProofMethod::Solver ? "solver" : "finite fields"; }

bool counts(const Operation& op) { return op.kind != OpKind::InIter && op.kind != OpKind::OutSaver; }

const Graph* first_block_graph(const Graph& graph) {
  for (const Operation& op : graph.operations()) {
    if (op.body) return op.body.get();
  }
  return nullptr;
}

Json part_json(const Superoptimized& result, size_t p) {
  const Part& part = result.partition.parts[p];
  const PartOutcome& outcome = result.parts[p];
  Json json;
  json["makes"] = part_name(*part.graph);
  json["operators"] = part.operations.size();
  json["searched"] = part.searchable();
  json["equal_to"] = outcome.equal_to;
  json["result"] = describe_part(result, p);
  json["input"] = cost_json(outcome.program_cost);
  json["best"] = cost_json(outcome.best_cost);
  json["stop_reason"] = std::string(name_of(outcome.optimized.stop_reason));
  json["seconds"] = outcome.optimized.statistics.seconds;
  json["cached_at"] = outcome.optimized.cached_at;
  json["made_of"] = outcome.optimized.made_of;
  json["why_searched"] = outcome.optimized.why_searched;
  return json;
}

Json search_json(const Superoptimized& result) {
  const SearchStatistics& s = result.statistics;
  return {{"seconds", s.seconds},
          {"threads", s.threads},
          {"generated", s.generated},
          {"pruned_shape", s.pruned_shape},
          {"pruned_memory", s.pruned_memory},
          {"pruned_expression", s.pruned_expression},
          {"pruned_axes", s.pruned_axes},
          {"pruned_stability", s.pruned_stability},
          {"verified", s.verified},
          {"rejected", s.rejected},
          {"spaces_total", s.spaces_total},
          {"spaces_searched", s.spaces_searched},
          {"stop_reason", std::string(name_of(result.stop_reason))},
          {"left_out", result.left_out}};
}

/// Null where nothing was measured, or the number is none.
Json measured(const TunedRow& row, double value) {
  const MeasureVerdict verdict = row.measurement.verdict;
  const bool known = verdict == MeasureVerdict::Right || verdict == MeasureVerdict::Wrong;
  return known && std::isfinite(value) ? Json(value) : Json();
}

Json profile_json(const Profile& profile) {
  if (!profile.tuning) return {{"measured", false}, {"reason", profile.skipped}};
  const Tuning& tuning = *profile.tuning;
  Json json;
  json["measured"] = true;
  json["device"] = tuning.device.name;
  json["driver"] = tuning.device.driver_version;
  json["cublas_lt"] = tuning.device.cublas_lt;
  json["cudnn"] = tuning.device.cudnn;
  json["compared_with"] = tuning.reference;
  json["summary"] = describe_tuning(tuning);
  json["ranking"] = describe_ranking(tuning);
  json["seconds"] = tuning.seconds;
  json["rank_correlation"] = tuning.rank_correlation ? Json(*tuning.rank_correlation) : Json();
  json["place_of_best"] = tuning.result().place;
  const auto& corrected = tuning.corrected_rank_correlation;
  json["corrected_rank_correlation"] = corrected ? Json(*corrected) : Json();
  json["corrected_place_of_best"] = tuning.corrected_place();
  json["rows"] = Json::array();
  for (const TunedRow& row : tuning.rows) {
    const bool right = row.measurement.verdict == MeasureVerdict::Right;
    json["rows"].push_back({{"candidate", candidate_name(row)},
                            {"schedule", row_label(row)},
                            {"chosen", &row == &tuning.result()},
                            {"verdict", std::string(name_of(row.measurement.verdict))},
                            {"why_not", tuning.why_not(row)},
                            {"words", describe_row(tuning, row)},
                            {"estimated_us", row.estimated_us},
                            {"corrected_us", row.corrected_us},
                            {"place", row.place},
                            {"cold_us", right ? Json(row.measurement.cold_us) : Json()},
                            {"hot_us", right ? Json(row.measurement.hot_us) : Json()},
                            {"error", measured(row, row.measurement.error)},
                            {"cached_at", row.measured_at}});
  }
  return json;
}

bool has_convolutions(const Graph& graph) {
  return std::any_of(graph.operations().begin(), graph.operations().end(),
                     [](const Operation& op) { return op.kind == OpKind::Conv2d; });
}

}  // namespace

std::string candidate_name(const TunedRow& row) { return row.is_program ? "input" : std::to_string(row.candidate + 1); }

std::string describe_tuning(const Tuning& tuning) {
  std::string counts;
  for (const MeasureVerdict verdict : {MeasureVerdict::Right, MeasureVerdict::Wrong, MeasureVerdict::Failed,
                                       MeasureVerdict::Timeout, MeasureVerdict::NotMeasured}) {
    if (const int count = tuning.count(verdict); count > 0)
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, name_of(verdict));
  }
  const auto cached = std::count_if(tuning.rows.begin(), tuning.rows.end(),
                                    [](const TunedRow& row) { return !row.measured_at.empty(); });
  const int version = tuning.device.driver_version;
  // Said only where they are known to be missing, and something is.
  std::string without;
  if (!tuning.device.without_cublas_lt.empty())
    without += "; no products by a library: " + tuning.device.without_cublas_lt;
  if (!tuning.device.without_cudnn.empty() && has_convolutions(*tuning.program().graph))
    without += "; no convolutions by a library: " + tuning.device.without_cudnn;
  return fmt::format("{} (driver for CUDA {}.{}), against {}: {} after {:.1f} s{}{}", tuning.device.name,
                     version / 1000, version % 1000 / 10, tuning.reference, counts, tuning.seconds,
                     cached > 0 ? fmt::format(", {} from the cache", cached) : "", without);
}

std::string describe_row(const Tuning& tuning, const TunedRow& row) {
  const std::string why_not = tuning.why_not(row);
  if (&row != &tuning.result()) return why_not;
  return why_not.empty() ? "chosen" : fmt::format("chosen, though {}: {}", name_of(row.measurement.verdict), why_not);
}

std::string describe_ranking(const Tuning& tuning) {
  if (tuning.result().measurement.verdict != MeasureVerdict::Right) return {};
  std::string text =
      fmt::format("the fastest is number {} of {} by the cost model", tuning.result().place, tuning.rows.size());
  if (tuning.rank_correlation)
    text += fmt::format("; rank correlation of estimates and times {:.2f} (Spearman)", *tuning.rank_correlation);
  if (tuning.corrected_rank_correlation) {
    text += fmt::format("; corrected by the other measurements number {} and {:.2f}", tuning.corrected_place(),
                        *tuning.corrected_rank_correlation);
  }
  return text;
}

std::string describe_layouts(const GeneratedProgram& program) {
  int kernels = 0;
  LayoutSearch all;
  for (const KernelLaunch& launch : program.launches) {
    if (launch.layouts.choices == 0) continue;
    ++kernels;
    all.choices += launch.layouts.choices;
    all.seconds += launch.layouts.seconds;
  }
  if (kernels == 0) return {};
  return fmt::format("layouts of tiles in registers: the best of {} choices for {} kernel{}, found in {:.3f} ms",
                     all.choices, kernels, kernels == 1 ? "" : "s", all.seconds * 1e3);
}

std::string part_name(const Graph& part) {
  std::string text;
  for (TensorId id : part.outputs()) text += (text.empty() ? "" : ", ") + part.tensor(id).name;
  return text;
}

std::string describe_part(const Superoptimized& result, size_t p) {
  const Part& part = result.partition.parts[p];
  const PartOutcome& outcome = result.parts[p];
  const OptimizedPart& optimized = outcome.optimized;
  if (!part.searchable()) return "as given: " + part.predefined;
  std::string text = outcome.equal_to >= 0 ? fmt::format("equal to part {}; ", outcome.equal_to) : "";
  if (optimized.made_of.empty()) {
    text += fmt::format("{} after {:.1f} s", name_of(optimized.stop_reason), optimized.statistics.seconds);
  } else {
    text += fmt::format("made of what was searched at {}", optimized.made_of);
  }
  if (!optimized.cached_at.empty()) text += fmt::format(" (from the cache; run of {})", optimized.cached_at);
  const Candidate& best = optimized.candidates.front();
  text += best.graph != part.graph       ? "; " + best.verification.argument
          : uses_library(best.schedules) ? "; as given, with operators by a library"
                                         : "; nothing better was proved";
  if (optimized.unproved > 0) text += fmt::format("; {} not proved: {}", optimized.unproved, optimized.unproved_reason);
  return text;
}

int count_block_operators(const Graph& graph) {
  int count = 0;
  for (const Operation& op : graph.operations()) {
    if (op.body) {
      count += count_block_operators(*op.body);
    } else if (graph.level() != Level::Kernel && counts(op)) {
      ++count;
    }
  }
  return count;
}

std::string report_json(const Superoptimized& result, const SuperoptimizeOptions& options, const Profile& profile) {
  const Candidate& best = result.candidates.front();
  const Graph* block = first_block_graph(*best.graph);
  const double bandwidth = options.search.target->rates.memory_bandwidth;
  const auto floor = [&](const CostEstimate& cost) { return static_cast<double>(cost.device_bytes) / bandwidth; };
  Json json;
  json["kind"] = "search";
  json["program"] = result.program->name();
  json["target"] = std::string(options.search.target->name);
  json["sizes"] = options.sized ? Json(options.sized->sizes) : Json::object();
  json["gpu"] = std::string(options.search.target->gpu);
  json["seed"] = options.search.seed;
  json["search"] = search_json(result);
  json["headline"] = headline(result, profile);
  json["input"] = cost_json(result.program_cost);
  json["input"]["floor_seconds"] = floor(result.program_cost);
  json["input"]["name"] = describe_input(result);
  json["input"]["graph"] = print(*result.program);
  json["best"] = cost_json(best.cost);
  json["best"]["floor_seconds"] = floor(best.cost);
  json["best"]["needs"] = needed_libraries(result.code);
  json["best"]["block_ops"] = count_block_operators(*best.graph);
  json["best"]["grid"] = block ? Json(block->launch().grid) : Json::array();
  json["best"]["forloop"] = block ? block->launch().loop : 1;
  json["best"]["launches"] = launches_json(result.code);
  json["best"]["layouts"] = layouts_json(result.code);
  json["best"]["graph"] = print(*best.graph);
  json["verification"] = {{"delta", options.delta},
                          {"method", method_name(best.verification.method)},
                          {"tests", best.verification.tests},
                          {"error_bound", best.verification.error_bound},
                          {"argument", best.verification.argument},
                          {"words", describe_proof(best.verification)},
                          {"full_shape", best.full_shape},
                          {"unproved", result.unproved},
                          {"unproved_reason", result.unproved_reason}};
  json["parts"] = Json::array();
  for (size_t p = 0; p < result.parts.size(); ++p) json["parts"].push_back(part_json(result, p));
  json["cuts"] = Json::array();
  for (const Cut& cut : result.partition.cuts) {
    json["cuts"].push_back(
        {{"value", result.partition.name_of(cut)}, {"from", cut.from}, {"to", cut.to}, {"reason", cut.reason}});
  }
  json["whole_check"] = result.whole_check;
  json["profile"] = profile_json(profile);
  json["order"] = describe_order(result);
  json["candidates"] = Json::array();
  for (const Candidate& candidate : result.candidates) {
    Json entry = cost_json(candidate.cost);
    entry["is_input"] = same_structure(*candidate.graph, *result.program);
    entry["proof"] = name_proof(candidate.verification);
    entry["method"] = method_name(candidate.verification.method);
    entry["tests"] = candidate.verification.tests;
    entry["error_bound"] = candidate.verification.error_bound;
    entry["full_shape"] = candidate.full_shape;
    entry["f32_error"] = candidate.errors.candidate_f32;
    entry["own_type_error"] = candidate.errors.candidate_own;
    entry["graph"] = print(*candidate.graph);
    json["candidates"].push_back(std::move(entry));
  }
  return json.dump(2) + "\n";
}

std::string report_html(const Superoptimized& result, const SuperoptimizeOptions& options, const Profile& profile) {
  return search_page(Json::parse(report_json(result, options, profile)),
                     annotated_source(result.code, *result.candidates.front().graph, *options.search.target));
}

std::string shard_json(const Superoptimized& result, const SuperoptimizeOptions& options) {
  Json json;
  json["program"] = result.program->name();
  json["target"] = std::string(options.search.target->name);
  json["seed"] = options.search.seed;
  json["shard"] = {{"index", options.search.shard_index},
                   {"count", options.search.shard_count},
                   {"checkpoint", options.search.checkpoint ? options.search.checkpoint->path() : ""}};
  json["search"] = search_json(result);
  return json.dump(2) + "\n";
}

}  // namespace strata
