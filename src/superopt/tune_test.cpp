#include "superopt/tune.h"

#include <gmock/gmock.h>
#include <sqlite3.h>

#include <map>

#include "interpret/interpret.h"
#include "interpret/typical_inputs.h"
#include "ir/text.h"
#include "runtime/storage.h"
#include "runtime/test_driver.h"
#include "test_paths.h"

namespace strata {
namespace {

using testing::HasSubstr;

constexpr const char* kProgram = R"(graph program {
  input A: f16[16, 64]
  B = exp(A)
  O = sqr(B)
  output O
}
)";

/// What candidates compute does not matter here: scripts in the place of their cubins say what they do.
std::string fused(const std::string& name, int blocks) {
  return fmt::format(R"(graph {} {{
  input A: f16[16, 64]
  O = block(A, grid=[{}]) {{
    a = in_iter(A, imap=[0])
    b = exp(a)
    c = sqr(b)
    O = out_saver(c, omap=[0])
  }}
  output O
}}
)",
                     name, blocks);
}

GraphPtr parse(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return *graph;
}

class TuneTest : public FakeDriverTest {
 protected:
  void SetUp() override {
    FakeDriverTest::SetUp();
    result_.program = parse(kProgram);
    Float64Arithmetic exact;
    const auto outputs = execute(*result_.program, exact, typical_inputs(*result_.program, 1));
    ASSERT_TRUE(outputs);
    const std::string right = encode((*outputs)[0], DType::F16);
    write_ = "write 1 " + file("right.raw", right) + "\n";
    // The program's last kernel makes its output.
    scripts_["program"] = "kernel program_0_kernel\nfill 1 0\nkernel program_1_kernel\n" + write_ + "time 9\n";
    options_.target = &targets().back();
    options_.threads = 2;
    options_.seconds = 600;
    options_.measure.command = {STRATA_BINARY_DIR "/bin/fake_measure_worker"};
    options_.measure.timeout = 60;
    options_.compile = [this](const std::string& source) { return compile(source); };
  }

  /// The script of the graph that the source's comment shows.
  Result<std::vector<char>> compile(const std::string& source) {
    ++compiled_;
    for (const auto& [name, script] : scripts_) {
      if (source.find("// graph " + name + " {") == std::string::npos) continue;
      if (script == "no source") return unsupported("a syntax error\nin line 3");
      if (script == "no compiler") return environment("NVRTC was not found");
      return std::vector<char>(script.begin(), script.end() + 1);
    }
    return unsupported("no script");
  }

  void add(const std::string& name, const std::string& script) {
    scripts_[name] = script;
    result_.candidates.push_back(
        as_candidate(parse(fused(name, 16 >> std::min<size_t>(4, result_.candidates.size()))), *options_.target));
  }
  /// A proof at shrunk shapes, as the search makes them; what it claims may be wrong.
  void claim(Candidate& candidate) const {
    candidate.full_shape = false;
    candidate.steps = {std::make_shared<ProofStep>(
        ProofStep{result_.program, candidate.graph, candidate.verification, candidate.errors, false, {}, {}})};
  }
  std::string right(double us) const { return write_ + fmt::format("time {}\n", us); }

  SuperoptimizeOptions proofs() const {
    SuperoptimizeOptions options;
    options.search.target = options_.target;
    options.search.threads = options_.threads;
    return options;
  }

  Tuning tuned() {
    auto tuning = tune(result_, options_);
    EXPECT_TRUE(tuning) << tuning.error().to_string();
    return tuning ? std::move(*tuning) : Tuning{};
  }
  std::string error() {
    const auto tuning = tune(result_, options_);
    return tuning ? "no error" : tuning.error().message;
  }
  /// A graph's rows, the fastest first.
  static std::vector<TunedRow> rows_of(const Tuning& tuning, const std::string& name) {
    std::vector<TunedRow> rows;
    for (const TunedRow& row : tuning.rows) {
      if (row.graph->name() == name) rows.push_back(row);
    }
    return rows;
  }
  static std::string why_not(const Tuning& tuning, const std::string& name) {
    for (const TunedRow& row : tuning.rows) {
      if (row.graph->name() == name) return tuning.why_not(row);
    }
    return "no row";
  }
  static std::string chosen(const Tuning& tuning) { return tuning.rows[tuning.chosen].graph->name(); }

  Superoptimized result_;
  TuneOptions options_;
  std::map<std::string, std::string> scripts_;
  std::string write_;
  std::atomic<int> compiled_ = 0;
};

