#include "compiler/core/optimize_program.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <thread>

#include "ir/text.h"
#include "report/report.h"
#include "report/summary.h"
#include "runtime/calibration_file.h"
#include "runtime/device_probe.h"
#include "superopt/codegen/all_schedules.h"
#include "superopt/codegen/launcher.h"
#include "superopt/known_graph.h"
#include "superopt/sized_run.h"

namespace strata::compiler {
namespace {

/// Of the time for measuring; the rest proves and compiles what is the fastest.
constexpr double kMeasuringShare = 0.85;

/// What distinguishes programs: their text without comments. FNV-1a, which needs no more than to be the same
/// everywhere.
std::string program_key(const Graph& program) {
  uint64_t hash = 14695981039346656037U;
  std::istringstream lines(print(program));
  for (std::string line; std::getline(lines, line);) {
    if (const size_t comment = line.find('#'); comment != std::string::npos) line.resize(comment);
    while (!line.empty() && line.back() == ' ') line.pop_back();
    if (line.empty()) continue;
    for (const char c : line + "\n") hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  }
  return fmt::format("{:016x}", hash);
}

/// The text that makes the result again: "# strata configuration 1", lines "# KEY VALUE", and the µGraph.
std::string describe_config(const Superoptimized& result, const Target& target, const std::string& schedule,
                            bool grouped) {
  return fmt::format("# {} {}\n# program {}\n# target {}\n# schedule {}\n# grouped {}\n{}", kConfigTitle, kConfigFormat,
                     program_key(*result.program), target.name, schedule.empty() ? "-" : schedule,
                     grouped ? "yes" : "no", print(*result.candidates.front().graph));
}

struct Config {
  std::string target;
  KnownGraph known;
};

Result<Config> read_config(const std::string& text, const Graph& program) {
  const auto refuse = [](std::string why) {
    return with_remedy(invalid("the configuration is refused: {}", why), "search again without config=");
  };
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  std::string line;
  const std::string title = fmt::format("# {} ", kConfigTitle);
  std::getline(lines, line);
  if (!line.starts_with(title)) return refuse(fmt::format("its first line is not '{}{}'", title, kConfigFormat));
  if (line != fmt::format("{}{}", title, kConfigFormat))
    return refuse(
        fmt::format("it is of format {}, and this version reads {}", line.substr(title.size()), kConfigFormat));
  while (lines.peek() == '#' && std::getline(lines, line)) {
    const size_t space = line.find(' ', 2);
    if (space != std::string::npos) values[line.substr(2, space - 2)] = line.substr(space + 1);
  }
  for (const char* key : {"program", "target", "schedule", "grouped"}) {
    if (values.count(key) == 0) return refuse(fmt::format("it has no line '# {} …'", key));
  }
  if (values["program"] != program_key(program))
    return refuse(
        fmt::format("it is of another program than '{}' (names, shapes, types or operators differ)", program.name()));
  Config config{values["target"],
                {nullptr, values["schedule"] == "-" ? "" : values["schedule"], values["grouped"] == "yes"}};
  // Without these lines, which would become the graph's comments.
  const auto rest = static_cast<size_t>(std::max<std::streamoff>(lines.tellg(), 0));
  STRATA_TRY(config.known.graph, parse_graph(std::string_view(text).substr(rest), "<config>"));
  return config;
}

class Optimization {
 public:
  Optimization(const SizedProgram& program, const OptimizeRequest& request)
      : sized_(program), program_(program.graph), request_(request) {}

  Result<OptimizedProgram> run() {
    std::optional<Config> config;
    if (!request_.config.empty()) {
      if (!sized_.dims.empty()) {
        return with_remedy(invalid("a configuration is of one size, and '{}' has dims", program_->name()),
                           "leave config= out: results are kept in the cache");
      }
      STRATA_TRY(config, read_config(request_.config, *program_));
    }
    STRATA_CHECK(choose_machine(config ? config->target : request_.target));
    set_options();
    STRATA_CHECK(choose_sizes());
    Profile profile;
    STRATA_TRY(Superoptimized result, found(config));
    if (config || !request_.search) {
      profile.skipped = config ? "the configuration says what to take" : "nothing was searched";
    } else if (work_.sized && is_made_of_known(result)) {
      profile.skipped = describe_measured(work_);
    } else {
      profile = measured(result);
    }
    std::string schedule = config ? config->known.schedule : "";
    bool grouped = config && config->known.grouped;
    if (profile.tuning) {
      const TunedRow& row = profile.tuning->result();
      schedule = label(row.schedules);
      grouped = row.grouped;
    }
    keep(result, profile);
    keep_sizes(result, profile);
    made_.config = describe_config(result, machine_, schedule, grouped);
    return std::move(made_);
  }

 private:
  void say(const std::string& line) const {
    if (request_.progress) request_.progress(line);
  }
  void note(const std::string& line) { made_.notes.push_back(line); }

  Result<void> choose_machine(const std::string& named) {
    probe_ = probe_device();
    const bool automatic = named == "auto";
    STRATA_TRY(const Target* target, automatic&& probe_.target == nullptr ? Result<const Target*>(&default_target())
                                     : automatic                          ? Result<const Target*>(probe_.target)
                                                                          : or_auto(find_target(named)));
    here_ = probe_.target != nullptr && probe_.target->name == target->name;
    machine_ = calibrated_here(*target, request_.cache_folder, probe_, [this](const std::string& text) { note(text); });
    made_.target = std::string(target->name);
    return {};
  }

