#include "superopt/partition/canonical.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ir/text.h"
#include "support/random.h"
#include "test_paths.h"

namespace strata {
namespace {

GraphPtr parse(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return *graph;
}

std::string canonical(const GraphPtr& graph) { return print(*canonicalize(*graph).graph); }

/// The program with random names, its statements in a random legal order and commutative operands swapped.
GraphPtr shuffled(const Graph& graph, uint64_t seed) {
  Random random(seed);
  GraphBuilder builder(Level::Kernel, "shuffled");
  std::vector<TensorId> ids(graph.tensors().size(), -1);
  int names = static_cast<int>(random.below(1000));
  const auto name = [&] { return fmt::format("n{}", names += 1 + static_cast<int>(random.below(9))); };
  std::vector<TensorId> inputs = graph.inputs();
  std::shuffle(inputs.begin(), inputs.end(), random);
  for (TensorId id : inputs) ids[static_cast<size_t>(id)] = builder.input(name(), graph.type(id)).value();
  std::vector<const Operation*> left;
  for (const Operation& op : graph.operations()) left.push_back(&op);
  while (!left.empty()) {
    const size_t at = random.below(left.size());
    const Operation& op = *left[at];
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
    if (std::count(operands.begin(), operands.end(), -1) > 0) continue;
    if (op_def(op.kind).traits.commutative && random.below(2) == 0) std::reverse(operands.begin(), operands.end());
    ids[static_cast<size_t>(op.results[0])] = builder.add(op.kind, operands, op.attributes, name()).value();
    left.erase(left.begin() + static_cast<int64_t>(at));
  }
  std::vector<TensorId> outputs = graph.outputs();
  std::shuffle(outputs.begin(), outputs.end(), random);
  for (TensorId id : outputs) EXPECT_TRUE(builder.output(ids[static_cast<size_t>(id)]));
  return builder.finish().value();
}

TEST(Canonical, NamesAndOrdersDoNotMatter) {
  const GraphPtr two_outputs = parse(
      "graph g {\n input X: f16[8, 16]\n input G: f16[16]\n input A: f16[16, 4]\n input B: f16[16, 4]\n"
      " Y = mul(X, G)\n P = matmul(Y, A)\n Q = matmul(Y, B)\n S = silu(P)\n T = mul(S, Q)\n U = sqr(Q)\n"
      " output T, U\n}");
  std::vector<GraphPtr> programs{two_outputs};
  for (const char* program : {"rmsnorm", "lora", "gated_mlp", "ntrans", "gqa", "qknorm"}) {
    programs.push_back(load_graph(fmt::format("{}/programs/{}.strata", STRATA_SOURCE_DIR, program)).value());
  }
  for (const GraphPtr& program : programs) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      ASSERT_EQ(canonical(program), canonical(shuffled(*program, seed))) << program->name() << " " << seed;
    }
  }
}

TEST(Canonical, WhatComputesAnythingElseDiffers) {
  const char* text =
      "graph g {{\n input A: f16[{}]\n input B: f16[4, 4]\n C = {}({})\n D = scale(C, factor={})\n output D\n}}";
  const std::string base = canonical(parse(fmt::format(fmt::runtime(text), "4, 4", "sub", "A, B", "1/4")));
  EXPECT_EQ(base, canonical(parse(fmt::format(fmt::runtime(text), "4, 4", "sub", "B, A", "1/4"))));  // names alone
  EXPECT_NE(base, canonical(parse(fmt::format(fmt::runtime(text), "1, 4", "sub", "A, B", "1/4"))));
  EXPECT_NE(base, canonical(parse(fmt::format(fmt::runtime(text), "4, 4", "add", "A, B", "1/4"))));
  EXPECT_NE(base, canonical(parse(fmt::format(fmt::runtime(text), "4, 4", "sub", "A, A", "1/4"))));
  EXPECT_NE(base, canonical(parse(fmt::format(fmt::runtime(text), "4, 4", "sub", "A, B", "1/8"))));
}

TEST(Canonical, RenamingBackGivesTheProgram) {
  const GraphPtr program = load_graph(STRATA_SOURCE_DIR "/programs/lora.strata").value();
  const CanonicalProgram form = canonicalize(*program);
  const GraphPtr back = rename(*form.graph, form.original, program->name());
  for (const TensorInfo& tensor : program->tensors()) EXPECT_TRUE(back->find_tensor(tensor.name)) << tensor.name;
  EXPECT_EQ(back->tensor(back->outputs()[0]).name, "O");
  EXPECT_EQ(canonical(back), print(*form.graph));
}

TEST(Canonical, OutputsComeBackInTheirOrder) {
  for (const char* order : {"B, C, D", "D, C, B", "C, D, B"}) {
    const GraphPtr program = parse(
        fmt::format("graph g {{\n input A: f16[4]\n B = exp(A)\n C = sqr(A)\n D = sqrt(A)\n output {}\n}}", order));
    const CanonicalProgram form = canonicalize(*program);
    EXPECT_EQ(print(*restore(*form.graph, form, "g")).find(fmt::format("output {}\n", order)) != std::string::npos,
              true);
  }
}

TEST(Canonical, OutputsKeepTheirNamesBeforeOthers) {
  // A search names what it adds t1, t2 and so on, as programs may name their outputs.
  const GraphPtr graph = parse("graph part {\n input x0: f16[4]\n t3 = exp(x0)\n y1 = sqr(t3)\n output y1\n}");
  const GraphPtr named = rename(*graph, {{"x0", "X"}, {"y1", "t3"}}, "g");
  EXPECT_EQ(named->tensor(named->outputs()[0]).name, "t3");
  EXPECT_TRUE(named->find_tensor("t3_"));
}

TEST(Canonical, BodiesAreRenamedWithTheirProgram) {
  const GraphPtr graph = parse(
      "graph part {\n input x0: f16[4, 8]\n y1 = block(x0, grid=[2]) {\n  x0_tile = in_iter(x0, imap=[0])\n"
      "  exp_1 = exp(x0_tile)\n  y1 = out_saver(exp_1, omap=[0])\n }\n output y1\n}");
  const GraphPtr named = rename(*graph, {{"x0", "Hidden"}, {"y1", "Out"}}, "g");
  EXPECT_EQ(print(*named),
            "graph g {\n  input Hidden: f16[4, 8]\n  Out = block(Hidden, grid=[2]) {\n"
            "    Hidden_tile = in_iter(Hidden, imap=[0]) : f16[2, 8]\n    exp_1 = exp(Hidden_tile) : f16[2, 8]\n"
            "    Out = out_saver(exp_1, omap=[0]) : f16[4, 8]\n  }\n  output Out\n}\n");
}

}  // namespace
}  // namespace strata
