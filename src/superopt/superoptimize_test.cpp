#include "superopt/superoptimize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/compile.h"
#include "superopt/codegen/libraries.h"
#include "superopt/codegen/test_host.h"
#include "superopt/part_record.h"
#include "superopt/partition/canonical.h"
#include "superopt/verify/floats.h"
#include "test_paths.h"

namespace strata {
namespace {

GraphPtr parse(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return *graph;
}

/// Without a time limit, so that results do not depend on the machine: what bounds a search is its number of operators.
SuperoptimizeOptions quick() {
  SuperoptimizeOptions options;
  options.search.target = &targets().back();
  options.search.threads = 2;
  options.search.time_limit = 0;
  options.solver_time_limit = 300;
  options.candidates = 2;
  return options;
}

Superoptimized run(const GraphPtr& program, const SuperoptimizeOptions& options) {
  auto result = superoptimize(program, options);
  EXPECT_TRUE(result) << result.error().to_string();
  return std::move(*result);
}

/// Two equal layers with other names, statement orders and a slice between them.
constexpr const char* kTwoLayers = R"(
graph layers {
  input X: f16[16, 256]
  input G: f16[256]
  input W: f16[256, 512]
  input H: f16[256]
  input V: f16[256, 512]
  A2 = sqr(X)
  AS = sum(A2, dim=1)
  AM = scale(AS, factor=1/256)
  AR = rsqrt(AM)
  AN = mul(X, AR)
  AG = mul(AN, G)
  A = matmul(AG, W)
  M = slice(A, dim=1, start=256, size=256)
  B2 = sqr(M)
  BS = sum(B2, dim=1)
  BM = scale(BS, factor=1/256)
  BR = rsqrt(BM)
  BN = mul(BR, M)
  BG = mul(H, BN)
  B = matmul(BG, V)
  output B, M
}
)";

TEST(Superoptimize, EqualPartsAreSearchedOnce) {
  const GraphPtr program = parse(kTwoLayers);
  int searches = 0;
  SuperoptimizeOptions options = quick();
  options.passes.libraries = false;
  options.stage_done = [&](std::string_view stage, double, const Graph&) { searches += stage == "search"; };
  const Superoptimized result = run(program, options);
  EXPECT_EQ(searches, 1);
  ASSERT_EQ(result.parts.size(), 3U);
  EXPECT_EQ(result.parts[0].equal_to, -1);
  EXPECT_EQ(result.parts[2].equal_to, 0);
  EXPECT_FALSE(result.partition.parts[1].searchable());
  const Candidate& best = result.candidates.front();
  EXPECT_EQ(best.cost.kernels, 3);  // a kernel a layer, and the slice
  EXPECT_LT(best.cost.seconds, result.program_cost.seconds);
  EXPECT_EQ(result.whole_check, "agrees in float64 at full shapes");
  EXPECT_THAT(best.verification.argument, testing::HasSubstr("2 of 3 parts are replaced"));
  EXPECT_GT(best.verification.error_bound, 0);
  EXPECT_LE(best.verification.error_bound, 2 * options.delta);
  EXPECT_FALSE(result.compile_error);
  // The second layer has its own names.
  for (const char* name : {"X", "M", "B", "V", "H"}) EXPECT_TRUE(best.graph->find_tensor(name)) << name;
  auto errors = float_errors(*program, *best.graph, 3);
  ASSERT_TRUE(errors);
  EXPECT_TRUE(errors->acceptable);
}

TEST(Superoptimize, PiecesReplaceThePartForWhichNothingWasFound) {
  std::string text =
      "graph g {\n input X: f16[16, 256]\n input G: f16[256]\n input W: f16[256, 512]\n input H: f16[16, 256]\n"
      " A2 = sqr(X)\n AS = sum(A2, dim=1)\n AM = scale(AS, factor=1/256)\n AR = rsqrt(AM)\n AN = mul(X, AR)\n"
      " AG = mul(AN, G)\n A = matmul(AG, W)\n C0 = slice(A, dim=1, start=256, size=256)\n";
  for (int i = 1; i <= 12; ++i) {
    text += fmt::format(" C{} = {}(C{}, {})\n", i, i % 2 == 1 ? "mul" : "add", i - 1, i % 2 == 1 ? "H" : "C0");
  }
  SuperoptimizeOptions options = quick();
  options.search.max_kernel_ops = 1;
  options.search.max_block_ops = 9;  // enough for the norm and its product, too few for twelve operators
  options.passes.libraries = false;
  const Superoptimized result = run(parse(text + " output C12\n}"), options);
  std::vector<size_t> sizes;
  for (const Part& part : result.partition.parts) sizes.push_back(part.operations.size());
  EXPECT_THAT(sizes, testing::ElementsAre(7, 1, 6, 6));
  EXPECT_EQ(result.candidates.front().cost.kernels, 4);
  EXPECT_EQ(result.whole_check, "agrees in float64 at full shapes");
}

TEST(Superoptimize, PartsWithSeveralOutputsKeepTheirOrder) {
  const GraphPtr program = parse(
      "graph g {\n input X: f16[64, 128]\n input W: f16[128, 64]\n N = sqr(X)\n B = matmul(N, W)\n A = exp(N)\n"
      " R = reshape(A, shape=[128, 64])\n S = reshape(B, shape=[64, 64])\n output S, R, A\n}");
  const Superoptimized result = run(program, quick());
  const Candidate& best = result.candidates.front();
  ASSERT_EQ(best.graph->outputs().size(), 3U);
  EXPECT_EQ(best.graph->types(best.graph->outputs()), program->types(program->outputs()));
  EXPECT_EQ(result.whole_check, "agrees in float64 at full shapes");
}

TEST(Superoptimize, LargeProgramsAreProvedAtShrunkShapes) {
  SuperoptimizeOptions options = quick();
  options.largest_full_proof = 1.5e6;
  const Superoptimized result = run(parse(kTwoLayers), options);
  EXPECT_LT(result.candidates.front().cost.seconds, result.program_cost.seconds);
  EXPECT_EQ(result.whole_check, "agrees in float64 at shrunk shapes");
  EXPECT_THAT(result.parts[0].optimized.candidates.front().verification.argument,
              testing::StartsWith("proved at shrunk shapes ["));
}

TEST(Superoptimize, ProgramsThatAreNotSearchedComeBackAsTheyAre) {
  const GraphPtr program = parse("graph g {\n input A: f16[64, 64]\n B = reshape(A, shape=[4096])\n output B\n}");
  const Superoptimized result = run(program, quick());
  EXPECT_EQ(result.candidates.front().graph, program);
  EXPECT_EQ(result.stop_reason, StopReason::Exhausted);
}

TEST(Superoptimize, StatementsThatChangeNothingCostNothing) {
  const GraphPtr program = parse(
      "graph g {\n input A: f16[128]\n input B: f16[128]\n s = add(A, B)\n t = scale(s, factor=1)\n"
      " o = reshape(t, shape=[8, 16])\n output o\n}");
  const Superoptimized result = run(program, quick());
  const Candidate& best = result.candidates.front();
  EXPECT_LT(best.cost.seconds, result.program_cost.seconds);
  EXPECT_LT(best.cost.kernels, result.program_cost.kernels);
  EXPECT_THAT(best.verification.argument, testing::Not(testing::HasSubstr("input program itself")));
  EXPECT_GT(best.verification.tests, 0);
  EXPECT_TRUE(std::any_of(result.candidates.begin(), result.candidates.end(),
                          [&](const Candidate& candidate) { return candidate.graph == program; }));
}

TEST(Superoptimize, TheProgramAsGivenStaysACandidateWhereTransposesAreMoved) {
  // At the inputs each transpose is a kernel of its own, unless a block reads through it.
  const GraphPtr program = parse(
      "graph g {\n input A: f16[24, 40]\n input B: f16[24, 40]\n s = add(A, B)\n t = transpose(s, perm=[1, 0])\n"
      " o = reshape(t, shape=[24, 40])\n output o\n}");
  SuperoptimizeOptions options = quick();
  options.search.max_block_ops = 1;
  const Superoptimized result = run(program, options);
  EXPECT_NE(result.partition.program, program);
  EXPECT_LE(result.candidates.front().cost.seconds, result.program_cost.seconds);
  EXPECT_TRUE(std::any_of(result.candidates.begin(), result.candidates.end(),
                          [&](const Candidate& candidate) { return candidate.graph == program; }));
  for (const Candidate& candidate : result.candidates) {
    EXPECT_EQ(candidate.graph == program, candidate.verification.argument == "the input program itself");
  }
}

/// Softmax as it is written in practice: the maximum is subtracted, which only the exponentials see.
TEST(Superoptimize, TheProgramIsTheBestWhereItIsFasterByLittle) {
  // By less than candidates' costs need to differ by in order to change places.
  const GraphPtr program =
      parse("graph g {\n input A: f32[4, 256]\n input B: f32[256, 4]\n O = matmul(A, B)\n output O\n}");
  const Superoptimized result = run(program, quick());
  for (const Candidate& candidate : result.candidates) {
    EXPECT_LE(result.candidates.front().cost.seconds, candidate.cost.seconds * 1.02);
  }
  EXPECT_LE(result.candidates.front().cost.seconds, result.program_cost.seconds);
}

TEST(Superoptimize, SoftmaxWithItsMaximum) {
  const GraphPtr program = parse(
      "graph g {\n input S: f16[4, 16, 64]\n input M: f16[4, 16, 1]\n input V: f16[4, 64, 16]\n D = sub(S, M)\n"
      " E = exp(D)\n Z = sum(E, dim=2)\n P = div(E, Z)\n O = matmul(P, V)\n output O\n}");
  const Superoptimized result = run(program, quick());
  EXPECT_EQ(result.candidates.front().cost.kernels, 1) << result.unproved_reason;
}

/// The block at small sizes, in single precision, so that the interpreter and the host run all of it.
GraphPtr small_llama() {
  std::ifstream file(STRATA_SOURCE_DIR "/programs/llama_block.strata");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::vector<std::pair<std::string, std::string>> sizes{
      {"64", "1"}, {"14336", "96"}, {"1024", "16"}, {"4088", "56"}, {"128", "2"}, {"4096", "64"}, {"bf16", "f32"}};
  for (const auto& [from, to] : sizes) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  }
  return parse(text);
}

