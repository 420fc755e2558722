#include "superopt/tune.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "interpret/work.h"
#include "runtime/compile.h"
#include "superopt/codegen/libraries.h"
#include "superopt/in_parallel.h"
#include "superopt/tune_queue.h"
#include "superopt/tune_reference.h"
#include "support/hash.h"
#include "support/temporary_folder.h"
#include "support/write_file.h"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr const char* kKind = "measurement";
/// Of the way in which kernels are timed: another one makes old measurements worthless.
constexpr int kMethod = 2;
/// Timeouts of a graph after which its other schedules are left out.
constexpr int kMostTimeouts = 2;
/// Measurements in a row for which the process does not start; then the GPU is taken for lost.
constexpr int kMostLost = 3;

constexpr const char* kInterpreted = "the interpreter in float64";
constexpr const char* kOwnKernels =
    "the program as given in its own kernels on the GPU (the interpreter would take too long)";

/// All rows, the most promising first; the program as given among them. There can be thousands, each of which costs the
/// model as much as generating its code, so that they are rated on all threads.
Result<std::vector<TunedRow>> all_rows(const Superoptimized& result, const TuneOptions& options,
                                       const AvailableLibraries& available, const Deadline& deadline) {
  std::vector<std::pair<GraphPtr, int>> graphs;
  for (size_t c = 0; c < result.candidates.size(); ++c)
    graphs.emplace_back(result.candidates[c].graph, static_cast<int>(c));
  Passes passes = options.passes;
  passes.libraries = passes.libraries && available.cublas_lt;
  const bool has_program =
      std::any_of(graphs.begin(), graphs.end(), [&](const auto& entry) { return entry.first == result.program; });
  if (!has_program) graphs.emplace_back(result.program, -1);

  std::vector<std::vector<Schedules>> schedules(graphs.size());
  in_parallel(options.threads, graphs.size(), [&](size_t i) {
    if (deadline.passed()) return;
    schedules[i] = all_schedules(*graphs[i].first, *options.target, options.passes, available);
  });
  std::vector<TunedRow> rows;
  for (size_t i = 0; i < graphs.size(); ++i) {
    const auto& [graph, candidate] = graphs[i];
    for (Schedules& one : schedules[i]) rows.push_back({graph, candidate, graph == result.program, std::move(one)});
  }
  std::atomic<size_t> rated = 0;
  in_parallel(options.threads, rows.size(), [&](size_t i) {
    if (deadline.passed()) return;
    rows[i].estimated_us = emitted_cost(*rows[i].graph, *options.target, rows[i].schedules, passes).seconds * 1e6;
    if (options.listing) options.listing(++rated, rows.size());
  });
  if (deadline.passed()) {
    return tl::unexpected(Error{ErrorCode::Interrupted, "there was no time to list what could be measured", {}, {}});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const TunedRow& a, const TunedRow& b) { return a.estimated_us < b.estimated_us; });
  for (size_t i = 0; i < rows.size(); ++i) rows[i].place = static_cast<int>(i) + 1;
  return rows;
}

std::string measurement_json(const Measurement& m) {
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  return Json{{"right", m.verdict == MeasureVerdict::Right},
              {"reason", m.reason},
              {"error", m.error},
              {"cold_us", m.cold_us},
              {"hot_us", m.hot_us},
              {"unix_time", now.count()}}
      .dump();
}

