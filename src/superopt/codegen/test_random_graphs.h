// Random legal block graphs, for tests of what is generated for them. Values stay positive and bounded.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "ir/graph.h"
#include "support/random.h"

namespace strata {

/// Every element of a tensor lies between these.
struct Range {
  double low;
  double high;
  bool fits() const { return low > 2e-3 && high < 2e3; }
};

/// The range of an elementwise operator's result; Random draws no other elementwise operators.
inline Range elementwise_range(OpKind kind, const Range& x, const Range& y) {
  switch (kind) {
    case OpKind::Add:
      return {x.low + y.low, x.high + y.high};
    case OpKind::Mul:
      return {x.low * y.low, x.high * y.high};
    case OpKind::Div:
      return {x.low / y.high, x.high / y.low};
    case OpKind::Max:
      return {std::max(x.low, y.low), std::max(x.high, y.high)};
    case OpKind::Sqr:
      return {x.low * x.low, x.high * x.high};
    case OpKind::Sqrt:
      return {std::sqrt(x.low), std::sqrt(x.high)};
    case OpKind::Rsqrt:
      return {1 / std::sqrt(x.high), 1 / std::sqrt(x.low)};
    case OpKind::SiLU:
      return {x.low / 2, x.high};
    case OpKind::Exp:
      // e^x makes of an absolute error a relative one: large arguments would need a wider tolerance.
      return x.high < 4 ? Range{1, std::exp(x.high)} : Range{0, HUGE_VAL};
    case OpKind::Scale:
      return {x.low * 0.75, x.high * 0.75};
    case OpKind::AddConstant:
      return {x.low + 0.125, x.high + 0.125};
    default:
      return {0, HUGE_VAL};
  }
}

inline constexpr std::array kElementwise{OpKind::Add,  OpKind::Mul,   OpKind::Div,        OpKind::Max,
                                         OpKind::Sqr,  OpKind::Rsqrt, OpKind::SiLU,       OpKind::Exp,
                                         OpKind::Sqrt, OpKind::Scale, OpKind::AddConstant};
inline constexpr std::array kOthers{OpKind::Matmul,    OpKind::Sum,    OpKind::ReduceMax,
                                    OpKind::Repeat,    OpKind::Matmul, OpKind::Reshape,
                                    OpKind::Transpose, OpKind::Concat, OpKind::ConcatMatmul};

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  int64_t below(int64_t bound) { return static_cast<int64_t>(random_.below(static_cast<uint64_t>(bound))); }
  bool chance(double p) { return random_.uniform() < p; }
  template <class Container>
  auto of(const Container& values) {
    return values[static_cast<size_t>(below(static_cast<int64_t>(values.size())))];
  }

 private:
  Random random_;
};

/// Draws one graph of elementwise operators or one block graph. A tensor that an attempt cannot use is left alone: the
/// builder says what is legal.
class RandomGraph {
 public:
  RandomGraph(Draw& draw, Level level, LaunchShape launch) : draw_(draw), builder_(level, {}, std::move(launch)) {}

  /// One input with an iterator over it; false where the drawn maps do not cut it.
  bool bring_in(const std::string& name, const TensorType& type, const Range& range) {
    const auto input = builder_.input(name, type);
    if (!input) return false;
    for (int attempt = 0; attempt < 20; ++attempt) {
      Attributes attributes;
      if (builder_.peek().level() == Level::Block) {
        std::vector<int64_t> map;
        const auto rank = static_cast<int64_t>(type.shape.size());
        for (size_t g = 0; g < builder_.peek().launch().grid.size(); ++g) map.push_back(draw_.below(rank + 1) - 1);
        attributes.set("imap", map);
        if (draw_.chance(0.7)) attributes.set("fmap", draw_.below(rank));
      }
      if (keep(OpKind::InIter, {*input}, attributes, range)) return true;
    }
    return false;
  }

  void elementwise() {
    const OpKind kind = draw_.of(kElementwise);
    Attributes attributes;
    if (kind == OpKind::Scale) attributes.set("factor", Rational{3, 4});
    if (kind == OpKind::AddConstant) attributes.set("value", Rational{1, 8});
    std::vector<TensorId> operands;
    for (int n = 0; n < op_def(kind).traits.arity; ++n) operands.push_back(draw_.of(current_));
    keep(kind, operands, attributes, elementwise_range(kind, range(operands.front()), range(operands.back())));
  }

