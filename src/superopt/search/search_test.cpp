#include "superopt/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "interpret/interpret.h"
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

/// The canonical form of a block graph as text: the expression tree of its output, operands of commutative operators
/// sorted, grid dimensions in the order of what they cut. Equal values are one, and neither names nor the order of
/// statements count.
std::string canonical(const Graph& body) {
  std::vector<std::pair<std::string, size_t>> grid;
  for (size_t g = 0; g < body.launch().grid.size(); ++g) {
    std::map<std::string, std::string> cuts;
    for (const Operation& op : body.operations()) {
      const AttributeValue* map = op.attributes.find(op.kind == OpKind::InIter ? "imap" : "omap");
      const std::string tensor = op.kind == OpKind::InIter ? body.tensor(op.operands[0]).name : "result";
      if (map != nullptr) cuts[tensor] = std::to_string(std::get<std::vector<int64_t>>(*map)[g]);
    }
    std::string signature;
    for (const auto& [tensor, d] : cuts) signature += tensor + d + " ";
    grid.emplace_back(signature, g);
  }
  std::sort(grid.begin(), grid.end());
  std::map<TensorId, std::string> text;
  for (TensorId id : body.inputs()) text[id] = body.tensor(id).name;
  for (const Operation& op : body.operations()) {
    if (op.kind == OpKind::Sum && body.type(op.operands[0]) == body.type(op.results[0])) {
      text[op.results[0]] = text[op.operands[0]];  // a sum of one element is the element
      continue;
    }
    std::vector<std::string> operands;
    for (TensorId id : op.operands) operands.push_back(text[id]);
    if (op_def(op.kind).traits.commutative) std::sort(operands.begin(), operands.end());
    std::string attributes;
    for (const auto& [name, value] : op.attributes.entries()) {
      if (name == "imap" || name == "omap") continue;
      attributes += fmt::format(" {}={}", name, to_string(value));
    }
    text[op.results[0]] = fmt::format("{}({}{})", op.name(), fmt::join(operands, ","), attributes);
  }
  std::string launch;
  for (const auto& [signature, g] : grid) launch += fmt::format("{}: {}; ", body.launch().grid[g], signature);
  return fmt::format("grid {}loop {} {}", launch, body.launch().loop, text[body.outputs()[0]]);
}

/// All block graphs of at most `max_ops` operators at given launch shapes, by plain enumeration with no rule but the
/// legality of every graph: operators of the program in any combination over any tensors, every imap, fmap and omap.
class BruteForce {
 public:
  BruteForce(const GraphPtr& program, int max_ops, std::vector<LaunchShape> launches)
      : program_(program), max_ops_(max_ops), launches_(std::move(launches)) {
    for (const Operation& op : program->operations()) {
      kinds_.insert(op.kind);
      if (op.kind == OpKind::Scale) scales_.push_back(op.attributes);
    }
    Random random(5);
    const PrimeField fp(kVerifierPrimes.p);
    const uint64_t g = fp.from_integer(random() | 4);
    arithmetic_.emplace(fp, PrimeField(kVerifierPrimes.q), fp.mul(g, g), 1);
    for (TensorId id : program->inputs()) {
      FieldTensor value(program->type(id).shape);
      for (FieldValue& v : value.data) v = {fp.from_integer(random()), arithmetic_->fq.from_integer(random())};
      inputs_.push_back(std::move(value));
    }
    FieldArithmetic field = *arithmetic_;
    expected_ = execute(*program, field, inputs_)->front();
  }

  /// Canonical texts of those that compute the program.
  std::set<std::string> run() {
    for (const LaunchShape& launch : launches_) {
      launch_ = launch;
      iterators(0, {});
    }
    return found_;
  }
  int64_t tried() const { return tried_; }

 private:
  struct Step {
    OpKind kind;
    Attributes attributes;
    std::vector<size_t> operands;  // indices of earlier steps; for in_iter an input
  };

  void iterators(size_t input, std::vector<Step> steps) {
    if (input == program_->inputs().size()) {
      // A loop that cuts nothing repeats the same work; a sum over it is right only where its factor cancels.
      const auto cuts = [](const Step& step) { return step.attributes.has("fmap"); };
      if (launch_.loop > 1 && std::none_of(steps.begin(), steps.end(), cuts)) return;
      return extend(steps, steps.size());
    }
    const auto rank = static_cast<int64_t>(program_->type(program_->inputs()[input]).shape.size());
    std::vector<std::vector<int64_t>> imaps{{}};
    for (size_t g = 0; g < launch_.grid.size(); ++g) {
      std::vector<std::vector<int64_t>> longer;
      for (const auto& map : imaps) {
        for (int64_t d = kReplicate; d < rank; ++d) {
          if (launch_.grid[g] == 1 && d != kReplicate) continue;
          // Two grid dimensions that cut one dimension are one larger grid dimension under another name.
          if (d != kReplicate && std::find(map.begin(), map.end(), d) != map.end()) continue;
          longer.push_back(map);
          longer.back().push_back(d);
        }
      }
      imaps = std::move(longer);
    }
    for (const auto& imap : imaps) {
      for (int64_t fmap = kReplicate; fmap < (launch_.loop > 1 ? rank : 0); ++fmap) {
        Attributes attributes;
        attributes.set("imap", imap);
        if (fmap != kReplicate) attributes.set("fmap", fmap);
        auto more = steps;
        more.push_back({OpKind::InIter, attributes, {input}});
        iterators(input + 1, std::move(more));
      }
    }
  }