std::optional<Measurement> measurement_of(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    Measurement m;
    m.verdict = json.at("right").get<bool>() ? MeasureVerdict::Right : MeasureVerdict::Wrong;
    m.reason = json.at("reason").get<std::string>();
    m.error = json.at("error").is_null() ? std::nan("") : json.at("error").get<double>();
    m.cold_us = json.at("cold_us").get<double>();
    m.hot_us = json.at("hot_us").get<double>();
    // No time is 0 or less, or without end: it would be the fastest, or never lose.
    const auto is_time = [](double us) { return std::isfinite(us) && us > 0; };
    if (m.verdict == MeasureVerdict::Right && !(is_time(m.cold_us) && is_time(m.hot_us) && m.error >= 0))
      return std::nullopt;
    return m;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

/// What compiling threads hand to the one that measures.
struct Prepared {
  bool ready = false;
  bool shares = false;  ///< launches
  bool taken = false;
  std::optional<Error> error;
  std::optional<Measurement> known;  ///< from the cache
  std::string known_since;
  std::string key, manifest;
  std::vector<char> cubin;
};

class Tuner {
 public:
  Tuner(const Superoptimized& result, const TuneOptions& options)
      : result_(result), program_(result.program), options_(options), worker_(options.measure) {
    tuning_.reference = execution_work(*program_) > options.largest_interpreted ? kOwnKernels : kInterpreted;
  }

  Result<Tuning> run() {
    if (folder_.path().empty()) return environment("cannot make a temporary folder");
    STRATA_TRY(tuning_.device, worker_.start(stop_));
    STRATA_CHECK(list_rows());
    // Plain threads: a compilation is one long task that shares nothing.
    for (int t = 0; t < options_.threads; ++t) compiling_.emplace_back([this] { compile_all(); });
    auto measured = measure_all();
    if (measured) measured = measure_apart();
    quit_ = true;
    compiling_.clear();
    STRATA_CHECK(measured);
    for (TunedRow& row : tuning_.rows) {
      if (row.measurement.verdict == MeasureVerdict::NotMeasured && row.measurement.reason.empty())
        row.measurement.reason = options_.deadline.interrupted() ? "interrupted"
                                 : lost_ >= kMostLost            ? "the GPU was lost"
                                                                 : "out of time";
    }
    rank();
    tuning_.seconds = seconds();
    return std::move(tuning_);
  }

 private:
  Result<void> list_rows() {
    const MeasureDevice& device = tuning_.device;
    const AvailableLibraries available{.cublas_lt = !device.cublas_lt.empty(), .cudnn = !device.cudnn.empty()};
    STRATA_TRY(tuning_.rows, all_rows(result_, options_, available, deadline_));
    prepared_.resize(tuning_.rows.size());
    queue_.emplace(tuning_.rows, options_.order, options_.seed);
    return {};
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double measuring_seconds() const {
    return measuring_since_ ? std::chrono::duration<double>(Clock::now() - *measuring_since_).count() : 0;
  }
  bool late() const { return measuring_seconds() >= options_.seconds; }

  // Compiling, on threads of its own

  void compile_all() {
    while (!quit_ && !deadline_.passed()) {
      const auto row = queue_->next();
      if (!row) return;
      Prepared made = prepare(tuning_.rows[*row]);
      const std::scoped_lock lock(mutex_);
      prepared_[*row] = std::move(made);
      changed_.notify_one();
    }
  }

  Prepared prepare(const TunedRow& row) {
    Prepared made;
    made.ready = true;
    Passes passes = options_.passes;
    passes.grouping = passes.grouping && row.grouped;
    passes.libraries = passes.libraries && !tuning_.device.cublas_lt.empty();  // of emitters' products
    const auto code = generate_cuda(*row.graph, *options_.target, row.schedules, passes);
    if (!code) {
      made.error = code.error();
      return made;
    }
    made.shares = code->saved.kernels > 0;
    made.manifest = launch_manifest(*code, ManifestAccesses::Left);
    made.key = key_of(*code, made.manifest);
    if (options_.cache != nullptr) {
      if (const auto entry = options_.cache->find(kKind, made.key)) {
        made.known = measurement_of(entry->value);
        made.known_since = entry->created;
      }
    }
    if (made.known) return made;
    const auto by_library = [](const KernelLaunch& launch) { return launch.library.has_value(); };
    const bool no_kernels = std::all_of(code->launches.begin(), code->launches.end(), by_library);
    std::call_once(referenced_, [&] {
      reference_ = std::async(std::launch::async, [this] {
        return make_reference(*program_, options_.seed, options_.largest_interpreted, folder_.path(), stop_);
      });
    });
    if (no_kernels) return made;
    auto cubin = options_.compile ? options_.compile(code->source)
                                  : cubin_of(code->source, *options_.target, options_.cache, stop_);
    if (cubin) {
      made.cubin = std::move(*cubin);
    } else {
      made.error = cubin.error();
    }
    return made;
  }

  /// Of what it launches: another version may have another kernel.
  std::string library_versions(const GeneratedProgram& code) const {
    bool products = false;
    bool convolutions = false;
    for (const KernelLaunch& launch : code.launches) {
      products |= launch.product() != nullptr;
      convolutions |= launch.convolution() != nullptr;
    }
    return (products ? " cuBLASLt " + tuning_.device.cublas_lt : "") +
           (convolutions ? " cuDNN " + tuning_.device.cudnn : "");
  }

  std::string key_of(const GeneratedProgram& code, const std::string& manifest) const {
    std::string shapes;
    for (const auto* buffers : {&code.inputs, &code.outputs}) {
      for (const DeviceBuffer& buffer : *buffers) shapes += fmt::format(" {} {}", buffer.name, to_string(buffer.type));
    }
    return fmt::format(
        "{}\ndriver {}{}\nmethod {}\ntarget {}\nsource {:016x} {}\nlaunches {:016x}\nagainst {}\nseed {}\n{}",
        tuning_.device.name, tuning_.device.driver_version, library_versions(code), kMethod, options_.target->name,
        Hasher().add(code.source).value(), code.source.size(), Hasher().add(manifest).value(), tuning_.reference,
        options_.seed, shapes);
  }

  // Measuring, on the caller's thread

  /// The first row in order that is compiled and not yet taken; none where all are, or time is up.
  std::optional<size_t> take_next() {
    std::unique_lock lock(mutex_);
    while (lost_ < kMostLost) {
      size_t open = 0;
      for (size_t i : queue_->order()) {
        if (prepared_[i].taken) continue;
        ++open;
        const bool must = must_measure(tuning_.rows[i]);
        if (deadline_.passed() || (late() && !must)) return std::nullopt;
        if (prepared_[i].ready) {
          prepared_[i].taken = true;
          return i;
        }
        if (must) break;
      }
      if (open == 0) return std::nullopt;
      changed_.wait_for(lock, std::chrono::milliseconds(50));
    }
    return std::nullopt;
  }

  Result<void> measure_all() {
    while (const auto next = take_next()) {
      TunedRow& row = tuning_.rows[*next];
      if (!measuring_since_ && !must_measure(row)) measuring_since_ = Clock::now();
      STRATA_CHECK(measure_row(row, prepared_[*next]));
      if (row.measurement.verdict == MeasureVerdict::Right) queue_->measured(*next, row.measurement.cold_us);
      if (options_.progress) report();
    }
    return {};
  }

  /// The fastest with its launches apart, where independent kernels share some: in time or not, unless all must end.
  Result<void> measure_apart() {
    size_t fastest = tuning_.rows.size();
    for (size_t i = 0; i < tuning_.rows.size(); ++i) {
      const Measurement& m = tuning_.rows[i].measurement;
      if (m.verdict != MeasureVerdict::Right) continue;
      if (fastest == tuning_.rows.size() || m.cold_us < tuning_.rows[fastest].measurement.cold_us) fastest = i;
    }
    if (fastest == tuning_.rows.size() || !prepared_[fastest].shares || deadline_.passed() || lost_ >= kMostLost)
      return {};
    apart_ = tuning_.rows[fastest];
    apart_->grouped = false;
    apart_->place = static_cast<int>(tuning_.rows.size()) + 1;
    apart_->measurement = {};
    apart_->measured_at.clear();
    Prepared prepared = prepare(*apart_);
    return measure_row(*apart_, prepared);
  }

  /// Unless it is known what would come out, or that nothing would.
  Result<void> measure_row(TunedRow& row, Prepared& prepared) {
    if (prepared.known) {
      row.measurement = *prepared.known;
      row.measured_at = prepared.known_since;
    } else if (prepared.error) {
      // A missing compiler is missing for all.
      if (prepared.error->code == ErrorCode::Environment) return tl::unexpected(*prepared.error);
      row.measurement.verdict = MeasureVerdict::Failed;
      row.measurement.reason = "not compiled: " + prepared.error->message.substr(0, prepared.error->message.find('\n'));
    } else if (timeouts_[{row.graph, uses_library(row.schedules)}] == kMostTimeouts) {
      row.measurement.reason = "other schedules of this graph gave no answer";
    } else {
      STRATA_TRY(const TuneReference* reference, reference_files());
      if (!measuring_since_) measuring_since_ = Clock::now();
      STRATA_TRY(row.measurement, measure(*reference, prepared));
      if (row.measurement.verdict == MeasureVerdict::Timeout) ++timeouts_[{row.graph, uses_library(row.schedules)}];
    }
    prepared.cubin = {};
    return {};
  }

  Result<Measurement> measure(const TuneReference& reference, const Prepared& prepared) {
    MeasureRequest request;
    STRATA_TRY(request.cubin, write("program.cubin", {prepared.cubin.data(), prepared.cubin.size()}));
    STRATA_TRY(request.manifest, write("program.launch.json", prepared.manifest));
    request.inputs = reference.inputs;
    request.expected = reference.expected;
    auto measured = worker_.measure(request, stop_);
    Measurement measurement;
    if (measured) {
      measurement = std::move(*measured);
      lost_ = 0;
    } else if (measured.error().code != ErrorCode::Interrupted) {
      // A fault can leave the GPU without life for a while. What is measured so far counts.
      measurement.verdict = MeasureVerdict::Failed;
      measurement.reason = measured.error().message;
      ++lost_;
    }
    // What a fault or a timeout says of the next run is little.
    if (options_.cache != nullptr &&
        (measurement.verdict == MeasureVerdict::Right || measurement.verdict == MeasureVerdict::Wrong)) {
      options_.cache->store(kKind, prepared.key, measurement_json(measurement));
    }
    return measurement;
  }

  Result<const TuneReference*> reference_files() {
    if (!files_) {
      STRATA_TRY(files_, reference_.get());
      if (tuning_.reference == kOwnKernels) STRATA_CHECK(run_own_kernels());
    }
    return &*files_;
  }

  /// The program's outputs as its own kernels make them.
  Result<void> run_own_kernels() {
    STRATA_TRY(const GeneratedProgram code, generate_cuda(*program_, *options_.target));
    STRATA_TRY(const std::vector<char> cubin, options_.compile
                                                  ? options_.compile(code.source)
                                                  : cubin_of(code.source, *options_.target, options_.cache, stop_));
    MeasureRequest request;
    STRATA_TRY(request.cubin, write("own.cubin", {cubin.data(), cubin.size()}));
    STRATA_TRY(request.manifest, write("own.launch.json", launch_manifest(code, ManifestAccesses::Left)));
    request.inputs = files_->inputs;
    for (size_t i = 0; i < code.outputs.size(); ++i) {
      request.save[code.outputs[i].name] = (folder_.path() / fmt::format("expected{}.npy", i)).string();
    }
    STRATA_TRY(const Measurement made, worker_.measure(request, stop_));
    if (made.verdict != MeasureVerdict::Right) {
      return unsupported("the program's own kernels make nothing to compare with: {}", made.reason);
    }
    files_->expected = request.save;
    return {};
  }

  Result<std::string> write(const std::string& name, std::string_view contents) const {
    const std::string path = (folder_.path() / name).string();
    STRATA_CHECK(write_file(path, contents, Sync::None));
    return path;
  }

  void report() const {
    TuneProgress progress;
    progress.rows = static_cast<int>(tuning_.rows.size());
    progress.seconds = seconds();
    for (const TunedRow& row : tuning_.rows) {
      const Measurement& m = row.measurement;
      if (m.verdict != MeasureVerdict::NotMeasured) ++progress.measured;
      if (m.verdict == MeasureVerdict::Right && (progress.best_us == 0 || m.cold_us < progress.best_us))
        progress.best_us = m.cold_us;
    }
    options_.progress(progress);
  }

  void rank() {
    queue_->correct(tuning_.rows);
    if (apart_) {
      const auto grouped = std::find_if(tuning_.rows.begin(), tuning_.rows.end(), [&](const TunedRow& row) {
        return row.graph == apart_->graph && row.schedules == apart_->schedules;
      });
      apart_->corrected_us = grouped->corrected_us;
      tuning_.rows.push_back(*apart_);
    }
    std::vector<std::pair<double, double>> pairs;
    std::vector<std::pair<double, double>> corrected;
    for (const TunedRow& row : tuning_.rows) {
      if (row.measurement.verdict != MeasureVerdict::Right) continue;
      pairs.emplace_back(row.estimated_us, row.measurement.cold_us);
      corrected.emplace_back(row.corrected_us, row.measurement.cold_us);
    }
    tuning_.rank_correlation = rank_correlation(pairs);
    tuning_.corrected_rank_correlation = rank_correlation(corrected);
    std::stable_sort(tuning_.rows.begin(), tuning_.rows.end(), [](const TunedRow& a, const TunedRow& b) {
      const bool a_right = a.measurement.verdict == MeasureVerdict::Right;
      const bool b_right = b.measurement.verdict == MeasureVerdict::Right;
      return a_right != b_right ? a_right : a_right && a.measurement.cold_us < b.measurement.cold_us;
    });
    const auto place_of = [&](const TunedRow& row) { return static_cast<size_t>(&row - tuning_.rows.data()); };
    const TunedRow& fastest = tuning_.rows.front();
    const TunedRow& first =
        *std::find_if(tuning_.rows.begin(), tuning_.rows.end(), [](const TunedRow& row) { return row.place == 1; });
    const bool guess = first.measurement.verdict == MeasureVerdict::NotMeasured;
    const bool right = fastest.measurement.verdict == MeasureVerdict::Right;
    // The program alone was measured, or nothing: that says nothing against the model's choice.
    tuning_.chosen = place_of(guess && (!right || fastest.is_program) ? first : right ? fastest : tuning_.program());
  }

  const Superoptimized& result_;
  GraphPtr program_;
  const TuneOptions& options_;
  const Deadline deadline_ = options_.deadline.without_grace();
  const std::stop_token stop_ = deadline_.token();
  Clock::time_point start_ = Clock::now();
  std::optional<Clock::time_point> measuring_since_;  ///< that what all rows need is there, or a row needs none
  TemporaryFolder folder_{"strata-tune"};
  MeasureWorker worker_;
  Tuning tuning_;
  std::optional<TuneQueue> queue_;
  std::optional<TunedRow> apart_;                      ///< the fastest row, not grouped
  std::map<std::pair<GraphPtr, bool>, int> timeouts_;  ///< by graph, and whether a library computes
  int lost_ = 0;                                       ///< measurements in a row for which no process could be started

  std::once_flag referenced_;
  std::future<Result<TuneReference>> reference_;
  std::optional<TuneReference> files_;

  std::mutex mutex_;  ///< of what is prepared
  std::condition_variable changed_;
  std::vector<Prepared> prepared_;
  std::atomic<bool> quit_ = false;
  std::vector<std::jthread> compiling_;
};

}  // namespace

Result<Tuning> tune(const Superoptimized& result, const TuneOptions& options) { return Tuner(result, options).run(); }

}  // namespace strata
