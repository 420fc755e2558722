#include "superopt/search/search.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ir/text.h"
#include "ir/validate.h"
#include "superopt/search/checkpoint.h"
#include "superopt/search/model.h"
#include "support/hash.h"
#include "support/random.h"
#include "test_paths.h"

namespace strata {
namespace {

GraphPtr parse(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

GraphPtr program_named(const std::string& name) {
  auto graph = load_graph(std::string(STRATA_SOURCE_DIR) + "/programs/" + name + ".strata");
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

SearchOptions full_options() {
  SearchOptions options;
  options.target = &targets().back();
  options.threads = 2;
  options.time_limit = 0;
  return options;
}

std::vector<std::string> texts(const SearchResult& result) {
  std::vector<std::string> all;
  for (const GraphPtr& graph : result.graphs) all.push_back(print(*graph));
  return all;
}

TEST(Search, FindsFigure3bForRmsnorm) {
  auto result = search(program_named("rmsnorm"), full_options());
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_EQ(result->stop_reason, StopReason::Exhausted);
  const Graph& best = *result->graphs.front();
  ASSERT_EQ(best.operations().size(), 1U);
  const Graph& body = *best.operations()[0].body;
  EXPECT_GT(body.launch().loop, 1);
  // Both sums accumulate in one loop, and the division comes after it.
  const auto stages = loop_stages(body);
  int accumulators = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    const Operation& op = body.operations()[i];
    accumulators += op.kind == OpKind::Accum ? 1 : 0;
    const bool after = op.kind == OpKind::Div || op.kind == OpKind::Sqrt;
    if (after || op.kind == OpKind::Matmul) {
      EXPECT_EQ(stages[i], after ? LoopStage::After : LoopStage::Body);
    }
  }
  EXPECT_EQ(accumulators, 2);
}

TEST(Search, ResultDoesNotDependOnThreads) {
  for (const char* name : {"rmsnorm", "lora", "gated_mlp"}) {
    SearchOptions options = full_options();
    options.threads = 1;
    auto one = search(program_named(name), options);
    options.threads = 4;
    auto four = search(program_named(name), options);
    ASSERT_TRUE(one && four);
    EXPECT_EQ(texts(*one), texts(*four)) << name;
    EXPECT_EQ(one->statistics.generated, four->statistics.generated) << name;
  }
}

TEST(Search, ResumesFromACheckpoint) {
  const std::string path = (std::filesystem::temp_directory_path() / "strata-search-checkpoint.json").string();
  std::filesystem::remove(path);
  SearchOptions options = full_options();
  const auto keep = [&] {
    auto checkpoint = Checkpoint::open(path, *program_named("lora"), options);
    if (checkpoint) options.checkpoint = *checkpoint;
    return checkpoint ? std::string() : checkpoint.error().message;
  };
  ASSERT_EQ(keep(), "");
  auto first = search(program_named("lora"), options);
  ASSERT_TRUE(first) << first.error().to_string();
  ASSERT_EQ(keep(), "");
  auto second = search(program_named("lora"), options);
  ASSERT_TRUE(second) << second.error().to_string();
  EXPECT_EQ(texts(*first), texts(*second));
  EXPECT_EQ(second->statistics.verified, 0);  // nothing was searched again
  options.max_block_ops = 5;
  EXPECT_NE(keep().find("other options"), std::string::npos);
  std::ofstream(path) << "{\"key\": 3";
  EXPECT_NE(keep().find("damaged"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(Search, UnequalConcatsAndRepeatsAreSearchedInBoundedMemory) {
  for (const char* text :
       {"graph g {\n input X: f32[3, 2]\n input Y: f32[3, 5]\n C = concat(X, Y, dim=1)\n O = sqr(C)\n output O\n}",
        "graph g {\n input X: f32[8, 1]\n input Y: f32[8, 32]\n C = repeat(X, dim=1, times=32)\n"
        " Q = mul(C, Y)\n O = sum(Q, dim=1)\n output O\n}"}) {
    SearchOptions options = full_options();
    auto result = search(parse(text), options);
    ASSERT_TRUE(result) << result.error().to_string();
    EXPECT_FALSE(result->graphs.empty());
    EXPECT_EQ(result->stop_reason, StopReason::Exhausted);
  }
}

TEST(Search, SumsMultiplyWhatKeepsTheirAxis) {
  // The mean is subtracted from, and its difference multiplied by, values of the axis that it is taken over.
  auto result = search(parse("graph layernorm {\n input X: f32[96, 768]\n input G: f32[768]\n S = sum(X, dim=1)\n"
                             " M = scale(S, factor=1/768)\n C = sub(X, M)\n Q = sqr(C)\n V = sum(Q, dim=1)\n"
                             " N = scale(V, factor=1/768)\n R = sqrt(N)\n D = div(C, R)\n O = mul(D, G)\n output O\n}"),
                       full_options());
  ASSERT_TRUE(result) << result.error().to_string();
  ASSERT_FALSE(result->graphs.empty()) << result->left_out;
  EXPECT_EQ(result->graphs.front()->operations().size(), 1U);
}

TEST(Search, StopsWhenAskedAndKeepsItsBest) {
  SearchOptions options = full_options();
  options.time_limit = 0.1;
  auto limited = search(program_named("qknorm"), options);
  ASSERT_TRUE(limited);
  EXPECT_EQ(limited->stop_reason, StopReason::TimeLimit);
  std::stop_source source;
  source.request_stop();
  options.stop = source.get_token();
  auto stopped = search(program_named("rmsnorm"), options);
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->stop_reason, StopReason::Interrupted);
}

}  // namespace
}  // namespace strata