  void extend(const std::vector<Step>& steps, size_t iterators) {
    finish(steps);
    if (steps.size() - iterators == static_cast<size_t>(max_ops_)) return;
    const auto attempt = [&](OpKind kind, const Attributes& attributes, const std::vector<size_t>& operands) {
      const Step step{kind, attributes, operands};
      const auto same = [&](const Step& s) {
        return s.kind == kind && s.attributes == attributes && s.operands == operands;
      };
      if (std::any_of(steps.begin(), steps.end(), same)) return;
      auto more = steps;
      more.push_back(step);
      if (legal_prefix(more)) extend(more, iterators);
    };
    for (size_t a = 0; a < steps.size(); ++a) {
      for (OpKind kind : kinds_) {
        const OpDef& op = op_def(kind);
        if (op.traits.elementwise && op.traits.arity == 1 && kind != OpKind::Scale) attempt(kind, {}, {a});
        if (kind == OpKind::Scale) {
          for (const Attributes& attributes : scales_) attempt(kind, attributes, {a});
        }
        if (kind == OpKind::Sum) {
          for (int64_t d = 0; d < 3; ++d) {
            Attributes attributes;
            attributes.set("dim", d);
            attempt(kind, attributes, {a});
          }
        }
        if (op.traits.arity != 2) continue;
        for (size_t b = 0; b < steps.size(); ++b) {
          if (!op.traits.commutative || a <= b) attempt(kind, {}, {a, b});
        }
      }
      if (launch_.loop > 1) {
        Attributes sum;
        sum.set("kind", std::string("sum"));
        attempt(OpKind::Accum, sum, {a});
        for (int64_t d = 0; d < 3; ++d) {
          Attributes concat;
          concat.set("kind", std::string("concat"));
          concat.set("dim", d);
          attempt(OpKind::Accum, concat, {a});
        }
      }
    }
  }

  /// The block graph of the steps; saves the last one with `omap` where there is one.
  GraphPtr build(const std::vector<Step>& steps, const std::vector<int64_t>* omap) const {
    GraphBuilder builder(Level::Block, {}, launch_);
    std::vector<TensorId> formals;
    std::vector<TensorId> ids;
    for (TensorId id : program_->inputs()) {
      formals.push_back(*builder.input(program_->tensor(id).name, program_->type(id)));
    }
    for (const Step& step : steps) {
      std::vector<TensorId> operands;
      for (size_t o : step.operands) operands.push_back(step.kind == OpKind::InIter ? formals[o] : ids[o]);
      auto id = builder.add(step.kind, operands, step.attributes);
      if (!id) return nullptr;
      ids.push_back(*id);
    }
    if (omap != nullptr) {
      Attributes attributes;
      attributes.set("omap", *omap);
      if (!builder.add(OpKind::OutSaver, {ids.back()}, attributes)) return nullptr;
    } else {
      return std::make_shared<const Graph>(builder.peek());
    }
    return *builder.finish();
  }

  bool legal_prefix(const std::vector<Step>& steps) const {
    const GraphPtr graph = build(steps, nullptr);
    if (!graph) return false;
    // Values of one elementwise shape cannot outgrow the program; this bounds outer products.
    return graph->type(graph->operations().back().results[0]).elements() <= 4096;
  }

  void finish(const std::vector<Step>& steps) {
    const TensorType& wanted = program_->type(program_->outputs()[0]);
    std::vector<std::vector<int64_t>> omaps{{}};
    for (int64_t size : launch_.grid) {
      std::vector<std::vector<int64_t>> longer;
      for (const auto& map : omaps) {
        for (int64_t d = size == 1 ? kReplicate : 0; d < (size == 1 ? 0 : static_cast<int64_t>(wanted.shape.size()));
             ++d) {
          longer.push_back(map);
          longer.back().push_back(d);
        }
      }
      omaps = std::move(longer);
    }
    for (const auto& omap : omaps) {
      const GraphPtr body = build(steps, &omap);
      if (!body || body->type(body->outputs()[0]) != wanted) continue;
      GraphBuilder builder(Level::Kernel, "candidate");
      std::vector<TensorId> operands;
      for (TensorId id : program_->inputs()) {
        operands.push_back(*builder.input(program_->tensor(id).name, program_->type(id)));
      }
      auto results = builder.add(body, operands);
      if (!results || !builder.output(results->front())) continue;
      const GraphPtr graph = *builder.finish();
      if (!validate(*graph, targets().back())) continue;
      ++tried_;
      FieldArithmetic field = *arithmetic_;
      if (execute(*graph, field, inputs_)->front().data == expected_.data) found_.insert(canonical(*body));
    }
  }

