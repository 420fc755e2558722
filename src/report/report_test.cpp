#include "report/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "report/drawing.h"
#include "report/shipped_graphs.h"
#include "report/summary.h"
#include "superopt/codegen/libraries.h"
#include "superopt/test_one_kernel.h"
#include "support/markup.h"
#include "test_paths.h"

namespace strata {
namespace {

/// Tags open and close in order; enough to catch a forgotten end or an unescaped character.
bool balanced(const std::string& markup) {
  std::vector<std::string> open;
  for (size_t at = markup.find('<'); at != std::string::npos; at = markup.find('<', at + 1)) {
    const size_t end = markup.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = markup.substr(at + 1, end - at - 1);
    if (tag.empty() || tag.back() == '/' || tag[0] == '!' || tag == "meta") continue;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  return open.empty();
}

/// A drawing grows with the square of such a graph; its text is shown.
TEST(Drawing, ThousandsOfOperatorsAreText) {
  std::string text = "graph chain {\n  input X: f32[4, 4]\n  a0 = sqr(X)\n";
  for (int i = 1; i < 3000; ++i) text += fmt::format("  a{} = mul(a{}, X)\n", i, i - 1);
  const auto graph = parse_graph(text + "  output a2999\n}\n");
  ASSERT_TRUE(graph) << graph.error().to_string();
  const std::string page = draw_html(**graph);
  EXPECT_EQ(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("It has 3000 operators."), std::string::npos);
  EXPECT_NE(page.find("a2999 = mul(a2998, X)"), std::string::npos);
}

TEST(Drawing, IsWellFormed) {
  EXPECT_TRUE(balanced("<a><b x=\"1\"/></a>"));
  EXPECT_FALSE(balanced("<a><b></a>"));
  for (const GraphPtr& graph : shipped_graphs()) EXPECT_TRUE(balanced(draw_svg(*graph))) << graph->name();
  EXPECT_EQ(escape_markup("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
}

/// The whole pipeline on RMSNorm: what `make run` shows.
class Rmsnorm : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto program = load_graph(STRATA_SOURCE_DIR "/programs/rmsnorm.strata");
    ASSERT_TRUE(program) << program.error().to_string();
    options_ = new SuperoptimizeOptions;
    options_->search.target = &targets().back();
    options_->search.threads = 2;
    options_->search.time_limit = 0;
    options_->candidates = 3;
    auto result = superoptimize(*program, *options_);
    ASSERT_TRUE(result) << result.error().to_string();
    result_ = new Superoptimized(std::move(*result));
  }
  static void TearDownTestSuite() {
    delete result_;
    delete options_;
  }
  static SuperoptimizeOptions* options_;
  static Superoptimized* result_;
};
SuperoptimizeOptions* Rmsnorm::options_ = nullptr;
Superoptimized* Rmsnorm::result_ = nullptr;

TEST_F(Rmsnorm, IsOneProvedKernelWithACubin) {
  const Candidate& best = result_->candidates.front();
  EXPECT_EQ(best.cost.kernels, 1);
  EXPECT_LT(best.cost.seconds, result_->program_cost.seconds);
  EXPECT_EQ(best.verification.verdict, Verdict::Equivalent);
  EXPECT_LE(best.verification.error_bound, 1e-12);
  EXPECT_LE(best.errors.candidate_f64, 1e-9);
  EXPECT_FALSE(result_->compile_error) << result_->compile_error->to_string();
  EXPECT_GT(result_->cubin.size(), 1000U);
  // Σx² and the product accumulate; scale, sqrt and div share one thread graph.
  const Graph& body = *best.graph->operations()[0].body;
  int thread_graphs = 0;
  for (const Operation& op : body.operations()) {
    if (!op.body) continue;
    ++thread_graphs;
    std::string names;
    for (const Operation& inner : op.body->operations()) names += std::string(inner.name()) + " ";
    EXPECT_EQ(names, "in_iter in_iter scale sqrt div out_saver ");
  }
  EXPECT_EQ(thread_graphs, 1);
}

TEST_F(Rmsnorm, ReportsCarryTheirKeys) {
  const auto json = nlohmann::json::parse(report_json(*result_, *options_));
  EXPECT_EQ(json.at("program"), "rmsnorm");
  EXPECT_EQ(json.at("target"), "sm_90a");
  for (const char* key : {"seconds", "threads", "generated", "pruned_shape", "pruned_memory", "pruned_expression",
                          "verified", "rejected"}) {
    EXPECT_TRUE(json.at("search").at(key).is_number()) << key;
  }
  EXPECT_EQ(json.at("best").at("kernels"), 1);
  EXPECT_GT(json.at("best").at("bytes"), 8000000);
  EXPECT_EQ(json.at("best").at("block_ops"), 9);
  EXPECT_TRUE(json.at("best").at("grid").is_array());
  EXPECT_GT(json.at("best").at("forloop"), 1);
  EXPECT_LE(json.at("verification").at("error_bound"), json.at("verification").at("delta"));
  EXPECT_GE(json.at("verification").at("tests"), 1);
  EXPECT_EQ(json.at("best").at("needs"), "");  // one fused kernel is faster than a library's product
  // One kernel with a product, whose tiles are in registers.
  const auto& launches = json.at("best").at("launches");
  ASSERT_EQ(launches.size(), result_->code.launches.size());
  EXPECT_EQ(launches[0].at("kernel"), result_->code.launches[0].kernel);
  EXPECT_GT(launches[0].at("estimated_seconds"), 0);
  EXPECT_GT(launches[0].at("bytes"), 0);
  const auto& layouts = json.at("best").at("layouts");
  ASSERT_EQ(layouts.size(), 1U);
  EXPECT_EQ(layouts[0].at("kernel"), result_->code.launches.at(0).kernel);
  EXPECT_GE(layouts[0].at("choices"), 1);
  EXPECT_GT(layouts[0].at("seconds"), 0);
  // Three in kernels of their own, and what has its product from a library: the program, and more where the library's
  // price is near enough.
  EXPECT_EQ(json.at("candidates").size(), result_->candidates.size());
  EXPECT_GE(json.at("candidates").size(), 4U);
  const auto without = std::count_if(result_->candidates.begin(), result_->candidates.end(),
                                     [](const Candidate& candidate) { return !uses_library(candidate.schedules); });
  EXPECT_EQ(without, 3);
  const std::string html = report_html(*result_, *options_);
  const std::string choices =
      fmt::format("best of {} choices for 1 kernel, found in ", layouts[0].at("choices").get<int>());
  EXPECT_NE(html.find(choices), std::string::npos);
  for (const char* text : {"for-loop", "imap", "omap", "fmap", "grid [", "thread graph", "pruned by axes"}) {
    EXPECT_NE(html.find(text), std::string::npos) << text;
  }
}

TEST(Reports, CutsAreNamedAsInTheProgramThatWasCut) {
  // The transpose moves to the inputs, so that what is cut has other tensors than what is written here.
  auto program = parse_graph(
      "graph g {\n input A: f16[16, 32]\n input B: f16[16, 32]\n input C: f16[16, 32]\n input D: f16[16, 32]\n"
      " s = add(A, B)\n u = add(C, D)\n v = mul(s, u)\n t = transpose(v, perm=[1, 0])\n e = exp(t)\n"
      " f = silu(e)\n output f\n}");
  ASSERT_TRUE(program) << program.error().to_string();
  SuperoptimizeOptions options;
  options.search.target = &targets().back();
  options.search.threads = 2;
  options.search.time_limit = 2;
  options.candidates = 1;
  const auto result = superoptimize(*program, options);
  ASSERT_TRUE(result) << result.error().to_string();
  ASSERT_NE(result->partition.program, *program);
  std::vector<std::string> cuts;
  const auto json = nlohmann::json::parse(report_json(*result, options));
  for (const auto& cut : json.at("cuts")) cuts.push_back(cut.at("value"));
  const std::vector<std::string> expected{"A_transposed", "B_transposed", "C_transposed", "D_transposed", "e"};
  EXPECT_EQ(cuts, expected);
  const std::string html = report_html(*result, options);
  for (const std::string& name : expected) EXPECT_NE(html.find(name), std::string::npos) << name;
}

/// The only number after `what` in a text; −1 where there is none.
double number_after(const std::string& text, const std::string& what) {
  const size_t at = text.find(what);
  return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + what.size(), nullptr);
}

TEST_F(Rmsnorm, TheSameGraphHasTheSameEstimate) {
  const auto json = nlohmann::json::parse(report_json(*result_, *options_));
  const auto& candidates = json.at("candidates");
  EXPECT_EQ(candidates.at(0).at("estimated_seconds"), json.at("best").at("estimated_seconds"));
  // The program as given is a candidate, with its product from a library, and what the result is compared with.
  const auto given = std::find_if(candidates.begin(), candidates.end(),
                                  [&](const auto& one) { return one.at("graph") == print(*result_->program); });
  ASSERT_NE(given, candidates.end());
  EXPECT_EQ(given->at("estimated_seconds"), json.at("input").at("estimated_seconds"));
  EXPECT_EQ(given->at("kernels"), json.at("input").at("kernels"));
  EXPECT_EQ(describe_input(*result_), "input (with cuBLASLt)");
  const std::string said = json.at("headline");
  EXPECT_TRUE(said.starts_with("1 kernel in place of 7 kernels: ")) << said;
  const double best = json.at("best").at("estimated_seconds").get<double>() * 1e6;
  const double input = json.at("input").at("estimated_seconds").get<double>() * 1e6;
  EXPECT_NEAR(number_after(said, "kernels: "), best, 0.005) << said;
  EXPECT_NEAR(number_after(said, "which takes "), input, 0.005) << said;
  EXPECT_NE(said.find("estimated and not measured"), std::string::npos) << said;
  const std::string html = report_html(*result_, *options_);
  EXPECT_NE(html.find(said), std::string::npos);
  EXPECT_NE(html.find(fmt::format("input (with cuBLASLt): 7 kernels, estimated {:.2f} µs", input)), std::string::npos);
  // Whoever is estimated below the best is so for a reason that is said.
  const auto least = std::min_element(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return a.at("estimated_seconds") < b.at("estimated_seconds");
  });
  EXPECT_EQ(describe_order(*result_).empty(), least->at("estimated_seconds").template get<double>() * 1e6 >= best);
}

TEST_F(Rmsnorm, ReportsSayHowToUseThemAndWhatTheirWordsMean) {
  const std::string html = report_html(*result_, *options_);
  for (const char* text :
       {">How to use this</h2>", "best.launch.cpp", "strata verify", ">Glossary</h2>", "<dt>µGraph</dt>",
        "<dt>estimate</dt>", "<dt>error bound</dt>", "repeated by the for-loop"}) {
    EXPECT_NE(html.find(text), std::string::npos) << text;
  }
  const size_t body = html.find("<body>"), scripts = html.find("<script>", body);
  EXPECT_TRUE(balanced(html.substr(body, scripts - body) + "</body>"));
}

TEST_F(Rmsnorm, MeasurementsAreReported) {
  Tuning tuning;
  tuning.device = {"a <GPU>", 12080};
  tuning.reference = "the interpreter in float64";
  const auto add = [&](int candidate, MeasureVerdict verdict, const std::string& reason, double error, double us) {
    TunedRow row;
    row.graph = candidate < 0 ? result_->program : result_->candidates[static_cast<size_t>(candidate)].graph;
    row.candidate = candidate;
    row.is_program = candidate < 0;
    row.estimated_us = 5;
    row.place = static_cast<int>(tuning.rows.size()) + 1;
    row.measurement = {verdict, reason, error, us, us / 2};
    tuning.rows.push_back(row);
  };
  add(0, MeasureVerdict::Right, "", 1e-4, 4);
  add(-1, MeasureVerdict::Right, "", 1e-4, 6);
  add(1, MeasureVerdict::Wrong, "Z holds NaN", std::nan(""), 0);
  add(2, MeasureVerdict::Timeout, "no answer in 10 s", 0, 0);
  const auto json = nlohmann::json::parse(report_json(*result_, *options_, {tuning, ""})).at("profile");
  EXPECT_EQ(json.at("measured"), true);
  EXPECT_EQ(json.at("driver"), 12080);
  EXPECT_EQ(json.at("place_of_best"), 1);
  EXPECT_TRUE(json.at("rank_correlation").is_null());
  const auto& rows = json.at("rows");
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].at("chosen"), true);
  EXPECT_EQ(rows[0].at("cold_us"), 4);
  EXPECT_EQ(rows[0].at("hot_us"), 2);
  EXPECT_EQ(rows[1].at("candidate"), "input");
  EXPECT_EQ(rows[1].at("why_not"), "1.50x slower");
  EXPECT_TRUE(rows[2].at("error").is_null());
  EXPECT_EQ(rows[2].at("why_not"), "wrong: Z holds NaN");
  EXPECT_TRUE(rows[3].at("cold_us").is_null());
  EXPECT_EQ(rows[3].at("verdict"), "timeout");
  EXPECT_EQ(describe_tuning(tuning),
            "a <GPU> (driver for CUDA 12.8), against the interpreter in float64: 2 right, 1 wrong, 1 timeout after "
            "0.0 s");
  tuning.device.without_cublas_lt = "cuBLASLt was not found";
  EXPECT_TRUE(describe_tuning(tuning).ends_with("0.0 s; no products by a library: cuBLASLt was not found"));
  const std::string html = report_html(*result_, *options_, {tuning, ""});
  EXPECT_NE(html.find("a &lt;GPU&gt;"), std::string::npos);
  EXPECT_NE(html.find("<td>1.50x slower</td>"), std::string::npos);
  // The headline is of times where there are any.
  EXPECT_EQ(headline(*result_, {tuning, ""}),
            "1 kernel in place of 7 kernels: 4.00 µs, measured on a <GPU> with cold caches; 1.50 times as fast as the "
            "input, which takes 6.00 µs");
  tuning.rows[1].measurement.verdict = MeasureVerdict::Failed;
  EXPECT_NE(headline(*result_, {tuning, ""}).find("estimated and not measured"), std::string::npos);
  EXPECT_NE(report_html(*result_, *options_, {std::nullopt, "no GPU"}).find("Nothing: no GPU"), std::string::npos);
}

