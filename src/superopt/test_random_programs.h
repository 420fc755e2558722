// Random valid programs over the whole operator table, for tests: what the superoptimizer makes of any of them must
// mean the same. Bounds of all entries are tracked, so that no statement divides by what may be 0, takes a root of what
// may be negative, or leaves the range in which results in float64 can be compared.
#pragma once

#include <algorithm>
#include <cmath>
#include <set>

#include "interpret/interpret.h"
#include "ir/text.h"
#include "support/random.h"

namespace strata {

/// All entries of a tensor lie between these.
struct Bounds {
  double low;
  double high;

  bool fits() const { return std::isfinite(low) && std::isfinite(high) && std::max(-low, high) <= 1e4; }
};

struct RandomProgram {
  GraphPtr graph;
  std::vector<Bounds> arguments;

  /// Entries within the bounds, exact in the arguments' types.
  std::vector<Tensor<double>> draw_inputs(uint64_t seed) const {
    Random random(seed);
    std::vector<Tensor<double>> drawn;
    const std::vector<TensorId> given = graph->arguments();
    for (size_t i = 0; i < given.size(); ++i) {
      const TensorType& type = graph->type(given[i]);
      Tensor<double> tensor(type.shape);
      for (double& value : tensor.data)
        value = round_to(random.uniform(arguments[i].low, arguments[i].high), type.dtype);
      drawn.push_back(std::move(tensor));
    }
    return drawn;
  }
};

/// Whether inputs may be iotas, and masks are drawn of them. Programs without are, by seed, what they always were.
enum class Iotas { Without, With };

/// Draws one program, statement by statement. The builder says what is legal; an attempt that is not is dropped.
class RandomProgramDraw {
 public:
  explicit RandomProgramDraw(uint64_t seed, Iotas iotas)
      : iotas_(iotas == Iotas::With), random_(seed), builder_(Level::Kernel, fmt::format("random_{}", seed)) {
    for (const OpDef* op : all_ops()) {
      if (op->traits.levels.kernel) kinds_.push_back(op->kind);
    }
  }

  RandomProgram run() {
    type_ = of(std::vector{DType::F16, DType::F16, DType::BF16, DType::F32, DType::F32, DType::F64});
    for (int64_t count = 2 + below(4); count > 0; --count) sizes_.push_back(of(kSizes));
    const bool chain = chance(0.25);
    if (chain) {
      chain_of_products();
    } else {
      for (int64_t count = 1 + below(3); count > 0; --count) new_input(any_shape(), chance(0.1) ? DType::F32 : type_);
    }
    const auto wanted = static_cast<size_t>(1 + below(chain ? 6 : 12));
    for (int attempt = 0; attempt < 400 && builder_.peek().operations().size() < wanted; ++attempt) {
      if (iotas_ && chance(0.25)) {
        masked(any_tensor());
      } else {
        statement(of(kinds_));
      }
    }
    choose_outputs();
    std::vector<Bounds> of_arguments = bounds_of_arguments();
    return {builder_.finish().value(), std::move(of_arguments)};
  }

 private:
  static constexpr std::array<int64_t, 12> kSizes{1, 1, 2, 3, 4, 5, 7, 8, 8, 12, 16, 32};
  static constexpr int64_t kMostElements = 4096;  ///< of a tensor
  static constexpr double kMostTerms = 1e5;       ///< multiply-adds of a statement
  static constexpr double kLeastDivisor = 0.05;   ///< smaller ones make rounding errors of float64 visible

  int64_t below(int64_t bound) { return static_cast<int64_t>(random_.below(static_cast<uint64_t>(bound))); }
  bool chance(double p) { return random_.uniform() < p; }
  template <class Container>
  typename Container::value_type of(const Container& values) {
    return values[static_cast<size_t>(below(static_cast<int64_t>(values.size())))];
  }
  Shape shape(TensorId id) const { return builder_.peek().type(id).shape; }
  Bounds bounds(TensorId id) const { return bounds_[static_cast<size_t>(id)]; }