  void other() {
    const OpKind kind = draw_.of(kOthers);
    const TensorId x = draw_.of(current_);
    const Shape shape = builder_.type(x).shape;
    const int64_t dim = draw_.below(static_cast<int64_t>(shape.size()));
    const int64_t size = shape[static_cast<size_t>(dim)];
    Attributes attributes;
    std::vector<TensorId> operands{x};
    Range result = range(x);
    const auto include = [&](TensorId id) {
      operands.push_back(id);
      result = {std::min(result.low, range(id).low), std::max(result.high, range(id).high)};
    };
    switch (kind) {
      case OpKind::Sum:
      case OpKind::ReduceMax: {
        attributes.set("dim", dim);
        int64_t every = size;
        if (draw_.chance(0.5)) attributes.set("every", every = 1 + draw_.below(size));
        if (kind == OpKind::Sum)
          result = {result.low * static_cast<double>(every), result.high * static_cast<double>(every)};
        break;
      }
      case OpKind::Repeat:
        attributes.set("dim", dim);
        attributes.set("times", 1 + draw_.below(3));
        break;
      case OpKind::Reshape: {
        Shape to = shape;
        to.insert(to.begin() + draw_.below(static_cast<int64_t>(to.size()) + 1), 1);
        for (size_t d = 0; d + 1 < to.size(); ++d) {
          const int64_t factor = to[d] % 3 == 0 ? 3 : to[d] % 2 == 0 ? 2 : 1;
          if (draw_.chance(0.5)) to[d] /= factor, to[d + 1] *= factor;
        }
        attributes.set("shape", to);
        break;
      }
      case OpKind::Transpose: {
        std::vector<int64_t> perm;
        for (size_t d = 0; d < shape.size(); ++d) {
          perm.insert(perm.begin() + draw_.below(static_cast<int64_t>(d) + 1), static_cast<int64_t>(d));
        }
        attributes.set("perm", perm);
        break;
      }
      case OpKind::Concat:
        attributes.set("dim", dim);
        for (int64_t n = 1 + draw_.below(2); n > 0; --n) include(draw_.of(current_));
        break;
      default:
        return product(kind);
    }
    keep(kind, operands, attributes, result);
  }

  /// Operands of a product fit each other rarely, so many are tried.
  void product(OpKind kind) {
    for (int attempt = 0; attempt < 200; ++attempt) {
      std::vector<TensorId> operands;
      while (static_cast<int>(operands.size()) < op_def(kind).traits.arity) operands.push_back(draw_.of(current_));
      Range sums{0, 0};
      const size_t pairs = operands.size() / 2;
      for (size_t n = 0; n < pairs; ++n) {
        const auto terms = static_cast<double>(builder_.type(operands[n]).shape.back());
        sums.low += terms * range(operands[n]).low * range(operands[n + pairs]).low;
        sums.high += terms * range(operands[n]).high * range(operands[n + pairs]).high;
      }
      if (keep(kind, operands, {}, sums)) return;
    }
  }

  /// A thread graph over up to three tensors.
  void thread_graph(int64_t threads) {
    RandomGraph inner(draw_, Level::Thread, {{}, 1, threads});
    std::vector<TensorId> operands;
    for (int64_t n = 1 + draw_.below(3); n > 0; --n) {
      const TensorId id = draw_.of(current_);
      if (std::find(operands.begin(), operands.end(), id) != operands.end()) continue;
      if (inner.bring_in(builder_.peek().tensor(id).name, builder_.type(id), range(id))) operands.push_back(id);
    }
    for (int n = 0; n < 5; ++n) inner.elementwise();
    const auto ranges = inner.save_all();
    const auto body = inner.builder_.finish();
    ASSERT_TRUE(body) << body.error().to_string();
    const auto results = builder_.add(*body, operands);
    ASSERT_TRUE(results) << results.error().to_string();
    for (TensorId id : operands) used_.insert(id);
    for (size_t n = 0; n < results->size(); ++n) made((*results)[n], ranges[n]);
  }

  /// Sends every value that is not used, and some that are, out of the loop; from now on only those can be used.
  void leave_loop() {
    const std::vector<TensorId> inside = std::move(current_);
    current_.clear();
    const int64_t loop = builder_.peek().launch().loop;
    for (TensorId id : inside) {
      if (used_.count(id) != 0 && draw_.chance(0.7)) continue;
      const std::array kinds{"sum", "max", "concat"};
      std::string kind = draw_.of(kinds);
      Attributes attributes;
      const Range sums{range(id).low * static_cast<double>(loop), range(id).high * static_cast<double>(loop)};
      if (kind == "sum" && !sums.fits()) kind = "max";
      attributes.set("kind", kind);
      if (kind == "concat") attributes.set("dim", draw_.below(static_cast<int64_t>(builder_.type(id).shape.size())));
      const bool kept = keep(OpKind::Accum, {id}, attributes, kind == "sum" ? sums : range(id));
      ASSERT_TRUE(kept || used_.count(id) != 0) << print_type(id);
    }
  }