TEST_F(TuneTest, TheFastestThatIsRightIsChosen) {
  options_.measure.timeout = 5;
  add("slow", right(5));
  add("fast", right(2));
  add("off", "fill 1 0\ntime 1\n");
  add("faulty", "error 700\n");
  add("dying", "abort\n");
  add("hanging", "hang\n");
  add("refused", "refuse 218\n");
  add("unreadable", "no source");
  int reports = 0;
  options_.progress = [&](const TuneProgress& progress) {
    ++reports;
    EXPECT_LE(progress.measured, reports);
    EXPECT_GT(progress.best_us, 0);
  };
  Tuning tuning = tuned();
  EXPECT_EQ(tuning.device.name, "Fake GPU");
  EXPECT_EQ(tuning.reference, "the interpreter in float64");
  EXPECT_EQ(reports, std::ssize(tuning.rows));
  EXPECT_EQ(tuning.chosen, 0U);
  EXPECT_EQ(chosen(tuning), "fast");
  EXPECT_NEAR(tuning.rows[0].measurement.cold_us, 2, 1e-3);
  EXPECT_LT(tuning.rows[0].measurement.error, 1e-3);
  EXPECT_EQ(tuning.why_not(tuning.rows[0]), "");
  EXPECT_EQ(why_not(tuning, "slow"), "2.50x slower");
  EXPECT_EQ(why_not(tuning, "program"), "4.50x slower");
  EXPECT_THAT(why_not(tuning, "off"), HasSubstr("wrong: O: error 1.00e+00, above 5e-03"));
  EXPECT_THAT(why_not(tuning, "faulty"), HasSubstr("failed: running the kernels: CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_EQ(why_not(tuning, "dying"), "failed: its process died: Aborted");
  EXPECT_EQ(why_not(tuning, "hanging"), "timeout: no answer in 5 s");
  EXPECT_THAT(why_not(tuning, "refused"), HasSubstr("failed: loading the cubin"));
  EXPECT_EQ(why_not(tuning, "unreadable"), "failed: not compiled: a syntax error");
  // One graph must not take all the time.
  const int hanging = static_cast<int>(rows_of(tuning, "hanging").size());
  EXPECT_EQ(tuning.count(MeasureVerdict::Timeout), std::min(2, hanging));
  EXPECT_EQ(tuning.count(MeasureVerdict::NotMeasured), std::max(0, hanging - 2));
  EXPECT_GT(hanging, 2);

  ASSERT_TRUE(take_chosen(result_, tuning, options_, proofs()));
  EXPECT_EQ(result_.candidates[0].graph->name(), "fast");
  EXPECT_EQ(result_.candidates[1].graph->name(), "slow");
  EXPECT_EQ(result_.candidates.size(), 8U);
  EXPECT_THAT(result_.code.source, HasSubstr("graph fast {"));
  EXPECT_EQ(std::string(result_.cubin.data()), right(2));
  for (const TunedRow& row : tuning.rows) {
    if (row.candidate >= 0) {
      EXPECT_EQ(result_.candidates[static_cast<size_t>(row.candidate)].graph, row.graph);
    }
  }
}

/// Two kernels that share a launch, and the one after them: apart, the fastest is measured too.
TEST_F(TuneTest, SharedLaunchesMustBeFasterThanTheirKernelsApart) {
  const std::string text = R"(graph pair {
  input A: f16[16, 64]
  B = block(A, grid=[16]) {
    a = in_iter(A, imap=[0])
    b = exp(a)
    B = out_saver(b, omap=[0])
  }
  C = block(A, grid=[16]) {
    a = in_iter(A, imap=[0])
    b = exp(a)
    C = out_saver(b, omap=[0])
  }
  O = block(B, C, grid=[16]) {
    b = in_iter(B, imap=[0])
    c = in_iter(C, imap=[0])
    o = mul(b, c)
    O = out_saver(o, omap=[0])
  }
  output O
}
)";
  result_.candidates.push_back(as_candidate(parse(text), *options_.target));
  int apart = 0;  // µs; how fast it is
  options_.compile = [&](const std::string& source) -> Result<std::vector<char>> {
    if (source.find("graph pair {") == std::string::npos) return compile(source);
    const bool shared = source.find("_group_kernel") != std::string::npos;
    const std::string kernels = shared ? "kernel pair_0_group_kernel\nfill 1 0\n"
                                       : "kernel pair_0_kernel\nfill 1 0\nkernel pair_1_kernel\nfill 1 0\n";
    std::string write = write_;
    write.replace(write.find('1'), 1, "2");  // O is the last argument
    const std::string script = fmt::format("{}kernel pair_2_kernel\n{}time {}\n", kernels, write, shared ? 5 : apart);
    return std::vector<char>(script.begin(), script.end() + 1);
  };
  for (const auto& [time, grouped] : {std::pair{6, true}, std::pair{4, false}}) {
    apart = time;
    Tuning tuning = tuned();
    EXPECT_EQ(chosen(tuning), "pair");
    EXPECT_EQ(tuning.result().grouped, grouped);
    EXPECT_NEAR(tuning.rows[tuning.chosen].measurement.cold_us, std::min(5, time), 1e-3);
    const auto rows = rows_of(tuning, "pair");
    EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](const TunedRow& row) { return !row.grouped; }), 1);
    Superoptimized result = result_;
    ASSERT_TRUE(take_chosen(result, tuning, options_, proofs()));
    EXPECT_EQ(result.code.launches.size(), grouped ? 2U : 3U);
  }
  options_.passes.grouping = false;
  for (const TunedRow& row : tuned().rows) EXPECT_TRUE(row.grouped);
}

