// The subcommands of `strata`, one file each. A subcommand adds its options to the parser and, if it was chosen, runs.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "notice.h"
#include "run_commands.h"
#include "support/error.h"
#include "support/write_file.h"

namespace strata::cli {

/// Exit codes, as documented in docs/command-line.md.
enum ExitCode : int { kSuccess = 0, kDifferent = 1, kBadInput = 2, kEnvironment = 3, kInterrupted = 130 };

/// What a chosen subcommand does; its value is the exit code.
using Action = std::function<Result<int>()>;

void add_optimize(CLI::App& app, Action& action, const Process& process);
void add_verify(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_show(CLI::App& app, Action& action);
void add_merge(CLI::App& app, Action& action);
void add_ops(CLI::App& app, Action& action);
void add_emit(CLI::App& app, Action& action);
void add_machine(CLI::App& app, Action& action);
void add_calibrate(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action, const Process& process);
void add_decode(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action, const Process& process);
void add_explain(CLI::App& app, Action& action);
void add_completions(CLI::App& app, Action& action);
void add_measure_worker(CLI::App& app, Action& action);

/// The subcommand that measures for `optimize`, in a process of its own.
inline constexpr const char* kMeasureWorker = "measure-worker";

/// Makes a folder and those above it.
Result<void> make_folder(const std::string& path);
/// Makes a file in a folder and removes it; Error (Environment) where that fails. `option` names what chose the folder.
Result<void> check_writable(const std::string& folder, std::string_view option);

}  // namespace strata::cli