  /// Saves every value that is not used; their ranges.
  std::vector<Range> save_all() {
    std::vector<Range> ranges;
    const std::vector<TensorId> values = current_;
    for (TensorId id : values) {
      if (used_.count(id) != 0) continue;
      Attributes attributes;
      if (builder_.peek().level() == Level::Block) {
        std::vector<int64_t> map;
        for (size_t g = 0; g < builder_.peek().launch().grid.size(); ++g) {
          map.push_back(draw_.below(static_cast<int64_t>(builder_.type(id).shape.size())));
        }
        attributes.set("omap", map);
      }
      const auto saved = builder_.add(OpKind::OutSaver, {id}, attributes);
      EXPECT_TRUE(saved) << saved.error().to_string();
      ranges.push_back(range(id));
    }
    return ranges;
  }

  GraphBuilder& builder() { return builder_; }

 private:
  std::string print_type(TensorId id) const { return to_string(builder_.type(id)); }
  Range range(TensorId id) const { return ranges_.at(id); }

  void made(TensorId id, const Range& range) {
    ranges_[id] = range;
    current_.push_back(id);
  }

  /// Adds the operator where it is legal and its result neither too large nor out of range.
  bool keep(OpKind kind, const std::vector<TensorId>& operands, const Attributes& attributes, const Range& range) {
    if (!range.fits()) return false;
    const auto type = op_def(kind).infer(builder_.peek().scope(), builder_.peek().types(operands), attributes);
    if (!type || type->elements() > 1500 || type->shape.size() > 5) return false;
    const auto id = builder_.add(kind, operands, attributes);
    if (!id) return false;
    for (TensorId operand : operands) used_.insert(operand);
    made(*id, range);
    return true;
  }

  Draw& draw_;
  GraphBuilder builder_;
  std::vector<TensorId> current_;  ///< what the next operator may read
  std::set<TensorId> used_;
  std::map<TensorId, Range> ranges_;
};

/// A block graph over some of `inputs` (all their elements within 0.5 … 1.5), and which.
inline std::pair<GraphPtr, std::vector<TensorId>> random_block(Draw& draw, const Graph& outer) {
  LaunchShape launch;
  for (int64_t rank = 1 + draw.below(3); rank > 0; --rank) launch.grid.push_back(1 + draw.below(3));
  launch.loop = 1 + draw.below(3);
  RandomGraph graph(draw, Level::Block, launch);
  std::vector<TensorId> operands;
  for (TensorId id : outer.inputs()) {
    if (operands.size() >= 3 && draw.chance(0.5)) continue;
    if (graph.bring_in(outer.tensor(id).name, outer.type(id), {0.5, 1.5})) {
      operands.push_back(id);
    } else {
      return random_block(draw, outer);  // an input without an iterator cannot be taken back
    }
  }
  const int64_t threads = draw.of(std::array<int64_t, 5>{1, 7, 32, 96, 256});
  const auto operators = [&](int count) {
    for (int n = 0; n < count; ++n) {
      if (draw.chance(0.6)) {
        graph.other();
      } else if (draw.chance(0.5)) {
        graph.elementwise();
      } else {
        graph.thread_graph(threads);
      }
    }
  };
  operators(9);
  if (launch.loop > 1) {
    graph.leave_loop();
    operators(6);
  }
  graph.save_all();
  auto body = graph.builder().finish();
  EXPECT_TRUE(body) << body.error().to_string();
  return {*body, operands};
}

/// A kernel graph of random block graphs over the same inputs: one compilation for all.
inline GraphPtr random_program(uint64_t seed, DType type, int blocks = 10) {
  Draw draw(seed);
  GraphBuilder builder(Level::Kernel, "random");
  const Shape shapes[] = {{12, 18}, {18, 12}, {2, 18, 6}, {36}, {6, 1}};
  for (size_t n = 0; n < std::size(shapes); ++n) {
    EXPECT_TRUE(builder.input(fmt::format("I{}", n), TensorType{type, shapes[n]}));
  }
  for (int n = 0; n < blocks; ++n) {
    const auto [body, operands] = random_block(draw, builder.peek());
    const auto results = builder.add(body, operands);
    EXPECT_TRUE(results) << results.error().to_string();
    for (TensorId id : *results) EXPECT_TRUE(builder.output(id));
  }
  auto graph = builder.finish();
  EXPECT_TRUE(graph) << graph.error().to_string();
  return *graph;
}

}  // namespace strata