TEST_F(TuneTest, WhatDoesNotBeatTheProgramIsNotTaken) {
  add("slower", right(9.5));
  add("off", "time 1\n");
  Tuning tuning = tuned();
  EXPECT_EQ(chosen(tuning), "program");
  EXPECT_EQ(why_not(tuning, "slower"), "1.06x slower");
  EXPECT_EQ(why_not(tuning, "off"), "wrong: O holds NaN");
  ASSERT_TRUE(take_chosen(result_, tuning, options_, proofs()));
  EXPECT_EQ(result_.candidates.size(), 3U);
  EXPECT_EQ(result_.candidates[0].graph, result_.program);
  EXPECT_EQ(tuning.rows[tuning.chosen].candidate, 0);
  EXPECT_EQ(result_.code.launches.size(), 2U);
}

TEST_F(TuneTest, TheProgramIsTheLastResort) {
  add("dying", "abort\n");
  scripts_["program"] = "abort\n";
  result_.candidates.push_back(as_candidate(result_.program, *options_.target));
  const Tuning tuning = tuned();
  EXPECT_EQ(chosen(tuning), "program");
  EXPECT_EQ(tuning.program().candidate, 1);
  EXPECT_EQ(tuning.count(MeasureVerdict::Failed), std::ssize(tuning.rows));
  EXPECT_FALSE(tuning.rank_correlation);
}

TEST_F(TuneTest, MeasurementsComeFromTheCache) {
  ResultCache cache(folder_.path().string(), {});
  options_.cache = &cache;
  add("fast", right(2));
  add("off", "time 1\n");
  add("dying", "abort\n");
  const Tuning first = tuned();
  EXPECT_EQ(compiled_, std::ssize(first.rows));
  compiled_ = 0;
  const Tuning second = tuned();
  // Failures are tried again.
  EXPECT_EQ(compiled_, std::ssize(rows_of(second, "dying")));
  ASSERT_EQ(first.rows.size(), second.rows.size());
  for (size_t i = 0; i < first.rows.size(); ++i) {
    const Measurement& a = first.rows[i].measurement;
    const Measurement& b = second.rows[i].measurement;
    EXPECT_EQ(a.verdict, b.verdict);
    EXPECT_EQ(a.reason, b.reason);
    EXPECT_EQ(a.cold_us, b.cold_us);
    EXPECT_EQ(a.hot_us, b.hot_us);
    EXPECT_TRUE(a.error == b.error || (std::isnan(a.error) && std::isnan(b.error)));
    EXPECT_EQ(first.rows[i].measured_at, "");
    EXPECT_EQ(second.rows[i].measured_at.empty(), b.verdict == MeasureVerdict::Failed);
  }
  // Other inputs are another measurement.
  compiled_ = 0;
  options_.seed = 2;
  const Tuning other = tuned();
  EXPECT_EQ(compiled_, std::ssize(other.rows));
}