TEST(Superoptimize, LlamaBlockComputesTheSameAndItsCodeDoes) {
  const GraphPtr program = small_llama();
  SuperoptimizeOptions options = quick();
  options.search.max_kernel_ops = 1;
  options.search.max_block_ops = 6;
  options.candidates = 1;
  options.passes.libraries = false;  // the host has none
  const Superoptimized result = run(program, options);
  const Candidate& best = result.candidates.front();
  EXPECT_LT(best.cost.kernels, result.program_cost.kernels - 10);
  EXPECT_EQ(result.whole_check, "agrees in float64 at full shapes");

  const auto [found, expected] = host_outputs(*program, result.code, random_inputs(*program, 5), {"c++", {"-O1"}});
  EXPECT_LE(relative_error(expected, found), 1e-4);
}

/// A layer of many tokens: its product is cuBLASLt's work, what stands around it is not.
constexpr const char* kManyTokens = R"(
graph layer {
  input X: f16[1024, 1024]
  input G: f16[1024]
  input W: f16[1024, 4096]
  X2 = sqr(X)
  XS = sum(X2, dim=1)
  XM = scale(XS, factor=1/1024)
  XR = rsqrt(XM)
  XN = mul(X, XR)
  XG = mul(XN, G)
  P = matmul(XG, W)
  S = silu(P)
  O = mul(S, S)
  output O
}
)";

