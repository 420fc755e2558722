// The best µGraphs of Mirage (OSDI'25), and those of FlashAttention and FlashDecoding, by name: each is found by the
// search and proved.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text.h"
#include "superopt/search/search.h"
#include "superopt/search/stabilise.h"
#include "superopt/verify/shrink.h"
#include "superopt/verify/verify.h"
#include "test_paths.h"

namespace strata {
namespace {

GraphPtr program_named(const std::string& name) {
  auto graph = load_graph(std::string(STRATA_SOURCE_DIR) + "/programs/" + name + ".strata");
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

/// Operators of a kernel in the loop (or where there is none) and after it.
struct Kernel {
  explicit Kernel(const Operation& op) : body(*op.body), stages(loop_stages(body)) {}

  int count(OpKind kind, LoopStage stage) const {
    int found = 0;
    for (size_t i = 0; i < stages.size(); ++i) found += body.operations()[i].kind == kind && stages[i] == stage;
    return found;
  }
  int in_loop(OpKind kind) const { return count(kind, LoopStage::Body); }
  int after(OpKind kind) const { return count(kind, LoopStage::After); }
  bool loops() const { return body.launch().loop > 1; }

  const Graph& body;
  std::vector<LoopStage> stages;
};

std::vector<Kernel> kernels_of(const Graph& graph) {
  std::vector<Kernel> kernels;
  for (const Operation& op : graph.operations()) {
    if (!op.body) return {};
    kernels.emplace_back(op);
  }
  return kernels;
}

using Wanted = std::function<bool(const std::vector<Kernel>&)>;

/// The cheapest graph of `kernels` graph-defined kernels that is wanted; proved equal to the program.
void expect_found(const GraphPtr& program, const GraphPtr& searched, int kernels, const Wanted& wanted) {
  SearchOptions options;
  options.target = &targets().back();
  options.threads = 2;
  options.max_kernel_ops = kernels;
  options.max_block_ops = 11;
  options.time_limit = 0;
  auto result = search(searched, options);
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_EQ(result->stop_reason, StopReason::Exhausted);
  const auto found = std::find_if(result->graphs.begin(), result->graphs.end(), [&](const GraphPtr& graph) {
    const auto made = kernels_of(*graph);
    return static_cast<int>(made.size()) == kernels && wanted(made);
  });
  ASSERT_NE(found, result->graphs.end()) << result->graphs.size() << " graphs, none of them it";
  const auto small = shrink(*program, **found);
  ASSERT_TRUE(small) << small.error().to_string();
  const auto proof = verify(*small->first, *small->second);
  ASSERT_TRUE(proof) << proof.error().to_string();
  EXPECT_EQ(proof->verdict, Verdict::Equivalent) << proof->reason << "\n" << print(**found);
  EXPECT_LE(proof->error_bound, 1e-12);
}

GraphPtr stable(const GraphPtr& program) {
  const GraphPtr result = stabilised(program, 1);
  EXPECT_TRUE(result);
  return result;
}

TEST(NamedGraphs, RmsnormFigure3b) {
  // Σx² and the product in one loop, the root and the division after it.
  const GraphPtr program = program_named("rmsnorm");
  expect_found(program, program, 1, [](const std::vector<Kernel>& k) {
    return k[0].loops() && k[0].in_loop(OpKind::Matmul) == 1 && k[0].in_loop(OpKind::Accum) == 2 &&
           k[0].after(OpKind::Sqrt) == 1 && k[0].after(OpKind::Div) == 1;
  });
}

TEST(NamedGraphs, GqaAsFlashAttentionWithoutMaximum) {
  const GraphPtr program = program_named("gqa");
  expect_found(program, program, 1, [](const std::vector<Kernel>& k) {
    return k[0].loops() && k[0].in_loop(OpKind::Matmul) == 2 && k[0].in_loop(OpKind::Exp) == 1 &&
           k[0].in_loop(OpKind::Sum) == 1 && k[0].in_loop(OpKind::Accum) == 2 && k[0].after(OpKind::Div) == 1;
  });
}

TEST(NamedGraphs, GqaAsFlashAttentionWithOnlineSoftmax) {
  const GraphPtr program = program_named("gqa");
  expect_found(program, stable(program), 1, [](const std::vector<Kernel>& k) {
    return k[0].loops() && k[0].in_loop(OpKind::Matmul) == 2 && k[0].in_loop(OpKind::ReduceMax) == 1 &&
           k[0].in_loop(OpKind::Exp) == 1 && k[0].in_loop(OpKind::Sum) == 1 &&
           k[0].in_loop(OpKind::AccumRescale) == 2 && k[0].after(OpKind::Div) == 1;
  });
}

bool splits(const std::vector<Kernel>& k, OpKind accumulator) {
  // Blocks share a row of scores: the grid cuts dimension 2 of K.
  const Graph& first = k[0].body;
  const bool cut = std::any_of(first.operations().begin(), first.operations().end(), [&](const Operation& op) {
    if (op.kind != OpKind::InIter || first.tensor(op.operands[0]).name != "K") return false;
    const std::vector<int64_t>& imap = op.attributes.list("imap");
    return std::find(imap.begin(), imap.end(), 2) != imap.end();
  });
  return cut && first.outputs().size() >= 2 && k[1].loops() && k[1].in_loop(accumulator) == 2 &&
         k[1].after(OpKind::Div) == 1 && k[0].in_loop(OpKind::Matmul) == 2;
}

TEST(NamedGraphs, GqaAsFlashDecodingWithoutMaximum) {
  const GraphPtr program = program_named("gqa");
  expect_found(program, program, 2, [](const std::vector<Kernel>& k) { return splits(k, OpKind::Accum); });
}

TEST(NamedGraphs, GqaAsFlashDecodingWithOnlineSoftmax) {
  const GraphPtr program = program_named("gqa");
  expect_found(program, stable(program), 2, [](const std::vector<Kernel>& k) {
    return splits(k, OpKind::AccumRescale) && k[0].body.outputs().size() == 3;
  });
}

TEST(NamedGraphs, QknormWithNormsInsideAttention) {
  const GraphPtr program = program_named("qknorm");
  expect_found(program, stable(program), 1, [](const std::vector<Kernel>& k) {
    return k[0].loops() && k[0].in_loop(OpKind::Sqrt) == 2 && k[0].in_loop(OpKind::Matmul) == 2 &&
           k[0].in_loop(OpKind::Exp) == 1 && k[0].in_loop(OpKind::AccumRescale) == 2 && k[0].after(OpKind::Div) == 1;
  });
}

TEST(NamedGraphs, LoraAsOneProductOfConcatenations) {
  const GraphPtr program = program_named("lora");
  expect_found(program, program, 1, [](const std::vector<Kernel>& k) {
    return k[0].in_loop(OpKind::ConcatMatmul) + k[0].after(OpKind::ConcatMatmul) == 1 &&
           k[0].in_loop(OpKind::Matmul) + k[0].after(OpKind::Matmul) == 1;
  });
}

TEST(NamedGraphs, GatedMlpAsTwoProductsInOneLoop) {
  const GraphPtr program = program_named("gated_mlp");
  expect_found(program, program, 1, [](const std::vector<Kernel>& k) {
    return k[0].loops() && k[0].in_loop(OpKind::Matmul) == 2 && k[0].in_loop(OpKind::Accum) == 2 &&
           k[0].after(OpKind::SiLU) == 1 && k[0].after(OpKind::Mul) == 1;
  });
}

TEST(NamedGraphs, NtransAsOneKernel) {
  const GraphPtr program = program_named("ntrans");
  expect_found(program, program, 1,
               [](const std::vector<Kernel>& k) { return k[0].in_loop(OpKind::Sqrt) + k[0].after(OpKind::Sqrt) == 2; });
}

/// Inputs of magnitude up to 1e4 in f16: scores of 1e9 overflow a half, their exponentials overflow everything.
TEST(Stability, OnlineSoftmaxSurvivesLargeInputs) {
  const GraphPtr program = program_named("gqa");
  const auto is_stable = [&](const GraphPtr& graph) {
    const auto small = shrink(*program, *graph);
    EXPECT_TRUE(small);
    const auto errors = float_errors(*small->first, *small->second, 1, {}, stabilised(small->first, 1));
    EXPECT_TRUE(errors);
    EXPECT_TRUE(errors->acceptable);
    return errors->stable;
  };
  const auto data = [](const std::string& name) {
    return *load_graph(std::string(STRATA_SOURCE_DIR) + "/tests/data/" + name + ".strata");
  };
  EXPECT_FALSE(is_stable(program));
  EXPECT_FALSE(is_stable(data("gqa_fused")));
  EXPECT_FALSE(is_stable(data("gqa_split")));
  EXPECT_TRUE(is_stable(data("gqa_online")));
  EXPECT_TRUE(is_stable(data("gqa_online_split")));
  // Maxima of scores do not fit a half.
  std::string text = print(*data("gqa_online_split"));
  for (size_t at = 0; (at = text.find(", dtype=f32", at)) != std::string::npos;) text.erase(at, 11);
  for (size_t at = 0; (at = text.find("f32[", at)) != std::string::npos;) text.replace(at, 3, "f16");
  const auto halves = parse_graph(text);
  ASSERT_TRUE(halves) << halves.error().to_string();
  EXPECT_FALSE(is_stable(*halves));
}

/// The exponentials of a program that is no softmax stay as they are.
TEST(Stability, OnlySoftmaxGetsAMaximum) {
  const auto changed = [](const char* text) { return stabilised(*parse_graph(text), 1) != nullptr; };
  EXPECT_TRUE(changed("graph g {\n input A: f32[4, 8]\n E = exp(A)\n S = sum(E, dim=1)\n O = div(E, S)\n output O\n}"));
  EXPECT_TRUE(changed("graph g {\n input A: f32[4, 8]\n E = exp(A)\n S = sum(E, dim=0)\n O = div(E, S)\n output O\n}"));
  EXPECT_FALSE(changed("graph g {\n input A: f32[4, 8]\n E = exp(A)\n S = sum(E, dim=1)\n output S\n}"));
  EXPECT_FALSE(
      changed("graph g {\n input A: f32[4, 8]\n M = reduce_max(A, dim=1)\n T = sub(A, M)\n E = exp(T)\n"
              " S = sum(E, dim=1)\n O = div(E, S)\n output O\n}"));
}

}  // namespace
}  // namespace strata
