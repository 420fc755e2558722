// `strata machine` and `strata calibrate`: the description of a GPU that both back ends plan for.
#include <ctime>

#include "commands.h"
#include "machine/machine_text.h"
#include "machine_options.h"
#include "runtime/calibrate.h"
#include "runtime/calibration_file.h"

namespace strata::cli {
namespace {

struct Options {
  std::string target = "auto", cache;
  bool no_cache = false, json = false;
};

Result<int> print_machine(const Options& options) {
  const std::string folder = cache_folder(options.cache, options.no_cache);
  const Target* target = &default_target();
  Target machine;
  if (options.target == "auto") {
    const DeviceProbe probe = probe_device();
    if (probe.target != nullptr) target = probe.target;
    notice("target {}{}: {}\n", target->name, probe.target == nullptr ? " by default" : "", probe.finding);
    machine = machine_of(*target, folder, probe);
  } else {
    STRATA_TRY(target, or_auto(find_described_target(options.target)));
    machine = machine_of(*target, folder);
  }
  fmt::print("{}", options.json ? machine_json(machine) : describe(machine));
  return kSuccess;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

void print_calibration(const Target& target, const CalibrationRun& run) {
  fmt::print("{:<28}{:>12}  {:>24}  {:>12}\n", "rate", "measured", "least to most", "built in");
  for (const MeasuredRate& measured : run.calibration.rates) {
    const RateDescription* rate = find_rate(measured.name);
    if (rate == nullptr) {
      fmt::print("{:<28}{:>12.4g}  {:>24}  {:>12}\n", measured.name, measured.value,
                 fmt::format("{:.4g} to {:.4g}", measured.low, measured.high), "-");
      continue;
    }
    fmt::print("{:<28}{:>12}  {:>24}  {:>12}\n", measured.name, rate_text(*rate, measured.value),
               fmt::format("{:.4g} to {:.4g}", measured.low / rate->unit.scale, measured.high / rate->unit.scale),
               rate_text(*rate, target.rates.*rate->member));
  }
}

Result<int> measure(const Options& options) {
  const std::string folder = cache_folder(options.cache, false);
  if (folder.empty()) {
    return with_remedy(environment("neither XDG_CACHE_HOME nor HOME is set: there is no cache to write to"),
                       "name a folder with --cache");
  }
  const DeviceProbe probe = probe_device();
  if (probe.target == nullptr) {
    return with_remedy(environment("there is nothing to calibrate: {}", probe.finding),
                       "run it on a machine with a GPU of a target that strata machine knows");
  }
  STRATA_CHECK(make_folder(folder));
  STRATA_CHECK(check_writable(folder, "--cache"));
  STRATA_TRY(const std::unique_ptr<GpuDevice> device, GpuDevice::open());
  notice("calibrating {}: {}\n", probe.target->name, probe.finding);
  STRATA_TRY(const CalibrationRun run, calibrate(*device, *probe.target, today()));
  print_calibration(*probe.target, run);
  for (const std::string& note : run.notes) notice("note: {}\n", note);
  STRATA_TRY(const std::string path, store_calibration(folder, run.calibration));
  fmt::print("{}\n", path);
  return kSuccess;
}

}  // namespace

void add_machine(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("machine", "Print a GPU's limits, and the rates that the cost models take");
  command->add_option("--target", options->target, "sm_80, sm_90a, sm_100a, or auto: the machine's GPU, else sm_90a")
      ->capture_default_str();
  command->add_option("--cache", options->cache, "folder with what strata calibrate measured; default ~/.cache/strata");
  command->add_flag("--no-cache", options->no_cache, "only what is built in");
  command->add_flag("--json", options->json, "as JSON, in seconds, bytes/s and operations/s");
  command->callback([options, &action] { action = [options] { return print_machine(*options); }; });
}

void add_calibrate(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("calibrate", "Measure the rates of the machine's GPU, for later estimates");
  command->add_option("--cache", options->cache, "folder to write them to; default ~/.cache/strata");
  command->callback([options, &action] { action = [options] { return measure(*options); }; });
}

}  // namespace strata::cli