  /// Mostly the program's own few sizes, so that operands fit.
  Shape any_shape() {
    Shape made(static_cast<size_t>(chance(0.1) ? below(kMaxRank + 1) : below(6)));
    for (int64_t& size : made) size = chance(0.9) ? of(sizes_) : of(kSizes);
    while (element_count(made) > kMostElements)
      made[static_cast<size_t>(below(std::ssize(made)))] = of(std::array<int64_t, 3>{1, 2, 3});
    return made;
  }

  TensorId new_input(const Shape& of_shape, DType type) {
    const TensorId id = builder_.input(fmt::format("I{}", builder_.peek().inputs().size()), {type, of_shape}).value();
    bounds_.push_back(chance(0.6) ? Bounds{0.5, 1.5} : Bounds{-1, 1});
    return id;
  }

  /// One of the dimensions, rather one along which there is something to count.
  int64_t long_dim(const Shape& of_shape) {
    int64_t dim = below(std::ssize(of_shape));
    for (int attempt = 0; attempt < 6 && of_shape[static_cast<size_t>(dim)] == 1; ++attempt) {
      dim = below(std::ssize(of_shape));
    }
    return dim;
  }

  /// Elements that are known: mostly places along a dimension, forwards or backwards; or a constant.
  TensorId new_iota(const Shape& of_shape, DType type) {
    Iota iota{long_dim(of_shape), Rational{below(7) - 3, 1}, of(std::array<int64_t, 6>{1, 1, 1, -1, 2, 3})};
    if (chance(0.25)) iota = {iota.dim, of(std::vector<Rational>{{-30, 1}, {1, 3}, {0, 1}, {1, 1}, iota.start}), 0};
    const double first = iota.start.to_double();
    const double last = iota.at(of_shape[static_cast<size_t>(iota.dim)] - 1).to_double();
    const std::string name = fmt::format("I{}", builder_.peek().inputs().size());
    const TensorId id = builder_.input(name, {type, of_shape, iota}).value();
    bounds_.push_back({std::min(first, last), std::max(first, last)});
    return id;
  }

  /// An iota that broadcasts with a tensor of at least one dimension: along one of its dimensions, or of its shape.
  TensorId iota_beside(TensorId other) {
    Shape fitting = shape(other);
    if (chance(0.7)) {
      const auto along = static_cast<size_t>(long_dim(fitting));
      for (size_t d = 0; d < fitting.size(); ++d) fitting[d] = d == along ? fitting[d] : 1;
    }
    if (chance(0.3)) fitting.erase(fitting.begin(), fitting.begin() + below(std::ssize(fitting)));
    return new_iota(fitting, builder_.type(other).dtype);
  }

  /// Puts another value where a mask of iotas is, or multiplies by it; sometimes by two masks, or by what an iota says
  /// of an input, such as a length.
  void masked(TensorId x) {
    if (shape(x).empty()) return;
    const auto compared = [&]() -> std::optional<TensorId> {
      const TensorId a = iota_beside(x);
      const TensorId b = chance(0.15) ? beside(a) : iota_beside(x);
      const bool keeps = is_exact(b) && (chance(0.5) ? keep(OpKind::Greater, {a, b}, {}, {0, 1})
                                                     : keep(OpKind::Greater, {b, a}, {}, {0, 1}));
      return keeps ? std::optional(static_cast<TensorId>(std::ssize(bounds_)) - 1) : std::nullopt;
    };
    auto mask = compared();
    if (!mask) return;
    if (chance(0.3)) {
      const auto second = compared();
      if (second && keep(OpKind::Mul, {*mask, *second}, {}, {0, 1}))
        mask = static_cast<TensorId>(std::ssize(bounds_)) - 1;
    }
    if (chance(0.3)) {
      keep(OpKind::Mul, {x, *mask}, {}, either({0, 0}, bounds(x)));
    } else {
      const TensorId y = chance(0.5) ? iota_beside(x) : beside(x);
      keep(OpKind::Select, chance(0.5) ? std::vector{*mask, x, y} : std::vector{*mask, y, x}, {},
           either(bounds(x), bounds(y)));
    }
  }

