#include <algorithm>
#include <filesystem>
#include <thread>

#include "commands.h"
#include "emitters.h"
#include "interrupt_watch.h"
#include "ir/text.h"
#include "ir/validate.h"
#include "machine_options.h"
#include "options.h"
#include "profile.h"
#include "progress_line.h"
#include "report/report.h"
#include "report/summary.h"
#include "runtime/compile.h"
#include "runtime/device_probe.h"
#include "runtime/memory_layout.h"
#include "runtime/size_table.h"
#include "size_options.h"
#include "source.h"
#include "superopt/codegen/all_schedules.h"
#include "superopt/codegen/launcher.h"
#include "superopt/codegen/libraries.h"
#include "superopt/search/checkpoint.h"
#include "superopt/sized_run.h"
#include "support/read_file.h"
#include "support/temporary_folder.h"

namespace strata::cli {
namespace {

struct Options {
  std::string program, folder, target = "auto", dump_after, cache, checkpoint;
  SuperoptimizeOptions work;
  ProfileOptions profile;
  bool time_limit_given = false;
  bool json = false;
  bool no_cache = false;
  uint64_t cache_limit = ResultCache::kDefaultLimit;
  std::string shard;
  std::vector<std::string> disabled, disabled_passes;
  std::vector<std::string> dims, sizes;  ///< as the user wrote them
};

/// Of a run without --time-limit; measuring comes on top.
constexpr double kDefaultSeconds = 60;
/// Of a time limit that is given, at most so much is for measuring.
constexpr double kMeasuringShare = 0.5;

/// The program that launches the kernels; there is none where a library does a part of the work.
constexpr const char* kLauncher = "best.launch.cpp";

std::string progress_text(const SearchProgress& progress) {
  const SearchStatistics& s = progress.statistics;
  const std::string best =
      progress.best_seconds > 0 ? fmt::format("{:.2f} µs", progress.best_seconds * 1e6) : std::string("none yet");
  return fmt::format(
      "search: {:.1f} s  spaces {}/{}  generated {}  pruned: shape {}, memory {}, expression {}, axes {}  "
      "verified {}  best {}",
      s.seconds, s.spaces_searched, s.spaces_total, s.generated, s.pruned_shape, s.pruned_memory, s.pruned_expression,
      s.pruned_axes, s.verified, best);
}

Result<const Target*> choose_target(const std::string& name, const DeviceProbe& probe) {
  if (name != "auto") return or_auto(find_target(name));
  if (probe.target != nullptr) {
    notice("target {}: {}\nCUDA libraries: {}\n", probe.target->name, probe.finding, probe.libraries);
    return probe.target;
  }
  STRATA_TRY(const Target* fallback, find_target("sm_90a"));
  notice("target {} by default: {}\n", fallback->name, probe.finding);
  return fallback;
}

/// The parts of a program of several, and where it was cut.
void print_parts(const Superoptimized& result) {
  if (result.parts.size() < 2) return;
  fmt::print("\n{:<4} {:<28} {:>9} {:>16} {:>16}  {}\n", "part", "makes", "operators", "kernels", "estimated µs",
             "result");
  for (size_t p = 0; p < result.parts.size(); ++p) {
    const PartOutcome& outcome = result.parts[p];
    const Part& part = result.partition.parts[p];
    fmt::print("{:<4} {:<28} {:>9} {:>16} {:>16}  {}\n", p, part_name(*part.graph), part.operations.size(),
               fmt::format("{} → {}", outcome.program_cost.kernels, outcome.best_cost.kernels),
               fmt::format("{:.2f} → {:.2f}", outcome.program_cost.seconds * 1e6, outcome.best_cost.seconds * 1e6),
               describe_part(result, p));
  }
  for (const Cut& cut : result.partition.cuts) {
    fmt::print("cut at {} between parts {} and {}: {}\n", result.partition.name_of(cut), cut.from, cut.to, cut.reason);
  }
  fmt::print("\n");
}

void print_comparison(const Superoptimized& result, const Profile& measured) {
  const Candidate& best = result.candidates.front();
  const auto row = [](std::string_view name, const CostEstimate& cost) {
    fmt::print("{:<24} {:>8} {:>16} {:>14.2f}\n", name, cost.kernels, cost.device_bytes, cost.seconds * 1e6);
  };
  fmt::print("{}\n", headline(result, measured));
  fmt::print("{:<24} {:>8} {:>16} {:>14}\n", "", "kernels", "device bytes", "estimated µs");
  row(describe_input(result), result.program_cost);
  row("best µGraph", best.cost);
  fmt::print("proof: {}\n", describe_proof(best.verification));
  if (!result.whole_check.empty()) fmt::print("whole program: {}\n", result.whole_check);
  const SearchStatistics& s = result.statistics;
  fmt::print(
      "search: {} after {:.2f} s on {} threads, {} of {} spaces, {} operators tried, {} graphs equal on a random "
      "test\n",
      name_of(result.stop_reason), s.seconds, s.threads, s.spaces_searched, s.spaces_total, s.generated, s.verified);
  const auto cached = std::count_if(result.parts.begin(), result.parts.end(),
                                    [](const PartOutcome& part) { return !part.optimized.cached_at.empty(); });
  if (cached > 0) {
    const auto first = std::find_if(result.parts.begin(), result.parts.end(),
                                    [](const PartOutcome& part) { return !part.optimized.cached_at.empty(); });
    fmt::print("from the cache: {} of {} parts; run of {}\n", cached, result.parts.size(), first->optimized.cached_at);
  }
  if (result.unproved > 0)
    fmt::print("not proved: {} graphs; the cheapest: {}\n", result.unproved, result.unproved_reason);
  if (!result.left_out.empty()) fmt::print("left out (by the search's own estimates): {}\n", result.left_out);
}

/// Makes the folders of what is written, and sees that files can be made in them: what a search finds must not be lost
/// to what could be noticed before it.
Result<void> check_places(const Options& options) {
  STRATA_CHECK(make_folder(options.folder));
  STRATA_CHECK(check_writable(options.folder, "-o"));
  const std::string& checkpoint = options.checkpoint;
  if (checkpoint.empty()) return {};
  if (std::filesystem::is_directory(checkpoint)) {
    return tl::unexpected(Error{ErrorCode::Environment,
                                fmt::format("cannot write the checkpoint '{}': it is a folder", checkpoint),
                                "name a file with --checkpoint",
                                {}});
  }
  const std::string folder = std::filesystem::absolute(checkpoint).parent_path().string();
  STRATA_CHECK(make_folder(folder));
  return check_writable(folder, "--checkpoint");
}

/// A file of an earlier run would pass for this graph's.
void remove_old(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

/// The best µGraph compiled for `target`, which need not be the one that it was found for.
Result<std::vector<char>> cubin_for(const Superoptimized& result, const Target& target, const Options& options,
                                    const Deadline& deadline) {
  if (target.name == options.work.search.target->name) {
    if (result.compile_error) return tl::unexpected(*result.compile_error);
    return result.cubin;
  }
  if (deadline.passed()) return tl::unexpected(no_time_to_compile(target));
  const Graph& best = *result.candidates.front().graph;
  STRATA_CHECK(validate(best, target));
  // The launches of all cubins are the same, so what a library computes has no kernel in any.
  const Schedules libraries = library_part(result.candidates.front().schedules);
  Passes passes = options.work.passes;
  if (passes.emitter) passes.emitter = passes.emitter->until(deadline);
  STRATA_TRY(const GeneratedProgram code, generate_cuda(best, target, libraries, passes));
  if (passes.emitter && passes.emitter->ran_out()) return tl::unexpected(no_time_to_compile(target));
  return cubin_of(code.source, target, options.work.cache, deadline.token());
}

/// A cubin for every known target that the best µGraph fits; what is missing is said, not hidden, and fails nothing.
/// The names of the files.
Result<std::vector<std::string>> write_cubins(const Superoptimized& result, const Options& options,
                                              const Deadline& deadline) {
  std::vector<std::string> written;
  for (const Target& target : targets()) {
    const std::string name = fmt::format("best.{}.cubin", target.name);
    const std::string path = options.folder + "/" + name;
    const auto cubin = cubin_for(result, target, options, deadline);
    if (!cubin) {
      notice("warning: no cubin for {}: {}\n", target.name, cubin.error().to_string());
      remove_old(path);
      continue;
    }
    STRATA_CHECK(write_file(path, {cubin->data(), cubin->size()}));
    written.push_back(name);
  }
  return written;
}

Result<void> choose_shard(Options& options) {
  SearchOptions& search = options.work.search;
  int end = 0;
  const bool read =
      std::sscanf(options.shard.c_str(), "%9d/%9d%n", &search.shard_index, &search.shard_count, &end) == 2;
  if (!read || static_cast<size_t>(end) != options.shard.size() || search.shard_index < 0 ||
      search.shard_index >= search.shard_count) {
    return tl::unexpected(Error{ErrorCode::InvalidInput,
                                fmt::format("--shard {} names no slice", options.shard),
                                "write i/n with 0 ≤ i < n, for example 0/4",
                                {}});
  }
  if (options.checkpoint.empty()) {
    return tl::unexpected(
        Error{ErrorCode::InvalidInput, "--shard without --checkpoint: its work would be lost", "name a file", {}});
  }
  options.work.cache = nullptr;
  return {};
}

/// The machine and what is the same for all sizes of a program.
struct Setting {
  DeviceProbe probe;
  Target machine;
  Profile not_measured;  ///< its `skipped` says why nothing is measured; empty: candidates are
  const InterruptWatch& watch;
  std::stop_token stop;
};

/// What a table says of an entry.
struct Made {
  double seconds = 0;
  std::string origin, measured;  ///< of programs with dims, in words
};

/// Sets the search's rules and the passes.
void choose_rules(Options& options) {
  PruningRules& rules = options.work.search.rules;
  for (const std::string& rule : options.disabled) {
    (rule == "expression" ? rules.expression
     : rule == "axes"     ? rules.axes
     : rule == "products" ? rules.products
     : rule == "sizes"    ? rules.sizes
     : rule == "cost"     ? rules.cost
                          : rules.stability) = false;
  }
  for (const NamedPass& pass : kPasses) {
    const auto& names = options.disabled_passes;
    if (std::find(names.begin(), names.end(), pass.name) != names.end()) options.work.passes.*pass.on = false;
  }
  options.work.passes.emitter = kernel_emitter();
  if (options.work.passes.one_kernel) options.work.passes.libraries = options.work.passes.merging = false;
}

/// The files of a result, and what the user is told.
Result<void> write_result(const Superoptimized& result, const Options& options, const Profile& measured,
                          const Deadline& deadline) {
  const std::string report = report_json(result, options.work, measured);
  // A file that cannot be written costs that file and the exit code; the others are written.
  Result<void> all_written;
  const auto write = [&](const std::string& name, std::string_view contents) {
    const auto written = write_file(options.folder + "/" + name, contents);
    if (!written && all_written) all_written = tl::unexpected(written.error());
  };
  const Graph& best = *result.candidates.front().graph;
  const auto launcher = launcher_program(result.code);
  write("best.strata", print(best));
  write("best.cu", annotated_source(result.code, best, *options.work.search.target));
  write("best.launch.json", launch_manifest(result.code));
  if (launcher) {
    write(kLauncher, *launcher);
  } else {
    remove_old(options.folder + "/" + kLauncher);
  }
  write("report.json", report);
  write("report.html", report_html(result, options.work, measured));
  STRATA_TRY(const std::vector<std::string> cubins, write_cubins(result, options, deadline));
  STRATA_CHECK(all_written);
  if (const std::string worse = describe_missing_emitters(result, options.work.passes); !worse.empty())
    notice("note: {}; {}\n", worse, kBuildEmitters);
  if (options.json) {
    fmt::print("{}", report);
    return {};
  }
  print_parts(result);
  print_comparison(result, measured);
  print_profile(measured);
  if (const MemoryLayout memory = layout_of(manifest_of(result.code)); memory.separate_bytes > 0)
    fmt::print("between kernels: {}\n", describe(memory));
  if (const std::string layouts = describe_layouts(result.code); !layouts.empty()) fmt::print("{}\n", layouts);
  if (const std::string needed = needed_libraries(result.code); !needed.empty())
    fmt::print("needs at run time {}\n", needed);
  fmt::print("written: {}/best.strata, best.cu, best.launch.json, {}report.json, report.html{}{}\n", options.folder,
             launcher ? fmt::format("{}, ", kLauncher) : "", cubins.empty() ? "" : ", ", fmt::join(cubins, ", "));
  return {};
}

/// Of a program with dims: what was measured is kept for other sizes, and `made` gets what is said of this one.
void conclude_sizes(const Superoptimized& result, const Options& options, const Profile& measured, Made& made) {
  if (!options.work.sized) return;
  const bool chosen = measured.tuning && measured.tuning->result().measurement.verdict == MeasureVerdict::Right;
  keep_choice(result, options.work, chosen ? measured.tuning->device.name : "",
              chosen ? label(measured.tuning->result().schedules) : "");
  made.origin = describe_origin(result, options.work);
  made.measured = describe_measured(options.work);
}

/// The whole of one program, at one of its sizes where these have names.
Result<Made> optimize_one(const GraphPtr& program, Options options, const Setting& setting) {
  STRATA_CHECK(check_places(options));
  options.work.search.target = &setting.machine;
  Profile measured = setting.not_measured;
  // One deadline for all that follows. Where there is something to measure, it has a share of what is asked for, and
  // time of its own by default.
  const bool measuring = measured.skipped.empty();
  SearchOptions& search = options.work.search;
  search.stop = setting.stop;
  if (!options.time_limit_given) search.time_limit = kDefaultSeconds + (measuring ? options.profile.seconds : 0);
  const Deadline deadline = deadline_of(search);
  if (measuring && search.time_limit > 0) {
    search.time_limit -= std::min(options.profile.seconds, kMeasuringShare * search.time_limit);
    options.work.deadline = deadline.within(search.time_limit);
  } else {
    options.work.deadline = deadline;
  }
  ProgressLine line;
  options.work.progress = [&](const SearchProgress& progress) { line.show(progress_text(progress)); };
  options.work.stage_progress = [&](std::string_view stage, size_t done, size_t count) {
    line.show(count > 1 ? fmt::format("{}: {} of {}", stage, done, count) : std::string(stage));
  };
  options.work.stage_done = [&](std::string_view stage, double seconds, const Graph& graph) {
    if (options.dump_after != "all" && options.dump_after != stage) return;
    line.end();
    notice("# after {} ({:.3f} s)\n{}", stage, seconds, print(graph));
  };
  if (!options.shard.empty()) STRATA_CHECK(choose_shard(options));
  if (!options.checkpoint.empty()) {
    STRATA_TRY(options.work.search.checkpoint, Checkpoint::open(options.checkpoint, *program, options.work.search));
  }
  auto found = superoptimize(program, options.work);
  line.end();
  if (!found) return tl::unexpected(found.error());
  Superoptimized result = std::move(*found);
  Made made{result.candidates.front().cost.seconds, {}, {}};
  if (!options.shard.empty()) {
    const SearchStatistics& s = result.statistics;
    if (options.json) {
      fmt::print("{}", shard_json(result, options.work));
      return made;
    }
    fmt::print("shard {}: {} of its {} spaces after {:.2f} s; written: {}\n", options.shard, s.spaces_searched,
               s.spaces_total, s.seconds, options.checkpoint);
    return made;
  }
  // What is made of a measured choice is not measured again, unless that is asked for.
  const bool known = options.work.sized && is_made_of_known(result) && options.profile.mode != "on";
  if (measuring && known) measured.skipped = describe_measured(options.work);
  if (measuring && !known) measured = profile(result, options.work, options.profile, deadline);
  conclude_sizes(result, options, measured, made);
  made.seconds = result.candidates.front().cost.seconds;
  STRATA_CHECK(write_result(result, options, measured, deadline));
  return made;
}

/// A program with dims: an entry of the table for each size, one folder each where there are several.
Result<void> optimize_sizes(const SizedProgram& program, const std::vector<DimSizes>& table, const Options& options,
                            const Setting& setting) {
  const auto shared = std::make_shared<const SizedProgram>(program);
  SizeTable written{program, {}};
  const bool several = table.size() > 1;
  const std::string folder = options.folder;
  for (const DimSizes& wanted : table) {
    if (setting.watch.exit_code(kSuccess) != kSuccess) break;
    Options of_size = options;
    of_size.work.search.target = &setting.machine;
    of_size.json = options.json && !several;
    STRATA_TRY(const SizePlan plan, plan_size(shared, wanted, of_size.work));
    const auto same = [&](const SizeTable::Entry& entry) { return entry.sizes == plan.made; };
    if (several && !options.json) fmt::print("\n{}\n", to_string(plan.wanted));
    if (!plan.note.empty() && !options.json) fmt::print("{}\n", plan.note);
    if (std::any_of(written.entries.begin(), written.entries.end(), same)) continue;
    if (several) of_size.folder = folder + "/" + folder_of(plan.made);
    STRATA_TRY(const GraphPtr graph, program.at(plan.made));
    STRATA_TRY(const Made made, optimize_one(graph, of_size, setting));
    if (!options.json) fmt::print("sizes: {}, {}; {}\n", to_string(plan.made), made.origin, made.measured);
    written.entries.push_back({plan.made, several ? folder_of(plan.made) : ".", made.seconds,
                               fmt::format("{}; {}", made.origin, made.measured)});
  }
  const std::string text = print(written);
  STRATA_CHECK(write_file(folder + "/" + kSizeTable, text));
  if (several && options.json) fmt::print("{}", text);
  if (!options.json)
    fmt::print("written: {}/{}, {} size{}\n", folder, kSizeTable, written.entries.size(), several ? "s" : "");
  return {};
}

/// The sizes that are asked for: one, or those of a table. Error where the program has no dims.
Result<std::vector<DimSizes>> wanted_sizes(const SizedProgram& program, const Options& options) {
  STRATA_TRY(const DimSizes fixed, read_dims(options.dims));
  STRATA_TRY(std::vector<DimSizes> table, read_size_table(options.sizes, fixed, program));
  if (table.size() > 1 && !options.checkpoint.empty()) {
    return with_remedy(invalid("--checkpoint keeps one search, and --sizes asks for {} sizes", table.size()),
                       "name one size by --dim");
  }
  return table;
}

Result<int> run(Options& options) {
  if (options.checkpoint == kStandardInput) {
    return with_remedy(
        invalid("--checkpoint {} is the standard input; a checkpoint is read and written", kStandardInput),
        "name a file");
  }
  STRATA_TRY(const Source source, read_source(options.program));
  if (source.is_hlo) {
    return with_remedy(invalid("'{}' is HLO", shown_path(options.program)),
                       "strata emit and strata run take it, with --search-seconds to superoptimize its parts");
  }
  STRATA_TRY(const SizedProgram program, source.program());
  STRATA_TRY(const std::vector<DimSizes> table, wanted_sizes(program, options));
  std::stop_source stop;
  const InterruptWatch watch(stop);  // before the CUDA driver is opened: it starts threads of its own
  const bool named = options.target != "auto";
  // Opened only where it is needed: the driver takes its time.
  DeviceProbe probe = named && options.profile.mode != "on" ? DeviceProbe{} : probe_device();
  STRATA_TRY(const Target* target, choose_target(options.target, probe));
  const std::string folder = cache_folder(options.cache, options.no_cache);
  Target machine = probe.target != nullptr ? machine_of(*target, folder, probe) : machine_of(*target, folder);
  Profile not_measured;
  STRATA_TRY(not_measured.skipped, why_not_profiled(options.profile, probe, machine, named));
  if (options.folder.empty()) options.folder = "out/" + program.graph->name();
  const Setting setting{std::move(probe), std::move(machine), std::move(not_measured), watch, stop.get_token()};
  // Without a cache, a table has one that ends with the run: all entries are made of one search.
  std::optional<TemporaryFolder> of_run;
  if (folder.empty() && table.size() > 1) of_run.emplace("strata-sizes");
  const std::string kept = of_run ? of_run->path().string() : folder;
  std::optional<ResultCache> cache;
  if (!kept.empty()) {
    const auto warn = [](const std::string& text) { notice("warning: {}\n", text); };
    cache.emplace(kept, warn, static_cast<int64_t>(options.cache_limit));
    options.work.cache = &*cache;
  }
  choose_rules(options);
  if (program.dims.empty()) {
    remove_old(options.folder + "/" + kSizeTable);
    STRATA_CHECK(optimize_one(program.graph, options, setting));
  } else {
    STRATA_CHECK(make_folder(options.folder));
    STRATA_CHECK(optimize_sizes(program, table, options, setting));
  }
  return watch.exit_code(kSuccess);
}

}  // namespace

void add_optimize(CLI::App& app, Action& action, const Process& process) {
  auto options = std::make_shared<Options>();
  options->profile.worker = process.command;
  options->profile.worker.emplace_back(kMeasureWorker);
  SearchOptions& search = options->work.search;
  search.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  auto* command = app.add_subcommand("optimize", "Superoptimise a program: search, prove, generate and compile");
  command->add_option("PROGRAM", options->program, "a .strata file of predefined operators; - is the standard input")
      ->required();
  command->add_option("-o", options->folder, "folder for the results; default out/NAME");
  add_dim_option(*command, options->dims, "NAME=N: the size of a dim of the program; may be repeated");
  command
      ->add_option("--sizes", options->sizes,
                   "NAME=N,N,…: one artifact for these sizes of a dim; may be repeated, for all combinations")
      ->allow_extra_args(false);
  command->add_option("--target", options->target, "sm_80, sm_90a, or auto: the machine's GPU, else sm_90a")
      ->capture_default_str();
  add_number<int>(*command, "--threads", search.threads, {1, 1024}, "threads of the search and the proofs");
  add_number<int>(*command, "--max-kernel-ops", search.max_kernel_ops, {1, 64}, "operators of a kernel graph");
  add_number<int>(*command, "--max-block-ops", search.max_block_ops, {1, 64},
                  "operators of a block graph, iterators and savers apart");
  add_probability(*command, "--delta", options->work.delta, "accept a wrong graph with at most this probability");
  add_seconds(*command, "--solver-time-limit", options->work.solver_time_limit, 1e6,
              "seconds to prove a graph that the finite fields leave undecided");
  command->add_flag("--allow-unstable", options->work.allow_unstable,
                    "also return graphs that overflow for large inputs where the exact result does not");
  add_seconds(*command, "--time-limit", search.time_limit, 1e9,
              "seconds after which everything ends with the best result so far, measuring included; default 60, and "
              "--profile-seconds more where candidates are measured; 0: none")
      ->default_str("");
  command->add_option("--checkpoint", options->checkpoint, "file to resume the search from and to keep its work in");
  command->add_option("--shard", options->shard, "i/n: search the i-th of n slices, 0 first, into --checkpoint");
  command
      ->add_option("--disable-rule", options->disabled,
                   "a pruning rule of docs/search.md to do without; may be repeated")
      ->check(CLI::IsMember({"expression", "axes", "products", "sizes", "cost", "stability"}))
      ->allow_extra_args(false);
  std::vector<std::string> passes;
  for (const NamedPass& pass : kPasses) passes.emplace_back(pass.name);
  command
      ->add_option("--disable-pass", options->disabled_passes,
                   "a pass of docs/codegen.md to do without; may be repeated")
      ->check(CLI::IsMember(passes))
      ->allow_extra_args(false);
  command->add_flag("--one-kernel", options->work.passes.one_kernel,
                    "write the result as one persistent kernel (docs/codegen.md)");
  add_number<int>(*command, "--candidates", options->work.candidates, {1, 1000}, "graphs to prove and report");
  add_number<uint64_t>(*command, "--seed", search.seed, {}, "of all random tests");
  command->add_option("--dump-after", options->dump_after, "print the best graph after a stage, with its time")
      ->check(CLI::IsMember({"search", "thread-graphs", "verify", "compose", "codegen", "compile", "all"}));
  command
      ->add_option("--profile", options->profile.mode,
                   "measure the candidates on the machine's GPU: auto (where --target auto finds one), on or off")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  add_seconds(*command, "--profile-seconds", options->profile.seconds, 1e6,
              "seconds to measure candidates, from the first on");
  command
      ->add_option("--profile-order", options->profile.order,
                   "which are measured first: promise (the fastest by the model, as measurements correct it) or random "
                   "(what tells how good the model is)")
      ->check(CLI::IsMember({"promise", "random"}))
      ->capture_default_str();
  command->add_option("--cache", options->cache, "folder of the cache of results; default ~/.cache/strata");
  add_number<uint64_t>(*command, "--cache-limit", options->cache_limit, {0, INT64_MAX},
                       "bytes beyond which the cache drops the cubins least recently used", Unit::Bytes)
      ->default_str("2GiB");
  command->add_flag("--no-cache", options->no_cache, "neither read nor write the cache of results");
  command->add_flag("--json", options->json, "print report.json and nothing else");
  command->callback([options, command, &action] {
    options->time_limit_given = command->count("--time-limit") > 0;
    action = [options] { return run(*options); };
  });
}

}  // namespace strata::cli
