// For tests: the block graphs of a small program by plain enumeration, to hold the search against.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "interpret/interpret.h"
#include "ir/text.h"
#include "ir/validate.h"
#include "superopt/search/model.h"
#include "superopt/search/search.h"
#include "support/random.h"

namespace strata {

/// The canonical form of a block graph as text: the expression tree of its output, operands of commutative operators
/// sorted, grid dimensions in the order of what they cut. Equal values are one, and neither names nor the order of
/// statements count.
inline std::string canonical(const Graph& body) {
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
    const bool reduces = op.kind == OpKind::Sum || op.kind == OpKind::ReduceMax;
    if (reduces && body.type(op.operands[0]) == body.type(op.results[0])) {
      text[op.results[0]] = text[op.operands[0]];  // of one element it is the element
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
/// legality of every graph: operators of these kinds in any combination over any tensors, every imap, fmap and omap.
class BruteForce {
 public:
  BruteForce(const GraphPtr& program, int max_ops, std::vector<LaunchShape> launches, std::set<OpKind> kinds)
      : program_(program), max_ops_(max_ops), launches_(std::move(launches)), kinds_(std::move(kinds)) {
    for (const Operation& op : program->operations()) {
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
    const size_t left = static_cast<size_t>(max_ops_) - (steps.size() - iterators);
    if (left == 0) return;
    const auto attempt = [&](OpKind kind, const Attributes& attributes, const std::vector<size_t>& operands) {
      const Step step{kind, attributes, operands};
      const auto same = [&](const Step& s) {
        return s.kind == kind && s.attributes == attributes && s.operands == operands;
      };
      if (std::any_of(steps.begin(), steps.end(), same)) return;
      auto more = steps;
      more.push_back(step);
      // An operator takes two values at most, and what nothing takes is a graph of fewer operators.
      if (unused(more, iterators) <= left && legal_prefix(more)) extend(more, iterators);
    };
    for (size_t a = 0; a < steps.size(); ++a) {
      for (OpKind kind : kinds_) {
        const OpDef& op = op_def(kind);
        if (op.traits.elementwise && op.traits.arity == 1 && kind != OpKind::Scale) attempt(kind, {}, {a});
        if (kind == OpKind::Scale) {
          for (const Attributes& attributes : scales_) attempt(kind, attributes, {a});
        }
        if (kind == OpKind::Sum || kind == OpKind::ReduceMax) {
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

  /// How many operators' results nothing takes yet.
  static size_t unused(const std::vector<Step>& steps, size_t iterators) {
    std::set<size_t> used;
    for (const Step& step : steps) {
      if (step.kind != OpKind::InIter) used.insert(step.operands.begin(), step.operands.end());
    }
    size_t count = 0;
    for (size_t i = iterators; i < steps.size(); ++i) count += used.count(i) == 0 ? 1 : 0;
    return count;
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
  std::set<OpKind> kinds_;
  LaunchShape launch_;
  std::vector<Attributes> scales_;
  std::optional<FieldArithmetic> arithmetic_;
  std::vector<FieldTensor> inputs_;
  FieldTensor expected_;
  std::set<std::string> found_;
  int64_t tried_ = 0;
};

inline bool uses_only(const Graph& body, const std::set<OpKind>& kinds) {
  return std::all_of(body.operations().begin(), body.operations().end(), [&](const Operation& op) {
    const bool structural = !op_def(op.kind).traits.levels.kernel;
    return structural || kinds.count(op.kind) != 0;
  });
}

/// A program, and what of its graphs is compared: those of at most `max_ops` operators at some launch shapes.
struct SmallCase {
  const char* name;
  const char* text;
  int max_ops;
  std::vector<LaunchShape> launches;
  std::set<OpKind> more_kinds{};  ///< operators beside the program's

  GraphPtr program() const {
    const auto graph = parse_graph(text);
    EXPECT_TRUE(graph) << graph.error().to_string();
    return graph ? *graph : nullptr;
  }
  std::set<OpKind> kinds(const Graph& program) const {
    std::set<OpKind> all = more_kinds;
    for (const Operation& op : program.operations()) all.insert(op.kind);
    return all;
  }
  /// Canonical texts of what plain enumeration finds.
  std::set<std::string> enumerated() const {
    const GraphPtr graph = program();
    BruteForce brute(graph, max_ops, launches, kinds(*graph));
    std::set<std::string> all = brute.run();
    EXPECT_GT(all.size(), 1U);
    EXPECT_GT(brute.tried(), 4 * static_cast<int64_t>(all.size()));
    return all;
  }
  struct Searched {
    std::set<std::string> graphs;  ///< canonical texts
    SearchStatistics statistics;
  };
  /// The graphs of one kernel that a search finds, restricted to what is compared.
  Searched searched(const PruningRules& rules) const {
    const GraphPtr graph = program();
    SearchOptions options;
    options.target = &targets().back();
    options.threads = 2;
    options.max_kernel_ops = 1;
    options.max_block_ops = max_ops;
    options.time_limit = 0;
    options.rules = rules;
    options.keep_all = true;
    const auto result = search(graph, options);
    EXPECT_TRUE(result) << result.error().to_string();
    EXPECT_EQ(result->stop_reason, StopReason::Exhausted);
    EXPECT_EQ(result->left_out, "");
    const std::set<OpKind> wanted = kinds(*graph);
    Searched found{{}, result->statistics};
    for (const GraphPtr& one : result->graphs) {
      const GraphPtr& body = one->operations()[0].body;
      if (one->operations().size() != 1 || !body || body->inputs().size() != graph->inputs().size()) continue;
      const bool at_launch = std::find(launches.begin(), launches.end(), body->launch()) != launches.end();
      if (at_launch && uses_only(*body, wanted)) found.graphs.insert(canonical(*body));
    }
    return found;
  }
};

}  // namespace strata
