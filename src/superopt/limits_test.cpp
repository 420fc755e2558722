// What comes out where there is no time: with deadlines that have passed, and with clocks that the tests move.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "ir/text.h"
#include "runtime/compile.h"
#include "superopt/prove.h"
#include "superopt/superoptimize.h"
#include "superopt/variants.h"

namespace strata {
namespace {

using testing::HasSubstr;

GraphPtr parse(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return *graph;
}

SuperoptimizeOptions quick() {
  SuperoptimizeOptions options;
  options.search.target = &targets().back();
  options.search.threads = 2;
  options.search.time_limit = 20;
  options.candidates = 2;
  options.passes.libraries = false;
  return options;
}

constexpr const char* kProgram =
    "graph g {\n input A: f16[64, 64]\n input B: f16[64, 64]\n C = sqr(A)\n D = matmul(C, B)\n E = add(D, A)\n"
    " output E\n}";

/// A clock that stands still but where the test moves it.
class Clock {
 public:
  void pass(double seconds) { seconds_ = seconds_ + seconds; }
  Deadline deadline(double seconds, std::stop_token stop = {}, double grace = 0) {
    return Deadline(seconds, std::move(stop), grace, [this] {
      return Deadline::TimePoint{} +
             std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds_.load()));
    });
  }

 private:
  std::atomic<double> seconds_ = 1000;
};

TEST(Limits, WithoutTimeTheResultIsTheProgram) {
  const GraphPtr program = parse(kProgram);
  SuperoptimizeOptions options = quick();
  options.deadline = Deadline(0);
  const auto result = superoptimize(program, options);
  ASSERT_TRUE(result) << result.error().to_string();
  ASSERT_EQ(result->candidates.size(), 1U);
  EXPECT_EQ(result->candidates[0].graph, program);
  EXPECT_TRUE(result->candidates[0].full_shape);
  EXPECT_EQ(result->stop_reason, StopReason::TimeLimit);
  EXPECT_THAT(result->left_out, HasSubstr("there was no time to search it"));
  EXPECT_THAT(result->code.source, HasSubstr("__global__"));
  ASSERT_TRUE(result->compile_error);
  EXPECT_THAT(result->compile_error->message, HasSubstr("there was no time to compile the source for sm_90a"));
}

TEST(Limits, WhatIsStoppedBeforeItBeginsIsTheProgram) {
  const GraphPtr program = parse(kProgram);
  std::stop_source stop;
  stop.request_stop();
  SuperoptimizeOptions options = quick();
  options.deadline = Deadline(Deadline::kNever, stop.get_token(), Deadline::kNever);
  const auto result = superoptimize(program, options);
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_EQ(result->candidates.front().graph, program);
  EXPECT_EQ(result->stop_reason, StopReason::Interrupted);
  EXPECT_FALSE(result->compile_error);  // for which the grace is
}

/// The clock passes the limit where one stage ends; the next ones find no time.
TEST(Limits, EveryStageEndsAtTheLimit) {
  const GraphPtr program = parse(kProgram);
  for (const std::string_view late : {"search", "thread-graphs", "verify", "compose"}) {
    Clock clock;
    SuperoptimizeOptions options = quick();
    options.deadline = clock.deadline(100);
    options.stage_done = [&](std::string_view stage, double, const Graph&) {
      if (stage == late) clock.pass(1000);
    };
    const auto result = superoptimize(program, options);
    ASSERT_TRUE(result) << result.error().to_string();
    const bool proved = late == "verify" || late == "compose";
    EXPECT_EQ(result->candidates.front().graph != program, proved) << late;
    EXPECT_EQ(result->candidates.front().full_shape, late != "verify") << late;
    EXPECT_TRUE(result->compile_error) << late;
    if (late == "verify") {
      EXPECT_THAT(result->candidates.front().verification.argument, HasSubstr("proved at shrunk shapes ["));
      EXPECT_THAT(result->candidates.front().verification.argument,
                  HasSubstr("(there was no time for a proof at full shape)"));
    }
    if (late == "thread-graphs") {
      EXPECT_THAT(result->left_out, HasSubstr("graphs that there was no time to prove"));
    }
  }
}

TEST(Limits, AnInterruptedSearchStillProvesWhatItFound) {
  const GraphPtr program = parse(kProgram);
  std::stop_source stop;
  SuperoptimizeOptions options = quick();
  options.candidates = 8;
  options.deadline = Deadline(Deadline::kNever, stop.get_token(), 3600);
  options.stage_done = [&](std::string_view stage, double, const Graph&) {
    if (stage == "search") stop.request_stop();
  };
  const auto result = superoptimize(program, options);
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_NE(result->candidates.front().graph, program);
  EXPECT_TRUE(result->candidates.front().full_shape);
  EXPECT_FALSE(result->compile_error);
}

TEST(Limits, StagesSayHowFarTheyAre) {
  std::mutex mutex;
  std::map<std::string, size_t> last;
  SuperoptimizeOptions options = quick();
  options.stage_progress = [&](std::string_view stage, size_t done, size_t count) {
    const std::scoped_lock lock(mutex);
    EXPECT_LE(done, count) << stage;
    size_t& most = last[std::string(stage)];
    most = std::max(most, done);
  };
  ASSERT_TRUE(superoptimize(parse(kProgram), options));
  for (const char* stage : {"thread graphs", "proofs", "proofs at full shape"}) EXPECT_GE(last[stage], 1U) << stage;
  for (const char* stage : {"the whole program in float64", "generating code", "compiling"})
    EXPECT_EQ(last.count(stage), 1U) << stage;
}