TEST(Superoptimize, LargeProductsAreLeftToALibraryAndTheRestIsFused) {
  SuperoptimizeOptions options = quick();
  options.search.max_kernel_ops = 1;
  options.search.max_block_ops = 6;
  options.largest_full_proof = 1e6;
  const Superoptimized result = run(parse(kManyTokens), options);
  const Candidate& best = result.candidates.front();
  EXPECT_TRUE(uses_library(best.schedules));
  EXPECT_EQ(best.cost.kernels, 3);  // the norm, the product, what follows
  ASSERT_EQ(result.code.launches.size(), 3U);
  EXPECT_TRUE(result.code.launches[1].product());
  EXPECT_THAT(needed_libraries(result.code), testing::HasSubstr("cuBLASLt: f16 1024×4096×1024"));
  EXPECT_THAT(best.verification.argument, testing::HasSubstr("2 of 3 parts are replaced"));
  EXPECT_EQ(result.whole_check, "agrees in float64 at shrunk shapes");
  // Code without the library is among the candidates that are measured.
  EXPECT_TRUE(std::any_of(result.candidates.begin(), result.candidates.end(),
                          [](const Candidate& candidate) { return !uses_library(candidate.schedules); }));
  options.passes.libraries = false;
  const Superoptimized without = run(parse(kManyTokens), options);
  for (const Candidate& candidate : without.candidates) EXPECT_FALSE(uses_library(candidate.schedules));
  EXPECT_EQ(needed_libraries(without.code), "");
  EXPECT_GT(without.candidates.front().cost.seconds, best.cost.seconds);
}