  /// Of all tensors; rather a recent one.
  TensorId any_tensor() {
    const auto count = std::ssize(bounds_);
    return static_cast<TensorId>(chance(0.5) ? count - 1 - below(std::min<int64_t>(count, 3)) : below(count));
  }

  /// A tensor that broadcasts with another: one that there is, or a new input.
  TensorId beside(TensorId other) {
    for (int attempt = 0; attempt < 8; ++attempt) {
      const TensorId id = any_tensor();
      if (builder_.type(id).dtype != builder_.type(other).dtype) continue;
      const auto both = broadcast(shape(id), shape(other));
      if (both && element_count(*both) <= kMostElements) return id;
    }
    Shape fitting = shape(other);
    for (int64_t& size : fitting) size = chance(0.2) ? 1 : size;
    fitting.erase(fitting.begin(), fitting.begin() + (chance(0.3) ? below(std::ssize(fitting) + 1) : 0));
    return new_input(fitting, builder_.type(other).dtype);
  }

  /// The right operand of a product, with batch dimensions or without.
  TensorId factor(TensorId left, int64_t columns) {
    for (int attempt = 0; attempt < 4; ++attempt) {
      const TensorId id = any_tensor();
      const size_t rank = shape(id).size();
      if (rank >= 2 && shape(id)[rank - 2] == shape(left).back() && (columns == 0 || shape(id).back() == columns) &&
          builder_.type(id).dtype == builder_.type(left).dtype)
        return id;
    }
    Shape fitting = shape(left);
    if (chance(0.4)) fitting.erase(fitting.begin(), fitting.end() - 2);
    const size_t rank = fitting.size();
    for (size_t d = 0; d + 2 < rank; ++d) fitting[d] = chance(0.2) ? 1 : fitting[d];
    fitting[rank - 2] = shape(left).back();
    fitting[rank - 1] = columns == 0 ? of(sizes_) : columns;
    return new_input(fitting, builder_.type(left).dtype);
  }

  /// Two to five products one after the other, of matrices with up to three batch dimensions.
  void chain_of_products() {
    Shape first(static_cast<size_t>(2 + below(4)));
    for (int64_t& size : first) size = of(sizes_);
    while (element_count(first) > kMostElements / 2) first[static_cast<size_t>(below(std::ssize(first)))] = 2;
    new_input(first, type_);
    for (int64_t count = 2 + below(4); count > 0; --count) {
      const auto last = static_cast<TensorId>(bounds_.size()) - 1;
      if (shape(last).size() < 2) return;
      const TensorId right = factor(last, 0);
      product(OpKind::Matmul, {last, right}, shape(last).back(), bounds(last), bounds(right));
    }
  }

  static Bounds times(const Bounds& a, const Bounds& b) {
    const auto [low, high] = std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
    return {low, high};
  }
  static Bounds either(const Bounds& a, const Bounds& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }
  static Bounds sum_of(double count, const Bounds& a) { return {count * a.low, count * a.high}; }

  /// Adds the statement where it is legal and its entries stay within bounds.
  bool keep(OpKind kind, const std::vector<TensorId>& operands, const Attributes& attributes, const Bounds& result) {
    if (!result.fits()) return false;
    std::vector<TensorType> types;
    for (TensorId id : operands) types.push_back(builder_.type(id));
    const auto type = op_def(kind).infer({}, types, attributes);
    if (!type || element_count(type->shape) > kMostElements) return false;
    const auto made = builder_.add(kind, operands, attributes, fmt::format("t{}", bounds_.size()));
    if (made) bounds_.push_back(result);
    return made.has_value();
  }

