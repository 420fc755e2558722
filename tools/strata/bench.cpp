// `strata bench`: the benchmark table of docs/benchmarks.md on the machine's GPU. Strata's part is `strata optimize
// --profile on` of each program; peers are PyTorch's, so that bench/gpu/bench.py times both sides, in one run.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "commands.h"
#include "options.h"
#include "runtime/device_probe.h"

extern char** environ;

namespace strata::cli {
namespace {

namespace fs = std::filesystem;

/// The largest --time-limit of `strata optimize`.
constexpr double kMostSeconds = 1e9;

struct Options {
  std::string programs = "programs/bench", folder = "out/bench", results = "bench/results", only, python = "python3";
  double time_limit = 20;
  double profile_seconds = 20;
  bool no_compile = false;
};

/// Runs a command to its end; its exit code, 128 and the signal's number where one ended it.
Result<int> run_command(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
  if (failed != 0) {
    return with_remedy(environment("cannot start '{}': {}", words[0], std::strerror(failed)),
                       "name a program that exists; --python names the one that times the peers");
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return with_remedy(environment("lost '{}': {}", words[0], std::strerror(errno)), "run it again");
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// The script beside the programs of a source tree.
Result<fs::path> bench_script(const Options& options) {
  const fs::path root = fs::absolute(options.programs).parent_path().parent_path();
  const fs::path script = root / "bench" / "gpu" / "bench.py";
  if (fs::exists(script)) return script;
  return tl::unexpected(Error{ErrorCode::Environment,
                              fmt::format("'{}' is missing: it times the peers", script.string()),
                              "give --programs as the folder programs/bench of a source tree",
                              {}});
}

Result<std::vector<fs::path>> programs_of(const Options& options) {
  std::vector<fs::path> programs;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(options.programs, failed)) {
    const bool wanted = entry.path().filename().string().find(options.only) != std::string::npos;
    if (entry.path().extension() == ".strata" && wanted) programs.push_back(entry.path());
  }
  if (failed) {
    return with_remedy(environment("cannot read the folder '{}': {}", options.programs, failed.message()),
                       "give --programs as the folder programs/bench of a source tree");
  }
  if (programs.empty()) {
    return with_remedy(invalid("no program in '{}' has '{}' in its name", options.programs, options.only),
                       "name one with --only that is there, or leave --only out");
  }
  std::sort(programs.begin(), programs.end());
  return programs;
}

/// `program` are the words that start this program again.
Result<int> run(const Options& options, const std::vector<std::string>& program) {
  STRATA_TRY(const std::vector<fs::path> programs, programs_of(options));
  STRATA_TRY(const fs::path script, bench_script(options));
  const DeviceProbe probe = probe_device();
  if (probe.target == nullptr) {
    return tl::unexpected(
        Error{ErrorCode::Environment, "bench: " + probe.finding, "run it on a machine with a GPU", {}});
  }
  std::error_code failed;
  int broken = 0;
  for (size_t i = 0; i < programs.size(); ++i) {
    const std::string name = programs[i].stem().string();
    const std::string folder = fmt::format("{}/{}@best", options.folder, name);
    fmt::print("{} of {}: {}\n", i + 1, programs.size(), name);
    std::fflush(stdout);
    fs::remove_all(folder, failed);  // what an earlier run left would pass for this one's
    std::vector<std::string> optimize = program;
    optimize.insert(optimize.end(),
                    {"optimize", programs[i].string(), "--profile", "on", "--time-limit",
                     fmt::format("{}", std::min(options.time_limit + options.profile_seconds, kMostSeconds)),
                     "--profile-seconds", fmt::format("{}", options.profile_seconds), "-o", folder});
    STRATA_TRY(const int code, run_command(std::move(optimize)));
    if (code == 0) continue;
    if (code == kInterrupted || code > 128) return kInterrupted;
    ++broken;
    notice("{}: strata optimize ends with {}; it will have no row\n", name, code);
  }
  std::vector<std::string> command{options.python, script.string(), options.folder, "--results", options.results};
  if (!options.only.empty()) command.insert(command.end(), {"--only", options.only});
  if (options.no_compile) command.emplace_back("--no-compile");
  STRATA_TRY(const int code, run_command(command));
  if (code != 0) {
    return with_remedy(
        environment("{} ends with {}; it needs PyTorch with CUDA, and the package strata", script.string(), code),
        "name a Python that has both with --python");
  }
  return broken == 0 ? kSuccess : kEnvironment;
}

}  // namespace

void add_bench(CLI::App& app, Action& action, const Process& process) {
  auto options = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("bench", "Run the benchmark table on this machine's GPU, beside PyTorch's kernels");
  command->add_option("--programs", options->programs, "folder of programs, programs/bench of a source tree")
      ->capture_default_str();
  command->add_option("--only", options->only, "programs with this in their names");
  command->add_option("-o", options->folder, "folder for what `strata optimize` writes")->capture_default_str();
  command->add_option("--results", options->results, "folder for DEVICE-DATE.json, which rows are added to, and .svg")
      ->capture_default_str();
  command->add_option("--python", options->python, "a Python with PyTorch and the package strata")
      ->capture_default_str();
  add_seconds(*command, "--time-limit", options->time_limit, kMostSeconds, "seconds a program before measuring");
  add_seconds(*command, "--profile-seconds", options->profile_seconds, 1e6, "seconds of measuring a program");
  command->add_flag("--no-compile", options->no_compile, "leave out torch.compile, which takes minutes");
  command->callback([options, &action, program = process.command] {
    action = [options, program] { return run(*options, program); };
  });
}

}  // namespace strata::cli
