// The block graphs of a decode step are graphs that the search finds: for each operator of tasks (decode_operators.h),
// there is one of the same structure among the search's graphs of the part, and it is proved. A structure is a graph
// without names, grid sizes and numbers of iterations, which a step chooses by the price (product_cut.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "ir/text.h"
#include "megakernel/models/test_operators.h"
#include "superopt/optimize/epilogue.h"
#include "superopt/partition/canonical.h"
#include "superopt/search/search.h"
#include "superopt/search/stabilise.h"
#include "superopt/verify/shrink.h"
#include "superopt/verify/verify.h"

namespace strata::megakernel {
namespace {

using Texts = std::map<TensorId, std::string>;

/// A dimension of a partial result in which parts lie beside each other, one for each block of a grid dimension that
/// cut what is summed up. Which dimension that is, is a layout that the kernel after it reads in the same way.
using Parts = std::map<TensorId, int64_t>;

/// An operator as an expression of what it reads: operands of commutative operators sorted, squares as products, maps
/// of the grid dimensions in `grid` alone and in that order; `parts` in the place of that dimension of what is saved or
/// read.
std::string expression(const Operation& op, std::vector<std::string> operands, const std::vector<size_t>& grid = {},
                       std::optional<int64_t> parts = {}) {
  const bool squares = op.kind == OpKind::Sqr;
  if (squares) operands.push_back(operands[0]);
  if (op_def(op.kind).traits.commutative) std::sort(operands.begin(), operands.end());
  std::string text =
      fmt::format("{}({}", squares ? op_def(OpKind::Mul).traits.name : op.name(), fmt::join(operands, ", "));
  const auto dimension = [&](int64_t dim) {
    return dim == parts ? "parts" : dim == kReplicate ? "_" : std::to_string(dim);
  };
  for (const auto& [name, value] : op.attributes.entries()) {
    if (name == "imap" || name == "omap") {
      std::vector<std::string> map;
      for (const size_t g : grid) map.push_back(dimension(std::get<std::vector<int64_t>>(value)[g]));
      text += fmt::format(" {}=[{}]", name, fmt::join(map, ", "));
    } else if (name == "fmap") {
      text += fmt::format(" fmap={}", dimension(std::get<int64_t>(value)));
    } else {
      text += fmt::format(" {}={}", name, to_string(value));
    }
  }
  return text + ")";
}

std::vector<std::string> of(const Texts& texts, const std::vector<TensorId>& ids) {
  std::vector<std::string> result;
  for (const TensorId id : ids) result.push_back(texts.at(id));
  return result;
}

/// Of the results of block graphs that the loop of another one walks along: in which dimension.
Parts parts_of(const Graph& graph) {
  Parts parts;
  for (const Operation& reader : graph.operations()) {
    if (!reader.body) continue;
    for (const Operation& op : reader.body->operations()) {
      if (op.kind != OpKind::InIter || !op.attributes.has("fmap")) continue;
      const auto& formals = reader.body->inputs();
      const auto number = std::find(formals.begin(), formals.end(), op.operands[0]) - formals.begin();
      const TensorId read = reader.operands[static_cast<size_t>(number)];
      const int producer = graph.tensor(read).producer;
      if (producer >= 0 && graph.operations()[static_cast<size_t>(producer)].body)
        parts[read] = op.attributes.integer("fmap");
    }
  }
  return parts;
}

/// What each result of a kernel graph's block graph is of what it reads. Grid dimensions of one block cut nothing and
/// are left out; the others come in the order of what they cut.
std::vector<std::string> block_structures(const Operation& kernel, const Texts& outside, const Parts& parts) {
  const Graph& body = *kernel.body;
  Texts texts;
  Parts inside;
  const auto take = [&](TensorId formal, TensorId tensor) {
    if (const auto known = parts.find(tensor); known != parts.end()) inside[formal] = known->second;
  };
  for (size_t i = 0; i < kernel.operands.size(); ++i) {
    texts[body.inputs()[i]] = outside.at(kernel.operands[i]);
    take(body.inputs()[i], kernel.operands[i]);
  }
  for (size_t n = 0; n < kernel.results.size(); ++n) take(body.outputs()[n], kernel.results[n]);
  std::vector<std::pair<std::set<std::string>, size_t>> cuts;
  for (size_t g = 0; g < body.launch().grid.size(); ++g) {
    if (body.launch().grid[g] == 1) continue;
    std::set<std::string> of_dimension;
    for (const Operation& op : body.operations()) {
      if (op.kind != OpKind::InIter) continue;
      const int64_t dim = op.attributes.list("imap")[g];
      if (dim != kReplicate) of_dimension.insert(fmt::format("{} {}", texts.at(op.operands[0]), dim));
    }
    cuts.emplace_back(std::move(of_dimension), g);
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<size_t> grid;
  for (const auto& [what, g] : cuts) grid.push_back(g);
  for (const Operation& op : body.operations()) {
    const auto known = inside.find(op.kind == OpKind::InIter ? op.operands[0] : op.results[0]);
    const std::optional<int64_t> dim = known == inside.end() ? std::optional<int64_t>{} : known->second;
    texts[op.results[0]] = expression(op, of(texts, op.operands), grid, dim);
  }
  std::vector<std::string> structures;
  for (const TensorId id : body.outputs())
    structures.push_back(fmt::format("block{}{{{}}}", body.launch().loop > 1 ? " loop" : "", texts.at(id)));
  return structures;
}

/// What each output of a kernel graph is of its inputs; `inputs` says what those are that have an entry.
std::vector<std::string> structures(const Graph& graph, const Names& inputs = {}) {
  const Parts parts = parts_of(graph);
  Texts texts;
  for (const TensorId id : graph.inputs()) {
    const std::string& name = graph.tensor(id).name;
    texts[id] = inputs.count(name) > 0 ? inputs.at(name) : name;
  }
  for (const Operation& op : graph.operations()) {
    const std::vector<std::string> results =
        op.body ? block_structures(op, texts, parts) : std::vector<std::string>{expression(op, of(texts, op.operands))};
    for (size_t n = 0; n < results.size(); ++n) texts[op.results[n]] = results[n];
  }
  return of(texts, graph.outputs());
}

/// What the search gets of a program: what one output is of the views of the inputs, which are inputs of it.
struct Core {
  GraphPtr graph;
  Names views;  ///< structures of the views
};

Core core_of(const Graph& program, TensorId output) {
  const auto size = program.tensors().size();
  std::vector<bool> given(size), wanted(size);
  Texts texts;
  for (const TensorId id : program.inputs()) {
    given[static_cast<size_t>(id)] = true;
    texts[id] = program.tensor(id).name;
  }
  for (const Operation& op : program.operations()) {
    const auto operand = static_cast<size_t>(op.operands[0]);
    if ((op.kind != OpKind::Transpose && op.kind != OpKind::Reshape) || !given[operand]) continue;
    given[static_cast<size_t>(op.results[0])] = true;
    texts[op.results[0]] = expression(op, of(texts, op.operands));
  }
  wanted[static_cast<size_t>(output)] = true;
  for (auto op = program.operations().rbegin(); op != program.operations().rend(); ++op) {
    const auto result = static_cast<size_t>(op->results[0]);
    if (!wanted[result] || given[result]) continue;
    for (const TensorId id : op->operands) wanted[static_cast<size_t>(id)] = true;
  }
  GraphBuilder builder(Level::Kernel, program.name());
  std::map<TensorId, TensorId> made;
  Core core;
  for (size_t i = 0; i < size; ++i) {
    if (!wanted[i] || !given[i]) continue;
    const auto id = static_cast<TensorId>(i);
    const std::string& name = program.tensor(id).name;
    made[id] = value_of(builder.input(name, program.type(id)));
    core.views[name] = texts.at(id);
  }
  for (const Operation& op : program.operations()) {
    const TensorId result = op.results[0];
    if (!wanted[static_cast<size_t>(result)] || made.count(result) > 0) continue;
    std::vector<TensorId> operands;
    for (const TensorId id : op.operands) operands.push_back(made.at(id));
    made[result] = value_of(builder.add(op.kind, operands, op.attributes, program.tensor(result).name));
  }
  EXPECT_TRUE(builder.output(made.at(output)));
  core.graph = value_of(builder.finish());
  return core;
}

/// How large the graphs are that are looked for: operators of the kernel graph and of a block graph. A kernel that
/// becomes the end of another one (epilogue.h) counts before it does.
struct Effort {
  int kernels, block_operators;
};

/// The search's graphs of a program, also with what follows a sum joined with its kernel.
std::vector<GraphPtr> found_by_search(const GraphPtr& program, const Effort& effort) {
  SearchOptions options;
  options.target = &targets().back();
  options.threads = 2;
  options.time_limit = 0;
  options.max_kernel_ops = effort.kernels;
  options.max_block_ops = effort.block_operators;
  const GraphPtr stable = stabilised(program, 1);
  const SearchResult result = value_of(search(stable ? stable : program, options));
  EXPECT_EQ(result.stop_reason, StopReason::Exhausted);
  std::vector<GraphPtr> graphs = result.graphs;
  for (const GraphPtr& graph : result.graphs) {
    if (GraphPtr joined = value_of(join_epilogues(graph)); joined != graph) graphs.push_back(std::move(joined));
  }
  return graphs;
}

bool is_proved(const GraphPtr& program, const GraphPtr& found) {
  // The verifier cannot see that a sum of masked exponentials is not 0 (decode_operators_test.cpp).
  const auto small = value_of(shrink(*with_positive(*program, "Seen"), *with_positive(*found, "Seen")));
  const VerifyResult proof = value_of(verify(*small.first, *small.second));
  EXPECT_LE(proof.error_bound, 1e-12);
  return proof.verdict == Verdict::Equivalent;
}

/// Sizes that grids of a search cut: the real vocabulary is 1,187 times a power of two.
ModelConfig searched_config() {
  ModelConfig config = *preset_config("qwen3-0.6b");
  config.vocab_size = 24576;
  return config;
}

struct SearchedPart {
  DecoderPart part;
  DecoderShape shape;
  DecodeTasks tasks;
  Effort effort;
  /// Changes of the operators' text after each of which nothing of its structure is found.
  std::vector<std::pair<std::string, std::string>> mistakes;
  /// Whether the verifier decides the search's own graph. It decides the step's in any case
  /// (decode_operators_test.cpp).
  bool decided = true;
};

void expect_found(const SearchedPart& searched) {
  const ModelConfig config = searched_config();
  const GraphPtr program = value_of(decoder_part(config, searched.shape, searched.part)).graph;
  const GraphPtr operators = value_of(decode_operators(config, searched.shape, searched.part, searched.tasks)).graph;
  const std::vector<std::string> wanted = structures(*operators);
  std::vector<GraphPtr> wrong;
  for (const auto& [from, to] : searched.mistakes) {
    std::string text = print(*operators);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in\n" << text;
    wrong.push_back(value_of(parse_graph(text.replace(at, from.size(), to))));
  }
  std::vector<int> compared(wrong.size());
  for (size_t n = 0; n < wanted.size(); ++n) {
    const Core core = core_of(*program, program->outputs()[n]);
    const std::vector<GraphPtr> graphs = found_by_search(core.graph, searched.effort);
    std::map<std::string, GraphPtr> found;
    for (const GraphPtr& graph : graphs) found.emplace(structures(*graph, core.views).front(), graph);
    const auto same = found.find(wanted[n]);
    ASSERT_NE(same, found.end()) << found.size() << " structures, none of them\n"
                                 << wanted[n] << "\nthe first is\n"
                                 << (graphs.empty() ? "" : structures(*graphs.front(), core.views).front());
    if (searched.decided) {
      EXPECT_TRUE(is_proved(core.graph, same->second)) << print(*same->second);
    }
    for (size_t i = 0; i < wrong.size(); ++i) {
      const std::string structure = structures(*wrong[i])[n];
      if (structure == wanted[n]) continue;  // another output's mistake
      ++compared[i];
      EXPECT_EQ(found.count(structure), 0U) << searched.mistakes[i].second;
    }
  }
  EXPECT_THAT(compared, testing::Each(testing::Gt(0))) << "a mistake that changes no structure";
}

constexpr DecodeTasks kTasks{};

/// Q, K and V each have a search of their own: a block graph of the search has one result (docs/search.md). The step's
/// has what the three have in common once.
TEST(DecodeStructures, NormQkv) {
  expect_found({DecoderPart::NormQkv,
                {1, 1024},
                kTasks,
                {1, 11},
                {{"mul(sum_Wq, inverse)", "mul(sum_Wq, mean)"}, {"sqr(x)", "mul(x, scaled)"}}});
}

TEST(DecodeStructures, OutputProjection) {
  expect_found({DecoderPart::OutputProjection,
                {1, 1024},
                kTasks,
                {2, 11},
                {{"accum(residual, kind=max)", "accum(residual, kind=sum)"}}});
}

TEST(DecodeStructures, GatedUp) {
  expect_found({DecoderPart::GatedUp,
                {1, 1024},
                kTasks,
                {1, 15},
                {{"mul(active, up)", "mul(gate, up)"}, {"silu(gate)", "silu(up)"}}});
}

TEST(DecodeStructures, Down) {
  expect_found(
      {DecoderPart::Down, {1, 1024}, kTasks, {2, 11}, {{"accum(residual, kind=max)", "accum(residual, kind=sum)"}}});
}

TEST(DecodeStructures, Head) {
  expect_found({DecoderPart::Head, {1, 1024}, kTasks, {1, 11}, {{"rsqrt(above)", "rsqrt(mean)"}}});
}

TEST(DecodeStructuresSlow, AttentionInSplits) {
  expect_found(
      {DecoderPart::Attention, {1, 1024}, kTasks, {2, 11}, {{"mul(powers, seen)", "mul(powers, powers)"}}, false});
}

/// Names, the order of statements and grid dimensions, and sizes that a step chooses are no part of a structure; what
/// is cut is.
TEST(DecodeStructures, AreWhatTheyAreTakenFor) {
  constexpr std::string_view kText = R"(
graph g {
  input X: f32[8, 64]
  input W: f32[64, 96]
  Y = block(X, W, grid=[2, 4], loop=4) {
    x = in_iter(X, imap=[0, _], fmap=1)
    w = in_iter(W, imap=[_, 1], fmap=0)
    p = matmul(x, w)
    s = accum(p, kind=sum)
    t = silu(s)
    y = mul(s, t)
    Y = out_saver(y, omap=[0, 1])
  }
  output Y
})";
  const auto changed = [&](const std::vector<std::pair<std::string, std::string>>& edits) {
    std::string text(kText);
    for (const auto& [from, to] : edits) {
      const size_t at = text.find(from);
      EXPECT_NE(at, std::string::npos) << from;
      text.replace(at, from.size(), to);
    }
    return structures(*value_of(parse_graph(text))).front();
  };
  const std::string same = changed({});
  EXPECT_EQ(changed({{"mul(s, t)", "mul(t, s)"}}), same);
  EXPECT_EQ(changed({{"grid=[2, 4], loop=4", "grid=[4, 3], loop=8"}}), same);
  EXPECT_EQ(changed({{"grid=[2, 4]", "grid=[4, 2]"}, {"[0, _]", "[_, 0]"}, {"[_, 1]", "[1, _]"}, {"[0, 1]", "[1, 0]"}}),
            same);
  EXPECT_NE(changed({{"silu(s)", "exp(s)"}}), same);
  EXPECT_NE(changed({{"kind=sum", "kind=max"}}), same);
  EXPECT_NE(changed({{"grid=[2, 4]", "grid=[1, 4]"}}), same);
  EXPECT_NE(changed({{"loop=4", "loop=1"}, {", fmap=1", ""}, {", fmap=0", ""}}), same);
}

}  // namespace
}  // namespace strata::megakernel