  void product(OpKind kind, const std::vector<TensorId>& operands, int64_t terms, const Bounds& a, const Bounds& b) {
    double most = static_cast<double>(terms);
    for (TensorId id : operands)
      most = std::max(most, static_cast<double>(builder_.type(id).elements()) * static_cast<double>(terms));
    if (most <= kMostTerms) keep(kind, operands, {}, sum_of(static_cast<double>(terms), times(a, b)));
  }

  /// One more statement of that kind, if one can be had.
  void statement(OpKind kind) {
    const OpDef& op = op_def(kind);
    const TensorId x = any_tensor();
    const Bounds of_x = bounds(x);
    if (op.traits.elementwise) return elementwise(kind, x);
    if (kind == OpKind::Matmul || kind == OpKind::ConcatMatmul || kind == OpKind::Conv2d) return products(kind, x);
    if (kind == OpKind::Reshape) return reshape(x);
    if (shape(x).empty() && kind != OpKind::Transpose) return;
    const size_t d = shape(x).empty() ? 0 : static_cast<size_t>(below(std::ssize(shape(x))));
    const int64_t size = shape(x).empty() ? 1 : shape(x)[d];
    Attributes attributes;
    if (kind != OpKind::Transpose) attributes.set("dim", static_cast<int64_t>(d));
    switch (kind) {
      case OpKind::Sum:
      case OpKind::ReduceMax: {
        const int64_t every = chance(0.2) ? 1 + below(size) : size;
        if (every != size) attributes.set("every", every);
        keep(kind, {x}, attributes, kind == OpKind::Sum ? sum_of(static_cast<double>(every), of_x) : of_x);
        return;
      }
      case OpKind::Repeat:
        attributes.set("times", 1 + below(3));
        keep(kind, {x}, attributes, of_x);
        return;
      case OpKind::Slice: {
        const int64_t start = chance(0.3) ? 0 : below(size);
        attributes.set("start", start);
        attributes.set("size", chance(0.3) ? size - start : 1 + below(size - start));
        keep(kind, {x}, attributes, of_x);
        return;
      }
      case OpKind::Transpose: {
        std::vector<int64_t> perm;
        for (int64_t i = 0; i < std::ssize(shape(x)); ++i) perm.insert(perm.begin() + below(i + 1), i);
        attributes.set("perm", perm);
        keep(kind, {x}, attributes, of_x);
        return;
      }
      case OpKind::Concat: {
        std::vector<TensorId> operands{x};
        Bounds all = of_x;
        for (int64_t more = 1 + below(2); more > 0; --more) {
          Shape fitting = shape(x);
          fitting[d] = of(sizes_);
          const TensorId next = chance(0.4)   ? x
                                : chance(0.5) ? any_tensor()
                                              : new_input(fitting, builder_.type(x).dtype);
          operands.push_back(next);
          all = either(all, bounds(next));
        }
        keep(kind, operands, attributes, all);
        return;
      }
      default:
        return;  // an operator that this file does not know: the test of coverage says so
    }
  }

  void products(OpKind kind, TensorId x) {
    if (shape(x).size() < 2) return;
    if (kind == OpKind::Conv2d) {
      if (shape(x).size() != 4) x = new_input({1 + below(2), of(sizes_), 1 + below(8), 1 + below(8)}, type_);
      const Shape image = shape(x);
      const Shape filter{1 + below(4), image[1], 1 + below(std::min<int64_t>(3, image[2])),
                         1 + below(std::min<int64_t>(3, image[3]))};
      const TensorId w = new_input(filter, builder_.type(x).dtype);
      Attributes attributes;
      if (chance(0.4)) attributes.set("stride", 1 + below(2));
      if (chance(0.4)) attributes.set("padding", below(3));
      const double terms = static_cast<double>(filter[1] * filter[2] * filter[3]);
      if (terms * static_cast<double>(builder_.type(x).elements()) > kMostTerms) return;
      keep(kind, {x, w}, attributes, either({0, 0}, sum_of(terms, times(bounds(x), bounds(w)))));
      return;
    }
    const TensorId y = factor(x, 0);
    if (kind == OpKind::Matmul) return product(kind, {x, y}, shape(x).back(), bounds(x), bounds(y));
    // A ∥ B with C ∥ D: as many rows as A, as many columns as C.
    Shape beside_x = shape(x);
    beside_x.back() = of(sizes_);
    const TensorId b = chance(0.5) ? x : new_input(beside_x, builder_.type(x).dtype);
    const TensorId d = factor(b, shape(y).back());
    product(kind, {x, b, y, d}, shape(x).back() + shape(b).back(), either(bounds(x), bounds(b)),
            either(bounds(y), bounds(d)));
  }