TEST_F(TuneTest, TimesThatAreNoneAreMeasuredAgain) {
  ResultCache cache(folder_.path().string(), {});
  options_.cache = &cache;
  add("fast", right(2));
  const Tuning first = tuned();
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open((folder_.path() / "results.sqlite").c_str(), &database), SQLITE_OK);
  std::vector<std::string> keys;
  const auto collect = [](void* to, int, char** row, char**) {
    static_cast<std::vector<std::string>*>(to)->emplace_back(row[0]);
    return 0;
  };
  sqlite3_exec(database, "SELECT key FROM results WHERE kind = CAST('measurement' AS BLOB)", collect, &keys, nullptr);
  sqlite3_close(database);
  ASSERT_EQ(std::ssize(keys), std::ssize(first.rows));
  for (const std::string& key : keys) {
    std::string value = cache.find("measurement", key)->value;
    const size_t at = value.find("\"cold_us\":") + 10;
    value.replace(at, value.find(',', at) - at, "-1.0");
    cache.store("measurement", key, value);
  }
  const Tuning second = tuned();
  for (const TunedRow& row : second.rows) {
    EXPECT_EQ(row.measured_at, "");
    EXPECT_GT(row.measurement.cold_us, 0);
  }
}

TEST_F(TuneTest, LargeProgramsAreComparedWithTheirOwnKernels) {
  options_.largest_interpreted = 0;
  add("fast", right(2));
  add("off", "fill 1 0\ntime 1\n");
  const Tuning tuning = tuned();
  EXPECT_THAT(tuning.reference, HasSubstr("the program as given in its own kernels"));
  EXPECT_EQ(chosen(tuning), "fast");
  EXPECT_EQ(tuning.rows[0].measurement.error, 0);
  EXPECT_EQ(tuning.program().measurement.error, 0);
  EXPECT_THAT(why_not(tuning, "off"), HasSubstr("wrong: O: error"));
  scripts_["program"] = "abort\n";
  EXPECT_THAT(error(), HasSubstr("the program's own kernels make nothing to compare with: its process died"));
}

TEST_F(TuneTest, WithoutTimeTheProgramAndTheModelsChoiceAreMeasured) {
  options_.seconds = 0;
  add("first", right(20));
  add("second", right(2));
  const Tuning tuning = tuned();
  EXPECT_EQ(chosen(tuning), "program");
  EXPECT_EQ(tuning.count(MeasureVerdict::Right), 2);
  EXPECT_EQ(tuning.count(MeasureVerdict::NotMeasured), std::ssize(tuning.rows) - 2);
  EXPECT_EQ(why_not(tuning, "second"), "not measured: out of time");
}

TEST_F(TuneTest, InterruptedItKeepsTheModelsChoice) {
  std::stop_source stop;
  options_.deadline = Deadline(Deadline::kNever, stop.get_token());
  options_.progress = [&](const TuneProgress&) { stop.request_stop(); };
  add("first", right(2));
  add("second", right(1));
  Tuning tuning = tuned();
  EXPECT_EQ(tuning.count(MeasureVerdict::Right), 1);
  EXPECT_EQ(tuning.rows[tuning.chosen].place, 1);
  EXPECT_EQ(why_not(tuning, "second"), "not measured: interrupted");
  ASSERT_TRUE(take_chosen(result_, tuning, options_, proofs()));
  EXPECT_EQ(result_.candidates[0].graph, tuning.rows[tuning.chosen].graph);
}

TEST_F(TuneTest, TheDeadlineEndsMeasuringAndWhatIsKnownCounts) {
  std::atomic<double> now = 1000;
  options_.deadline = Deadline(100, {}, 0, [&now] {
    return Deadline::TimePoint{} +
           std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(now.load()));
  });
  int reports = 0;
  options_.progress = [&](const TuneProgress&) { now = ++reports == 2 ? 2000 : 1000; };
  add("first", right(2));
  add("second", right(1));
  const Tuning tuning = tuned();
  EXPECT_EQ(tuning.count(MeasureVerdict::Right), 2);
  EXPECT_EQ(chosen(tuning), "first");
  EXPECT_EQ(why_not(tuning, "second"), "not measured: out of time");
  options_.deadline = Deadline(0);
  EXPECT_THAT(error(), HasSubstr("interrupted"));
}

TEST_F(TuneTest, WhatIsChosenIsProvedAtFullShape) {
  add("slow", right(5));
  add("fast", right(2));
  for (Candidate& candidate : result_.candidates) claim(candidate);
  Tuning tuning = tuned();
  ASSERT_TRUE(take_chosen(result_, tuning, options_, proofs()));
  EXPECT_EQ(result_.candidates[0].graph->name(), "fast");
  EXPECT_TRUE(result_.candidates[0].full_shape);
  EXPECT_GE(result_.candidates[0].verification.tests, 1);
}