TEST(Superoptimize, PartsChooseBetweenTheLibraryAndGeneratedCode) {
  // 8 tokens, whose products are bound by their weights and better fused; 2048 tokens, which are not.
  const GraphPtr program = parse(
      "graph g {\n input X: f16[8, 2048]\n input V: f16[2048, 2048]\n input W: f16[2048, 2048]\n"
      " input Y: f16[2048, 2048]\n input U: f16[2048, 2048]\n A = matmul(X, V)\n B = matmul(X, W)\n S = silu(A)\n"
      " O = mul(S, B)\n Q = matmul(Y, U)\n output O, Q\n}");
  SuperoptimizeOptions options = quick();
  options.largest_full_proof = 1e6;
  const Superoptimized result = run(program, options);
  const Candidate& best = result.candidates.front();
  EXPECT_EQ(best.cost.kernels, 2);
  EXPECT_EQ(needed_libraries(result.code), "cuBLASLt: f16 2048×2048×2048, algorithm 0");
  EXPECT_GT(result.candidates.size(), 2U);
}

/// One small part, with a cache of its own.
class WithCache : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() /
        fmt::format("strata_superopt_{}_{}", getpid(), testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    options_ = quick();
    options_.candidates = 1;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// The program, with the cache opened again; sets `searched`.
  Superoptimized optimize(const std::string& program) {
    ResultCache cache(folder_.string(), [](const std::string& text) { ADD_FAILURE() << text; });
    SuperoptimizeOptions options = options_;
    options.cache = &cache;
    searched_ = false;
    options.stage_done = [&](std::string_view stage, double, const Graph&) { searched_ |= stage == "search"; };
    return run(parse(program), options);
  }

  static constexpr const char* kProgram =
      "graph g {\n input A: f16[64, 64]\n input B: f16[64, 64]\n C = sqr(A)\n D = matmul(C, B)\n E = add(D, A)\n"
      " output E\n}";
  std::filesystem::path folder_;
  SuperoptimizeOptions options_;
  bool searched_ = false;
};

