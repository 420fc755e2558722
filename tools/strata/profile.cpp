#include "profile.h"

#include "notice.h"
#include "progress_line.h"
#include "report/report.h"
#include "superopt/codegen/libraries.h"

namespace strata::cli {
namespace {

/// Rows of each kind that are printed; report.json has all.
constexpr int kPrinted = 16;
/// Of the time that is left for measuring; the rest proves and compiles what is the fastest.
constexpr double kMeasuringShare = 0.85;

void print_row(const Tuning& tuning, const TunedRow& row) {
  const Measurement& m = row.measurement;
  const bool right = m.verdict == MeasureVerdict::Right;
  const auto cell = [&](double value) { return right ? fmt::format("{:.2f}", value) : std::string("-"); };
  fmt::print("{:<10} {:<12} {:>12.2f} {:>9} {:>9} {:>9}  {}\n", candidate_name(row), row_label(row), row.estimated_us,
             cell(m.cold_us), cell(m.hot_us), right ? fmt::format("{:.1e}", m.error) : "-", describe_row(tuning, row));
}

}  // namespace

Result<std::string> why_not_profiled(const ProfileOptions& options, const DeviceProbe& probe, const Target& target,
                                     bool named) {
  if (options.mode == "off") return "--profile off";
  if (options.mode == "auto") {
    if (named) return "--target names one, and --profile on was not given";
    return probe.target == nullptr ? probe.finding : std::string();
  }
  if (probe.target == nullptr) {
    return tl::unexpected(Error{ErrorCode::Environment,
                                "--profile on: " + probe.finding,
                                "run it on a machine with a GPU, or without --profile on",
                                {}});
  }
  if (probe.target->name != target.name) {
    return tl::unexpected(
        Error{ErrorCode::InvalidInput,
              fmt::format("--profile on: the machine's GPU is {} and runs no code for {}", probe.finding, target.name),
              fmt::format("use --target auto or --target {}", probe.target->name),
              {}});
  }
  return std::string();
}

Profile profile(Superoptimized& result, const SuperoptimizeOptions& work, const ProfileOptions& options,
                const Deadline& deadline) {
  TuneOptions tuning;
  tuning.target = work.search.target;
  tuning.seconds = options.seconds;
  tuning.threads = work.search.threads;
  tuning.seed = work.search.seed;
  tuning.order = options.order == "random" ? TuneOrder::Random : TuneOrder::Promise;
  tuning.passes = work.passes;
  if (tuning.passes.emitter) tuning.passes.emitter = tuning.passes.emitter->until(deadline);
  tuning.cache = work.cache;
  tuning.measure.command = options.worker;
  tuning.deadline = deadline.share(kMeasuringShare);
  ProgressLine line;
  tuning.listing = [&](size_t done, size_t count) {
    line.show(fmt::format("schedules: {} of {} estimated", done, count));
  };
  tuning.progress = [&](const TuneProgress& p) {
    const std::string best = p.best_us > 0 ? fmt::format("{:.2f} µs", p.best_us) : std::string("none yet");
    line.show(fmt::format("measured {} of {}  best {}", p.measured, p.rows, best));
  };
  line.show("measuring: preparing inputs and expected results");
  auto made = tune(result, tuning);
  if (!made) {
    line.end();
    notice("warning: nothing was measured: {}\n", made.error().message);
    return {std::nullopt, made.error().message};
  }
  line.show("proving and compiling the fastest");
  SuperoptimizeOptions proofs = work;
  proofs.deadline = deadline;
  const auto taken = take_chosen(result, *made, tuning, proofs);
  line.end();
  if (!taken) {
    notice("warning: the fastest cannot be made again: {}\n", taken.error().message);
    return {std::nullopt, taken.error().message};
  }
  return {std::move(*made), {}};
}

void print_profile(const Profile& profile) {
  if (!profile.tuning) {
    fmt::print("not measured ({}): the best is the cost model's choice\n", profile.skipped);
    return;
  }
  const Tuning& tuning = *profile.tuning;
  fmt::print("\nmeasured on {}\n", describe_tuning(tuning));
  fmt::print("{:<10} {:<12} {:>12} {:>9} {:>9} {:>9}  {}\n", "candidate", "schedule", "estimated µs", "cold µs",
             "hot µs", "error", "why not");
  int right = 0;
  int other = 0;
  int left_out = 0;
  for (const TunedRow& row : tuning.rows) {
    const MeasureVerdict verdict = row.measurement.verdict;
    const bool shown = verdict == MeasureVerdict::Right         ? right++ < kPrinted
                       : verdict == MeasureVerdict::NotMeasured ? false
                                                                : other++ < kPrinted;
    if (shown || row.is_program || &row == &tuning.result()) {
      print_row(tuning, row);
    } else {
      ++left_out;
    }
  }
  if (left_out > 0) fmt::print("and {} more: report.json\n", left_out);
  const std::string ranking = describe_ranking(tuning);
  if (!ranking.empty()) fmt::print("{}\n", ranking);
  if (tuning.result().measurement.verdict == MeasureVerdict::NotMeasured) {
    fmt::print("the result is the cost model's choice, which was not measured: {}\n",
               tuning.result().measurement.reason);
  } else if (tuning.result().is_program && uses_library(tuning.result().schedules)) {
    fmt::print("the result is the input program with operators by a library: no candidate was measured to be faster\n");
  } else if (tuning.result().is_program) {
    fmt::print("the result is the input program: no candidate was measured to be right and faster\n");
  }
  fmt::print("\n");
}

}  // namespace strata::cli