  void reshape(TensorId x) {
    Shape to = shape(x);
    for (int64_t steps = below(4); steps > 0; --steps) {
      const int64_t d = to.empty() ? 0 : below(std::ssize(to));
      if (to.empty() || (chance(0.3) && std::ssize(to) < kMaxRank)) {
        to.insert(to.begin() + d, 1);
      } else if (to[static_cast<size_t>(d)] == 1) {
        to.erase(to.begin() + d);
      } else if (d + 1 < std::ssize(to) && chance(0.5)) {
        to[static_cast<size_t>(d)] *= to[static_cast<size_t>(d) + 1];
        to.erase(to.begin() + d + 1);
      } else if (std::ssize(to) < kMaxRank) {
        int64_t& size = to[static_cast<size_t>(d)];
        const int64_t part = size % 2 == 0 ? 2 : size % 3 == 0 ? 3 : size;
        size /= part;
        to.insert(to.begin() + d, part);
      }
    }
    Attributes attributes;
    attributes.set("shape", to);
    keep(OpKind::Reshape, {x}, attributes, bounds(x));
  }

  void elementwise(OpKind kind, TensorId x) {
    const Bounds a = bounds(x);
    Attributes attributes;
    switch (kind) {
      case OpKind::Exp:
        if (a.high <= 5) keep(kind, {x}, {}, {std::exp(a.low), std::exp(a.high)});
        return;
      case OpKind::Sqr: {
        const double most = std::max(a.low * a.low, a.high * a.high);
        keep(kind, {x}, {}, {a.low > 0 ? a.low * a.low : a.high < 0 ? a.high * a.high : 0, most});
        return;
      }
      case OpKind::Sqrt:
        if (a.low >= kLeastDivisor) keep(kind, {x}, {}, {std::sqrt(a.low), std::sqrt(a.high)});
        return;
      case OpKind::Rsqrt:
        if (a.low >= kLeastDivisor) keep(kind, {x}, {}, {1 / std::sqrt(a.high), 1 / std::sqrt(a.low)});
        return;
      case OpKind::SiLU:
      case OpKind::Gelu:
        keep(kind, {x}, {}, {a.low > 0 ? a.low / 2 : -0.3, std::max(0.0, a.high)});
        return;
      case OpKind::Relu:
        keep(kind, {x}, {}, {std::max(0.0, a.low), std::max(0.0, a.high)});
        return;
      case OpKind::Scale: {
        const Rational factor = of(std::vector<Rational>{{1, 2}, {3, 4}, {1, 7}, {2, 1}, {-1, 1}, {1, 1}, {1, 32}});
        const double c = static_cast<double>(factor.num) / static_cast<double>(factor.den);
        attributes.set("factor", factor);
        keep(kind, {x}, attributes, times(a, {c, c}));
        return;
      }
      case OpKind::AddConstant: {
        const Rational value = of(std::vector<Rational>{{1, 8}, {1, 1}, {0, 1}, {-1, 2}, {3, 1}, {1, 100000}});
        const double c = static_cast<double>(value.num) / static_cast<double>(value.den);
        attributes.set("value", value);
        keep(kind, {x}, attributes, {a.low + c, a.high + c});
        return;
      }
      default:
        break;
    }
    const TensorId y = beside(x);
    const Bounds b = bounds(y);
    switch (kind) {
      case OpKind::Add:
        keep(kind, {x, y}, {}, {a.low + b.low, a.high + b.high});
        return;
      case OpKind::Sub:
        keep(kind, {x, y}, {}, {a.low - b.high, a.high - b.low});
        return;
      case OpKind::Mul:
        keep(kind, {x, y}, {}, times(a, b));
        return;
      case OpKind::Div:
        if (b.low >= kLeastDivisor || b.high <= -kLeastDivisor)
          keep(kind, {x, y}, {}, times(a, {1 / b.high, 1 / b.low}));
        return;
      case OpKind::Max:
        keep(kind, {x, y}, {}, {std::max(a.low, b.low), std::max(a.high, b.high)});
        return;
      case OpKind::Greater:
        // Of what is computed, rounding could tip the scales either way.
        if (x != y && is_exact(x) && is_exact(y)) keep(kind, {x, y}, {}, {0, 1});
        return;
      case OpKind::Select: {
        const TensorId condition = beside(x);
        if (decides(condition)) keep(kind, {condition, x, y}, {}, either(a, b));
        return;
      }
      default:
        return;
    }
  }