TEST(Limits, CompilingEndsOnRequest) {
  // Takes a minute or so to compile.
  std::string source = "extern \"C\" __global__ void f(float* x) {\n float a = x[0];\n";
  for (int i = 0; i < 3000; ++i) source += " a = a * x[1] + sinf(a) / (a + x[2]);\n";
  source += " x[0] = a;\n}\n";
  std::stop_source stop;
  const std::jthread later([&stop] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    stop.request_stop();
  });
  const auto cubin = cubin_of(source, targets().back(), nullptr, stop.get_token());
  ASSERT_FALSE(cubin);
  EXPECT_EQ(cubin.error().code, ErrorCode::Interrupted);
}

/// Of candidates that are claimed to be proved, which is taken.
class FirstProved : public testing::Test {
 protected:
  /// A fused candidate that applies `second` to exp(A), where the program squares it.
  size_t add(const std::string& second) {
    const GraphPtr graph = parse(
        "graph c {\n input A: f32[16, 64]\n O = block(A, grid=[16]) {\n  a = in_iter(A, imap=[0])\n  b = exp(a)\n"
        "  c = " +
        second + "(b)\n  O = out_saver(c, omap=[0])\n }\n output O\n}");
    Candidate candidate = as_candidate(graph, *options_.search.target);
    candidate.full_shape = false;
    candidate.verification.argument = "proved at shrunk shapes [2, 2]";
    candidate.steps = {std::make_shared<ProofStep>(
        ProofStep{program_, graph, candidate.verification, candidate.errors, false, {}, {}})};
    candidates_.push_back(std::move(candidate));
    return candidates_.size() - 1;
  }
  std::optional<size_t> first(const Deadline& deadline = {}) {
    std::vector<size_t> order(candidates_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    return first_proved(candidates_, order, options_, deadline);
  }

  SuperoptimizeOptions options_ = quick();
  GraphPtr program_ = parse("graph p {\n input A: f32[16, 64]\n B = exp(A)\n O = sqr(B)\n output O\n}");
  std::vector<Candidate> candidates_;
};

TEST_F(FirstProved, WhatIsNotTheProgramIsTurnedDown) {
  for (const int threads : {1, 2, 8}) {
    options_.search.threads = threads;
    candidates_.clear();
    add("silu");
    add("relu");
    const size_t right = add("sqr");
    add("sqr");
    EXPECT_EQ(first(), right) << threads;
    EXPECT_TRUE(candidates_[right].full_shape);
    EXPECT_GE(candidates_[right].verification.tests, 1);
    EXPECT_GT(candidates_[right].verification.error_bound, 0);
    EXPECT_NE(refutation(candidates_[0]), "");
    EXPECT_NE(refutation(candidates_[1]), "");
    EXPECT_EQ(refutation(candidates_[3]), "");
  }
}

TEST_F(FirstProved, BehindWhatNeedsNoProofNothingIsProved) {
  size_t proofs = 0;
  options_.stage_progress = [&](std::string_view, size_t, size_t count) { proofs = std::max(proofs, count); };
  candidates_.push_back(as_candidate(program_, *options_.search.target));
  add("sqr");
  EXPECT_EQ(first(), 0U);
  EXPECT_EQ(proofs, 0U);
  candidates_.erase(candidates_.begin());
  add("sqr");
  EXPECT_EQ(first(), 0U);
  EXPECT_EQ(proofs, 2U);
  proofs = 0;
  EXPECT_EQ(first(), 0U);  // once is enough
  EXPECT_EQ(proofs, 0U);
}

TEST_F(FirstProved, WhereNothingHoldsThereIsNone) {
  add("silu");
  EXPECT_EQ(first(), std::nullopt);
  candidates_.push_back(as_candidate(program_, *options_.search.target));
  EXPECT_EQ(first(), 1U);
}

TEST_F(FirstProved, WithoutTimeTheProofAtShrunkShapesStandsAndSaysSo) {
  add("sqr");
  EXPECT_EQ(first(Deadline(0)), 0U);
  EXPECT_FALSE(candidates_[0].full_shape);
  EXPECT_EQ(candidates_[0].verification.argument,
            "proved at shrunk shapes [2, 2] (there was no time for a proof at full shape)");
  EXPECT_EQ(first(), 0U);
  EXPECT_TRUE(candidates_[0].full_shape);
  EXPECT_THAT(candidates_[0].verification.argument, testing::Not(HasSubstr("shrunk")));
}

TEST_F(FirstProved, WhatIsTooLargeSaysSo) {
  options_.largest_full_proof = 10;
  add("sqr");
  EXPECT_EQ(first(), 0U);
  EXPECT_FALSE(candidates_[0].full_shape);
  EXPECT_THAT(candidates_[0].verification.argument,
              testing::MatchesRegex("proved at shrunk shapes .2, 2. .a proof at full shape takes .* operations, more "
                                    "than 1e.01."));
}

}  // namespace
}  // namespace strata