TEST_F(WithCache, TheSecondRunTakesItsResultFromThere) {
  const Superoptimized first = optimize(kProgram);
  EXPECT_TRUE(searched_);
  EXPECT_EQ(first.parts[0].optimized.cached_at, "");
  const Superoptimized second = optimize(kProgram);
  EXPECT_FALSE(searched_);
  EXPECT_NE(second.parts[0].optimized.cached_at, "");
  ASSERT_EQ(second.candidates.size(), first.candidates.size());
  for (size_t i = 0; i < first.candidates.size(); ++i) {
    const Candidate& a = first.candidates[i];
    const Candidate& b = second.candidates[i];
    EXPECT_EQ(print(*a.graph), print(*b.graph));
    EXPECT_EQ(a.cost.seconds, b.cost.seconds);
    EXPECT_EQ(a.verification.tests, b.verification.tests);
    EXPECT_EQ(a.verification.error_bound, b.verification.error_bound);
    EXPECT_EQ(a.verification.argument, b.verification.argument);
    EXPECT_EQ(a.errors.candidate_f32, b.errors.candidate_f32);
  }
  EXPECT_EQ(second.statistics.generated, first.statistics.generated);
  EXPECT_EQ(second.statistics.pruned_stability, first.statistics.pruned_stability);
  EXPECT_EQ(second.statistics.spaces_searched, first.statistics.spaces_searched);
  EXPECT_EQ(second.cubin, first.cubin);
}

TEST_F(WithCache, NamesAndOrdersDoNotMatter) {
  const Superoptimized first = optimize(kProgram);
  const Superoptimized other = optimize(
      "graph other {\n input Right: f16[64, 64]\n input Left: f16[64, 64]\n S = sqr(Left)\n P = matmul(S, Right)\n"
      " Out = add(Left, P)\n output Out\n}");
  EXPECT_FALSE(searched_);
  EXPECT_TRUE(other.candidates.front().graph->find_tensor("Right"));
  EXPECT_EQ(other.candidates.front().cost.seconds, first.candidates.front().cost.seconds);
}

TEST_F(WithCache, OtherOptionsMiss) {
  optimize(kProgram);
  const SuperoptimizeOptions original = options_;
  const std::vector<std::function<void()>> changes{[&] { options_.search.seed = 2; },
                                                   [&] { options_.search.target = &targets().front(); },
                                                   [&] { options_.search.max_block_ops = 5; },
                                                   [&] { options_.search.max_kernel_ops = 3; },
                                                   [&] { options_.candidates = 2; },
                                                   [&] { options_.delta = 1e-6; },
                                                   [&] { options_.search.rules.cost = false; },
                                                   [&] { options_.search.rules.stability = false; },
                                                   [&] { options_.largest_full_proof = 1; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    options_ = original;
    changes[i]();
    optimize(kProgram);
    EXPECT_TRUE(searched_) << i;
  }
  options_ = original;
  options_.search.threads = 1;  // the result does not depend on it
  options_.search.time_limit = 5000;
  optimize(kProgram);
  EXPECT_FALSE(searched_);
}

/// With a clock that stands still but where a stage's end moves it: nothing here depends on how fast anything is.
class WithCacheAndClock : public WithCache {
 protected:
  void SetUp() override {
    WithCache::SetUp();
    options_.passes.libraries = false;  // another partition
  }

  struct Run {
    double limit = 100;
    double deadline = 100;               ///< which others may have brought forward
    std::string_view late = "";          ///< this stage takes the time:
    std::vector<double> takes = {1000};  ///< the first, the second, ... part's
    std::string_view stopped = "";       ///< at the end of this stage the user interrupts
  };

  /// How many parts are searched.
  int searches(const std::string& program, const Run& how) {
    ResultCache cache(folder_.string(), [](const std::string& text) { ADD_FAILURE() << text; });
    std::atomic<double> seconds = 1000;
    std::stop_source stop;
    SuperoptimizeOptions options = options_;
    options.cache = &cache;
    options.compile = false;
    options.search.time_limit = how.limit;
    options.deadline = Deadline(how.deadline, stop.get_token(), 3600, [&] {
      return Deadline::TimePoint{} +
             std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds.load()));
    });
    int searched = 0;
    size_t late = 0;
    options.stage_done = [&](std::string_view stage, double, const Graph&) {
      searched += stage == "search" ? 1 : 0;
      if (stage == how.late && late < how.takes.size()) seconds = seconds + how.takes[late++];
      if (stage == how.stopped) stop.request_stop();
    };
    run(parse(program), options);
    return searched;
  }
};