  /// Whether nothing rounds its entries: inputs, and integers that are computed of iotas.
  bool is_exact(TensorId id) const {
    const Graph& graph = builder_.peek();
    if (graph.tensor(id).producer < 0) return true;
    // Integers to 256 are exact in bf16.
    return iotas_ && std::max(-bounds(id).low, bounds(id).high) <= 256 && decided_by_integers(graph, id);
  }
  static bool decided_by_integers(const Graph& graph, TensorId id) {
    const TensorInfo& tensor = graph.tensor(id);
    if (tensor.producer < 0) return tensor.type.iota && tensor.type.iota->start.den == 1;
    const Operation& op = graph.operations()[static_cast<size_t>(tensor.producer)];
    const bool integers = op.kind == OpKind::Add || op.kind == OpKind::Sub || op.kind == OpKind::Mul ||
                          op.kind == OpKind::Greater || op.kind == OpKind::Select;
    return integers && std::all_of(op.operands.begin(), op.operands.end(),
                                   [&](TensorId operand) { return decided_by_integers(graph, operand); });
  }
  /// Whether rounding does not change which entries are 0.
  bool decides(TensorId id) const {
    const int producer = builder_.peek().tensor(id).producer;
    return is_exact(id) || builder_.peek().operations()[static_cast<size_t>(producer)].kind == OpKind::Greater;
  }

  /// What nothing reads, in any order, and some of the rest: intermediate values, inputs.
  void choose_outputs() {
    const Graph& graph = builder_.peek();
    std::set<TensorId> read;
    for (const Operation& op : graph.operations()) read.insert(op.operands.begin(), op.operands.end());
    std::vector<TensorId> outputs;
    for (TensorId id = 0; id < static_cast<TensorId>(graph.tensors().size()); ++id) {
      if (graph.type(id).iota) continue;  // lies nowhere
      const bool last = graph.tensor(id).producer >= 0 && read.count(id) == 0;
      if (last || chance(graph.tensor(id).producer >= 0 ? 0.08 : 0.03)) {
        outputs.insert(outputs.begin() + below(std::ssize(outputs) + 1), id);
      }
    }
    if (outputs.empty()) outputs.push_back(graph.arguments().back());
    for (TensorId id : outputs) static_cast<void>(builder_.output(id));
  }

  std::vector<Bounds> bounds_of_arguments() const {
    std::vector<Bounds> all;
    for (TensorId id : builder_.peek().arguments()) all.push_back(bounds(id));
    return all;
  }

  bool iotas_;
  Random random_;
  GraphBuilder builder_;
  std::vector<OpKind> kinds_;
  DType type_ = DType::F16;
  std::vector<int64_t> sizes_;
  std::vector<Bounds> bounds_;  ///< by tensor
};

inline RandomProgram random_program(uint64_t seed, Iotas iotas = Iotas::Without) {
  return RandomProgramDraw(seed, iotas).run();
}

}  // namespace strata