/// What finite fields cannot decide: a maximum, relu, an exponential of a cubic.
const char* const kOutsidePrograms[] = {
    R"(graph attention {
  input Q: f16[64, 64]
  input K: f16[64, 256]
  input V: f16[256, 64]
  S = matmul(Q, K)
  M = reduce_max(S, dim=1)
  D = sub(S, M)
  E = exp(D)
  N = sum(E, dim=1)
  P = div(E, N)
  O = matmul(P, V)
  output O
})",
    R"(graph relu_mlp {
  input X: f16[8, 256]
  input W: f16[256, 512]
  P = matmul(X, W)
  Y = relu(P)
  output Y
})",
    R"(graph gelu_mlp {
  input X: f16[8, 256]
  input W: f16[256, 512]
  P = matmul(X, W)
  Y = gelu(P)
  output Y
})"};

TEST(Pipeline, WhatIsOutsideTheFragmentIsProved) {
  for (const char* text : kOutsidePrograms) {
    const auto program = parse_graph(text);
    ASSERT_TRUE(program) << program.error().to_string();
    SuperoptimizeOptions options = testing_one_kernel::options_of_small_programs();
    options.solver_time_limit = 300;
    const auto result = superoptimize(*program, options);
    ASSERT_TRUE(result) << result.error().to_string();
    const Candidate& best = result->candidates.front();
    EXPECT_EQ(best.cost.kernels, 1) << result->unproved_reason;
    EXPECT_EQ(best.verification.verdict, Verdict::Equivalent);
    // What stands outside is moved and not rewritten, so that random functions stand for it.
    EXPECT_EQ(best.verification.method, ProofMethod::FiniteFields);
    const auto json = nlohmann::json::parse(report_json(*result, options));
    EXPECT_EQ(json.at("verification").at("method"), "finite fields");
    EXPECT_EQ(report_html(*result, options).find("by the solver, "), std::string::npos);
  }
}

}  // namespace
}  // namespace strata