TEST_F(WithCacheAndClock, ALongerLimitSearchesAgain) {
  for (const std::string_view late : {"search", "thread-graphs"}) {
    std::filesystem::remove_all(folder_);
    EXPECT_EQ(searches(kProgram, {.late = late}), 1) << late;
    EXPECT_EQ(searches(kProgram, {.late = late}), 0) << late;
    EXPECT_EQ(searches(kProgram, {.limit = 50, .deadline = 50}), 0) << late;
    EXPECT_EQ(searches(kProgram, {.limit = 101, .deadline = 101, .late = late}), 1) << late;
    EXPECT_EQ(searches(kProgram, {}), 0) << late;
    EXPECT_EQ(searches(kProgram, {.limit = 102, .deadline = 102}), 1) << late;
    EXPECT_EQ(searches(kProgram, {.limit = 1e6, .deadline = 1e6}), 0) << late;  // the last one was complete
    EXPECT_EQ(searches(kProgram, {.limit = 0, .deadline = Deadline::kNever}), 0) << late;
  }
}

TEST_F(WithCacheAndClock, WhatHadLessThanItsShareCountsAsLess) {
  EXPECT_EQ(searches(kProgram, {.deadline = 5, .late = "search"}), 1);
  EXPECT_EQ(searches(kProgram, {.deadline = 5, .late = "search"}), 0);  // which could do no more
  EXPECT_EQ(searches(kProgram, {.limit = 5, .deadline = 5}), 0);
  EXPECT_EQ(searches(kProgram, {.late = "search"}), 1);
  EXPECT_EQ(searches(kProgram, {.late = "search"}), 0);
}

TEST_F(WithCacheAndClock, WhatTheUserCutIsNotKept) {
  // The search was complete, but not the proofs.
  EXPECT_EQ(searches(kProgram, {.late = "thread-graphs", .takes = {1e6}, .stopped = "search"}), 1);
  EXPECT_EQ(searches(kProgram, {}), 1);
  EXPECT_EQ(searches(kProgram, {}), 0);
}

/// A part for which nothing was found is searched in pieces, in the time that it leaves; these are known the next time.
TEST_F(WithCacheAndClock, PiecesAreTakenFromThereToo) {
  options_.search.max_kernel_ops = 1;
  options_.search.max_block_ops = 2;
  std::string program = "graph g {\n input A: f16[64, 64]\n";
  for (char c = 'A'; c < 'J'; ++c) {
    program += fmt::format(" {} = {}\n", static_cast<char>(c + 1),
                           c % 2 == 0 ? fmt::format("scale({}, factor=3)", c) : fmt::format("add({}, A)", c));
  }
  program += " output J\n}";
  // The whole, a piece of three operators and one of six, each longer than it may.
  const Run run{.late = "search", .takes = {81, 5, 5}};
  EXPECT_EQ(searches(program, run), 3);
  EXPECT_EQ(searches(program, run), 0);
  EXPECT_EQ(searches(program, {}), 0);
  EXPECT_EQ(searches(program, {.limit = 200, .deadline = 200}), 3);
  EXPECT_EQ(searches(program, {.limit = 1e6, .deadline = 1e6}), 0);
}

TEST_F(WithCache, InterruptedSearchesAreNotKept) {
  ResultCache cache(folder_.string(), {});
  const GraphPtr program = parse(kProgram);
  OptimizedPart part;
  part.candidates = {as_candidate(program, *options_.search.target)};
  for (StopReason reason : {StopReason::Interrupted, StopReason::TimeLimit, StopReason::Exhausted}) {
    part.stop_reason = reason;
    const std::string key(name_of(reason));
    store_part(cache, key, 1, part, program);
    const auto found = find_part(cache, key, 0, program, options_, Deadline());
    EXPECT_EQ(found.has_value(), reason != StopReason::Interrupted);
  }
}