  GraphPtr program_;
  int max_ops_;
  std::vector<LaunchShape> launches_;
  LaunchShape launch_;
  std::set<OpKind> kinds_;
  std::vector<Attributes> scales_;
  std::optional<FieldArithmetic> arithmetic_;
  std::vector<FieldTensor> inputs_;
  FieldTensor expected_;
  std::set<std::string> found_;
  int64_t tried_ = 0;
};

SearchOptions small_options(int max_ops) {
  SearchOptions options;
  options.target = &targets().back();
  options.threads = 2;
  options.max_kernel_ops = 1;
  options.max_block_ops = max_ops;
  options.time_limit = 0;
  options.rules.sizes = false;
  options.rules.cost = false;
  return options;
}

bool uses_only(const Graph& body, const std::set<OpKind>& kinds) {
  return std::all_of(body.operations().begin(), body.operations().end(), [&](const Operation& op) {
    const bool structural = !op_def(op.kind).traits.levels.kernel;
    return structural || kinds.count(op.kind) != 0;
  });
}

/// Canonical texts of the single-kernel graphs of a search, restricted to launch shapes and operators of the brute
/// force.
std::set<std::string> searched(const GraphPtr& program, const SearchOptions& options,
                               const std::vector<LaunchShape>& launches) {
  std::set<OpKind> kinds;
  for (const Operation& op : program->operations()) kinds.insert(op.kind);
  auto result = search(program, options);
  EXPECT_TRUE(result) << result.error().to_string();
  EXPECT_EQ(result->stop_reason, StopReason::Exhausted);
  std::set<std::string> found;
  for (const GraphPtr& graph : result->graphs) {
    const GraphPtr& body = graph->operations()[0].body;
    if (!body || body->inputs().size() != program->inputs().size()) continue;
    const bool wanted = std::find(launches.begin(), launches.end(), body->launch()) != launches.end();
    if (wanted && uses_only(*body, kinds)) found.insert(canonical(*body));
  }
  return found;
}

struct SmallCase {
  const char* name;
  const char* text;
  int max_ops;
  std::vector<LaunchShape> launches;
};

class AgainstBruteForce : public testing::TestWithParam<SmallCase> {};

TEST_P(AgainstBruteForce, FindsExactlyWhatPlainEnumerationFinds) {
  const SmallCase& small = GetParam();
  const GraphPtr program = parse(small.text);
  ASSERT_TRUE(program);
  BruteForce brute(program, small.max_ops, small.launches);
  const std::set<std::string> all = brute.run();
  EXPECT_GT(all.size(), 1U);
  EXPECT_GT(brute.tried(), 4 * static_cast<int64_t>(all.size()));
  const std::set<std::string> pruned = searched(program, small_options(small.max_ops), small.launches);
  for (const std::string& graph : all) EXPECT_TRUE(pruned.count(graph)) << "lost: " << graph;
  for (const std::string& graph : pruned) EXPECT_TRUE(all.count(graph)) << "not in the brute force: " << graph;
}

INSTANTIATE_TEST_SUITE_P(
    Programs, AgainstBruteForce,
    testing::Values(
        SmallCase{"scaled_product",
                  "graph g {\n input A: f32[4, 6]\n input B: f32[6, 10]\n P = matmul(A, B)\n O = scale(P, "
                  "factor=1/3)\n output O\n}",
                  3,
                  {{{2}, 1, 0}, {{2}, 2, 0}, {{1}, 2, 0}, {{2, 2}, 1, 0}}},
        SmallCase{"normalise",
                  "graph g {\n input X: f32[4, 6]\n E = exp(X)\n S = sum(E, dim=1)\n O = div(E, S)\n output O\n}",
                  4,
                  {{{2}, 1, 0}, {{4}, 1, 0}, {{2}, 2, 0}}},
        SmallCase{"gate",
                  "graph g {\n input X: f32[4, 6]\n input Y: f32[4, 6]\n S = silu(X)\n O = mul(S, Y)\n output O\n}",
                  3,
                  {{{2}, 1, 0}, {{2}, 2, 0}, {{2, 3}, 1, 0}}},
        SmallCase{"distribute",
                  "graph g {\n input A: f32[4, 6]\n input B: f32[4, 6]\n input C: f32[4, 6]\n S = add(A, B)\n O = "
                  "mul(S, C)\n output O\n}",
                  3,
                  {{{2}, 1, 0}, {{3}, 1, 0}}}),
    [](const auto& small) { return std::string(small.param.name); });

GraphPtr program_named(const std::string& name) {
  auto graph = load_graph(std::string(STRATA_SOURCE_DIR) + "/programs/" + name + ".strata");
  EXPECT_TRUE(graph) << graph.error().to_string();
  return graph ? *graph : nullptr;
}

SearchOptions full_options() {
  SearchOptions options;
  options.target = &targets().back();
  options.threads = 2;
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
    options.time_limit = 5;
    auto result = search(parse(text), options);
    ASSERT_TRUE(result) << result.error().to_string();
    EXPECT_FALSE(result->graphs.empty());
    EXPECT_LT(result->statistics.seconds, 30);  // the limit is kept, with room for a loaded machine
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
  options.time_limit = 0.5;
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