TEST_F(TuneTest, WhatIsFastAndNotTheProgramIsNotTaken) {
  scripts_["wrong"] = right(1);
  std::string text = fused("wrong", 16);
  text.replace(text.find("sqr"), 3, "silu");
  result_.candidates.push_back(as_candidate(parse(text), *options_.target));
  add("fast", right(2));
  for (Candidate& candidate : result_.candidates) claim(candidate);
  Tuning tuning = tuned();
  ASSERT_EQ(chosen(tuning), "wrong");
  ASSERT_TRUE(take_chosen(result_, tuning, options_, proofs()));
  EXPECT_EQ(chosen(tuning), "fast");
  ASSERT_EQ(result_.candidates.size(), 1U);
  EXPECT_EQ(result_.candidates[0].graph->name(), "fast");
  EXPECT_EQ(result_.unproved, 1);
  EXPECT_NE(result_.unproved_reason, "");
  EXPECT_TRUE(rows_of(tuning, "wrong").empty());
  for (const TunedRow& row : tuning.rows) {
    if (row.candidate >= 0) {
      EXPECT_EQ(result_.candidates[static_cast<size_t>(row.candidate)].graph, row.graph);
    }
  }
  EXPECT_THAT(result_.code.source, HasSubstr("graph fast {"));
}

TEST_F(TuneTest, ALostGpuEndsTheWorkAndNotTheResult) {
  add("first", "abort\n");
  for (int i = 0; i < 4; ++i) add(fmt::format("other{}", i), right(1));
  int reports = 0;
  options_.progress = [&](const TuneProgress&) {
    if (++reports == 2) setenv("STRATA_FAKE_CUDA_DEVICES", "0", 1);
  };
  scripts_["program"] = right(9);
  const Tuning tuning = tuned();
  EXPECT_EQ(chosen(tuning), "program");
  EXPECT_EQ(tuning.count(MeasureVerdict::Failed), 4);
  bool lost = false;
  for (const TunedRow& row : tuning.rows) lost = lost || row.measurement.reason == "the GPU was lost";
  EXPECT_EQ(lost, std::ssize(tuning.rows) > 5);
}

/// A product, whose own kernel takes 9 µs.
class TuneLibraryTest : public TuneTest {
 protected:
  void SetUp() override {
    TuneTest::SetUp();
    result_.program =
        parse("graph program {\n input A: f32[2, 64]\n input B: f32[64, 4]\n O = matmul(A, B)\n output O\n}\n");
    result_.candidates = {as_candidate(result_.program, *options_.target)};
    Float64Arithmetic exact;
    const auto outputs = execute(*result_.program, exact, typical_inputs(*result_.program, 1));
    scripts_["program"] = "write 2 " + file("product.raw", encode((*outputs)[0], DType::F32)) + "\ntime 9\n";
  }
  static std::string why_not_schedule(const Tuning& tuning, const std::string& schedule) {
    for (const TunedRow& row : tuning.rows) {
      if (label(row.schedules) == schedule) return tuning.why_not(row);
    }
    return "no row";
  }
};

TEST_F(TuneLibraryTest, ItsFastestAlgorithmThatIsRightIsChosen) {
  setenv("STRATA_FAKE_CUBLAS_LT", "5 3 -1 7", 1);
  Tuning tuning = tuned();
  EXPECT_EQ(tuning.device.cublas_lt, "13.1.0");
  ASSERT_EQ(tuning.rows.size(), 6U);
  EXPECT_EQ(label(tuning.result().schedules), "lt1");
  EXPECT_LT(tuning.result().measurement.error, 1e-6);
  EXPECT_NEAR(tuning.result().measurement.cold_us, 3, 1e-3);
  EXPECT_NEAR(tuning.result().measurement.hot_us, 3, 1e-3);
  EXPECT_EQ(why_not_schedule(tuning, "lt0"), "1.67x slower");
  EXPECT_EQ(why_not_schedule(tuning, "own"), "3.00x slower");
  EXPECT_EQ(why_not_schedule(tuning, "lt2"), "wrong: O: error 1.00e+00, above 1e-04");
  EXPECT_EQ(why_not_schedule(tuning, "lt4"), "failed: cuBLASLt has 4 algorithms for f32 2×4×64, algorithm 4");
  ASSERT_TRUE(take_chosen(result_, tuning, options_, proofs()));
  ASSERT_EQ(result_.code.launches.size(), 1U);
  EXPECT_EQ(result_.code.launches[0].product()->algorithm, 1);
  EXPECT_EQ(label(result_.candidates[0].schedules), "lt1");
  EXPECT_LT(result_.candidates[0].cost.seconds, scheduled_cost(*result_.program, *options_.target).seconds);
}