TEST_F(WithCache, CubinsAreDroppedBeyondTheLimitAndNothingElseIs) {
  const std::string source = "extern \"C\" __global__ void nothing() {}\n";
  const Target& target = *options_.search.target;
  for (const int64_t limit : {ResultCache::kDefaultLimit, int64_t{0}}) {
    ResultCache cache(
        folder_.string(), [](const std::string& text) { ADD_FAILURE() << text; }, limit);
    if (limit != 0) cache.store("measurement", "key", "value");
    ASSERT_TRUE(cubin_of(source, target, &cache));
    const auto version = nvrtc_version();
    ASSERT_TRUE(version);
    EXPECT_EQ(cache.find("cubin", cubin_key(source, target, *version)).has_value(), limit != 0);
    EXPECT_TRUE(cache.find("measurement", "key"));
  }
}

TEST_F(WithCache, CubinsOfAnotherCompilerAreNotTaken) {
  const std::string source = "extern \"C\" __global__ void nothing() {}\n";
  const Target& target = *options_.search.target;
  ResultCache cache(folder_.string(), [](const std::string& text) { ADD_FAILURE() << text; });
  for (const std::string& key : {cubin_key(source, target, "0.1"), fmt::format("{}\n{}", target.name, source)})
    cache.store("cubin", key, "another compiler's");
  const auto cubin = cubin_of(source, target, &cache);
  ASSERT_TRUE(cubin) << cubin.error().to_string();
  EXPECT_TRUE(std::string(cubin->begin(), cubin->end())
                  .starts_with("\x7f"
                               "ELF"));
}

TEST_F(WithCache, NotesOfACubinAreKeptWithIt) {
  const std::string source = "extern \"C\" __global__ void copy(float* to, const float* from) { *to = *from; }\n";
  const Target& target = *options_.search.target;
  ResultCache cache(folder_.string(), [](const std::string& text) { ADD_FAILURE() << text; });
  RegisterUse made, kept;
  const auto first = cubin_of(source, target, &cache, {}, &made);
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_GT(made.registers, 0);
  // It is the cache's: a compiler would make the same of it, so it is changed first.
  const std::string key = cubin_key(source, target, nvrtc_version().value());
  std::string value = cache.find("cubin with notes", key).value().value;
  value.back() = static_cast<char>(value.back() + 1);
  cache.store("cubin with notes", key, value, 1);
  const auto second = cubin_of(source, target, &cache, {}, &kept);
  ASSERT_TRUE(second);
  EXPECT_NE(*first, *second);
  EXPECT_EQ(first->size(), second->size());
  EXPECT_EQ(kept.registers, made.registers);
}

TEST_F(WithCache, AGraphThatDiffersIsNotTaken) {
  const Superoptimized first = optimize(kProgram);
  const GraphPtr canonical = canonicalize(*partition(parse(kProgram)).value().parts[0].graph).graph;
  const std::string key = part_key(*canonical, options_);
  std::string wrong = print(*canonical);
  wrong.replace(wrong.find("add("), 4, "sub(");
  ASSERT_TRUE(parse_graph(wrong));
  {
    ResultCache cache(folder_.string(), {});
    auto json = nlohmann::json::parse(cache.find("part", key)->value);
    ASSERT_FALSE(json.at("graphs").empty());
    json["graphs"] = {wrong};
    cache.store("part", key, json.dump(), kExhaustive);
  }
  const Superoptimized again = optimize(kProgram);
  EXPECT_TRUE(searched_);
  EXPECT_EQ(print(*again.candidates.front().graph), print(*first.candidates.front().graph));
  optimize(kProgram);
  EXPECT_FALSE(searched_);  // what was found took its place
}

TEST_F(WithCache, EntriesThatDoNotFitAreSearchedAgain) {
  optimize(kProgram);
  const GraphPtr canonical = canonicalize(*partition(parse(kProgram)).value().parts[0].graph).graph;
  const std::string key = part_key(*canonical, options_);
  for (const char* wrong : {"", "{}", "{\"graphs\": []}", "{\"graphs\": [\"graph g {\"]}"}) {
    {
      ResultCache cache(folder_.string(), {});
      ASSERT_TRUE(cache.find("part", key));
      cache.store("part", key, wrong, kExhaustive);
    }
    optimize(kProgram);
    EXPECT_TRUE(searched_) << wrong;
  }
}

}  // namespace
}  // namespace strata