  void set_options() {
    work_.search.target = &machine_;
    work_.search.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    work_.search.time_limit = request_.seconds;
    work_.search.stop = request_.stop;
    work_.deadline = deadline_of(work_.search);
    work_.passes.emitter = request_.emitter;
    if (!request_.cache_folder.empty()) {
      cache_.emplace(request_.cache_folder, [this](const std::string& text) { note(text); });
      work_.cache = &*cache_;
    }
    work_.progress = [this](const SearchProgress& p) {
      const SearchStatistics& s = p.statistics;
      const std::string best = p.best_seconds > 0 ? fmt::format("{:.2f} µs", p.best_seconds * 1e6) : "none yet";
      say(fmt::format("search: space {} of {}, {} operators tried, best {}", s.spaces_searched, s.spaces_total,
                      s.generated, best));
    };
    work_.stage_progress = [this](std::string_view stage, size_t done, size_t count) {
      say(count > 1 ? fmt::format("{}: {} of {}", stage, done, count) : std::string(stage));
    };
  }

  /// Of a program with dims, the sizes that kernels are made for.
  Result<void> choose_sizes() {
    STRATA_CHECK(sized_.with(request_.sizes));
    if (sized_.dims.empty()) return {};
    STRATA_TRY(const SizePlan plan, plan_size(std::make_shared<const SizedProgram>(sized_), request_.sizes, work_));
    if (!plan.note.empty()) note(plan.note);
    made_.sizes = plan.made;
    STRATA_TRY(program_, sized_.at(plan.made));
    return {};
  }

  void keep_sizes(const Superoptimized& result, const Profile& profile) {
    made_.seconds = result.candidates.front().cost.seconds;
    if (!work_.sized || !request_.search) return;
    const bool chosen = profile.tuning && profile.tuning->result().measurement.verdict == MeasureVerdict::Right;
    keep_choice(result, work_, chosen ? profile.tuning->device.name : "",
                chosen ? label(profile.tuning->result().schedules) : "");
    made_.origin = fmt::format("{}; {}", describe_origin(result, work_), describe_measured(work_));
  }

  Result<Superoptimized> found(const std::optional<Config>& config) {
    if (config) return superoptimize_known(program_, config->known, work_);
    if (!request_.search) return superoptimize_known(program_, {program_}, work_);
    return superoptimize(program_, work_);
  }

  /// Measures where this machine can, and takes the fastest.
  Profile measured(Superoptimized& result) {
    if (!here_) return {std::nullopt, probe_.target == nullptr ? probe_.finding : "the GPU is of another architecture"};
    if (request_.measure_seconds <= 0) return {std::nullopt, "no time was given to measure"};
    if (request_.stop.stop_requested()) return {std::nullopt, "interrupted"};
    const Deadline deadline(request_.measure_seconds, request_.stop, 1);
    TuneOptions tuning;
    tuning.target = &machine_;
    tuning.seconds = request_.measure_seconds;
    tuning.threads = work_.search.threads;
    tuning.seed = work_.search.seed;
    tuning.passes = work_.passes;
    if (tuning.passes.emitter) tuning.passes.emitter = tuning.passes.emitter->until(deadline);
    tuning.cache = work_.cache;
    tuning.deadline = deadline.share(kMeasuringShare);
    if (!request_.measure_worker.empty()) tuning.measure.command = request_.measure_worker;
    tuning.progress = [this](const TuneProgress& p) {
      const std::string best = p.best_us > 0 ? fmt::format("{:.2f} µs", p.best_us) : "none yet";
      say(fmt::format("measured {} of {}, best {}", p.measured, p.rows, best));
    };
    say("measuring: preparing inputs and expected results");
    auto made = tune(result, tuning);
    if (!made) return skipped("nothing was measured: ", made.error());
    SuperoptimizeOptions proofs = work_;
    proofs.deadline = deadline;
    if (const auto taken = take_chosen(result, *made, tuning, proofs); !taken)
      return skipped("the fastest cannot be made again: ", taken.error());
    return {std::move(*made), {}};
  }

  Profile skipped(const std::string& what, const Error& why) {
    note(what + why.message);
    return {std::nullopt, why.message};
  }

  void keep(const Superoptimized& result, const Profile& profile) {
    const Graph& best = *result.candidates.front().graph;
    auto& files = made_.files;
    files["program.strata"] = print(*program_);
    files["best.strata"] = print(best);
    files["best.cu"] = annotated_source(result.code, best, machine_);
    files["best.launch.json"] = launch_manifest(result.code);
    if (const auto launcher = launcher_program(result.code)) files["best.launch.cpp"] = *launcher;
    files["report.json"] = report_json(result, work_, profile);
    files["report.html"] = report_html(result, work_, profile);
    if (manifest_of(result.code).uses_kernels()) {
      if (!result.cubin.empty())
        files[fmt::format("best.{}.cubin", machine_.name)] = std::string(result.cubin.begin(), result.cubin.end());
      if (result.compile_error)
        note(fmt::format("no cubin for {}: {}", machine_.name, result.compile_error->to_string()));
    }
    if (const std::string worse = describe_missing_emitters(result, work_.passes); !worse.empty())
      note(worse + "; install the package `strata` in place of `strata-core`");
    made_.headline = headline(result, profile);
    made_.proof = describe_proof(result.candidates.front().verification);
  }

  const SizedProgram& sized_;
  GraphPtr program_;
  const OptimizeRequest& request_;
  DeviceProbe probe_;
  Target machine_ = default_target();
  bool here_ = false;  ///< the machine has a GPU of the target
  std::optional<ResultCache> cache_;
  SuperoptimizeOptions work_;
  OptimizedProgram made_;
};

}  // namespace

Result<OptimizedProgram> optimize_program(const SizedProgram& program, const OptimizeRequest& request) {
  return Optimization(program, request).run();
}

}  // namespace strata::compiler