TEST_F(TuneLibraryTest, WithoutTimeTheLibrarysBestGuessIsMeasuredToo) {
  setenv("STRATA_FAKE_CUBLAS_LT", "5 3", 1);
  options_.seconds = 0;
  add("first", right(20));
  const Tuning tuning = tuned();
  EXPECT_EQ(label(tuning.result().schedules), "lt0");
  EXPECT_EQ(why_not_schedule(tuning, "own"), "1.80x slower");
  EXPECT_EQ(why_not_schedule(tuning, "lt1"), "not measured: out of time");
}

TEST_F(TuneLibraryTest, WhereGeneratedCodeIsFasterItIsTaken) {
  setenv("STRATA_FAKE_CUBLAS_LT", "10", 1);
  Tuning tuning = tuned();
  EXPECT_EQ(label(tuning.result().schedules), "own");
  ASSERT_TRUE(take_chosen(result_, tuning, options_, proofs()));
  EXPECT_FALSE(result_.code.launches[0].library);
}

TEST_F(TuneLibraryTest, WithoutItOrThePassThereAreNoSuchRows) {
  setenv("STRATA_CUBLAS_LT", "/nowhere/libcublasLt.so", 1);
  const Tuning missing = tuned();
  EXPECT_EQ(missing.rows.size(), 1U);
  EXPECT_EQ(label(missing.result().schedules), "own");
  EXPECT_THAT(missing.device.without_cublas_lt, HasSubstr("cuBLASLt (/nowhere/libcublasLt.so) cannot be loaded"));
  setenv("STRATA_CUBLAS_LT", STRATA_BINARY_DIR "/lib/libfake_cublas_lt.so", 1);
  options_.passes.libraries = false;
  EXPECT_EQ(tuned().rows.size(), 1U);
}

TEST_F(TuneLibraryTest, MeasurementsComeFromTheCache) {
  ResultCache cache(folder_.path().string(), {});
  options_.cache = &cache;
  setenv("STRATA_FAKE_CUBLAS_LT", "5 3", 1);
  EXPECT_EQ(tuned().result().measured_at, "");
  const Tuning again = tuned();
  EXPECT_NE(again.result().measured_at, "");
  EXPECT_EQ(label(again.result().schedules), "lt1");
}

TEST_F(TuneTest, WhatIsMissingIsAnError) {
  add("fast", right(2));
  scripts_["program"] = "no compiler";
  EXPECT_THAT(error(), HasSubstr("NVRTC was not found"));
  setenv("STRATA_FAKE_CUDA_DEVICES", "0", 1);
  EXPECT_THAT(error(), HasSubstr("no GPU"));
  setenv("STRATA_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  EXPECT_THAT(error(), HasSubstr("the CUDA driver (/nowhere/libcuda.so.1) cannot be loaded"));
}

TEST_F(TuneTest, ValuesThatAreNotFiniteCannotBeCompared) {
  result_.program = parse("graph program {\n  input A: f16[16, 64]\n  O = rsqrt(A)\n  output O\n}\n");
  result_.candidates = {as_candidate(result_.program, *options_.target)};
  EXPECT_THAT(error(), HasSubstr("'O' is not finite on random inputs"));
}

TEST(RankCorrelation, IsSpearmans) {
  EXPECT_FALSE(rank_correlation({{1, 1}, {2, 2}}));
  EXPECT_FALSE(rank_correlation({{1, 1}, {1, 2}, {1, 3}}));
  EXPECT_DOUBLE_EQ(*rank_correlation({{1, 10}, {2, 100}, {3, 1000}}), 1);
  EXPECT_DOUBLE_EQ(*rank_correlation({{1, 3}, {2, 2}, {3, 1}}), -1);
  EXPECT_DOUBLE_EQ(*rank_correlation({{1, 1}, {2, 3}, {3, 2}, {4, 4}}), 0.8);
  EXPECT_NEAR(*rank_correlation({{1, 1}, {1, 2}, {2, 3}}), std::sqrt(0.75), 1e-12);
}

}  // namespace
}  // namespace strata
