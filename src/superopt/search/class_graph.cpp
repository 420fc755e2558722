#include "superopt/search/class_graph.h"

#include <algorithm>

#include "support/hash.h"

namespace strata {
namespace {

int64_t bytes_of(const ValueClass& value) {
  int64_t elements = 0;
  for (const FieldTensor& tensor : value.values) elements += tensor.size();
  return elements * static_cast<int64_t>(sizeof(FieldValue));
}

}  // namespace

ClassGraph::ClassGraph(const FieldArithmetic& arithmetic, NormalForms& forms, SubexpressionOracle& oracle,
                       SharedCounters& counters, ClassGraphOptions options)
    : arithmetic_(arithmetic), forms_(forms), oracle_(oracle), counters_(counters), options_(std::move(options)) {
  // Functions that the axioms do not look into fit only where the program has them.
  constexpr std::array kAlgebra{OpKind::Add, OpKind::Sub, OpKind::Mul,  OpKind::Div,  OpKind::Matmul,
                                OpKind::Exp, OpKind::Sqr, OpKind::Sqrt, OpKind::Rsqrt};
  for (const OpDef* op : all_ops()) {
    if (op->traits.reduces && (options_.with_max || !op->traits.lax.maximum)) reductions_.push_back(op);
    if (!op->traits.levels.contains(options_.level)) continue;
    const bool algebra = std::find(kAlgebra.begin(), kAlgebra.end(), op->kind) != kAlgebra.end();
    if (options_.prune_expression && !algebra && options_.program_kinds.count(op->kind) == 0) continue;
    if (op->traits.arity == 2 && (op->traits.elementwise || is_matrix_product(op->kind))) binary_ops_.push_back(op);
    if (op->traits.arity == 1 && op->traits.elementwise && op->attributes.empty()) unary_ops_.push_back(op);
  }
}

ClassGraph::~ClassGraph() { report_counts(); }

void ClassGraph::report_counts() {
  // Threads share the counters, so they are added to seldom.
  const auto add = [](std::atomic<int64_t>& to, int64_t count) { to.fetch_add(count, std::memory_order_relaxed); };
  add(counters_.generated, counts_.generated);
  add(counters_.pruned_shape, counts_.shape);
  add(counters_.pruned_memory, counts_.memory);
  add(counters_.pruned_expression, counts_.expression);
  add(counters_.pruned_axes, counts_.axes);
  add(counters_.pruned_stability, counts_.stability);
  counts_ = {};
}

uint64_t ClassGraph::key(const ValueClass& value) const {
  Hasher hasher;
  hasher.add(value.expression).add(static_cast<uint64_t>(value.stage)).add_all(value.shape);
  // A sum of products with keys of the position's own (NH, the hash of UMAC): most of the time goes here, and the
  // compiler can unroll this.
  uint64_t sum = 0;
  uint64_t key = 0x9e3779b97f4a7c15;
  for (const FieldTensor& tensor : value.values) {
    for (const FieldValue& v : tensor.data) {
      sum += (v.p + key) * (v.q + (key ^ 0xd1b54a32d192ed03));
      key += 0x9e3779b97f4a7c15 << 1;
    }
  }
  return hasher.add(sum).value();
}

int ClassGraph::find(ExprId expression, const FieldTensor& value) const {
  ValueClass wanted;
  wanted.expression = expression;
  wanted.shape = value.shape;
  wanted.values = {value};
  const auto it = by_key_.find(key(wanted));
  return it == by_key_.end() ? -1 : it->second;
}

int ClassGraph::add_input(ValueClass input) {
  const int id = static_cast<int>(classes_.size());
  by_key_.emplace(key(input), id);
  bytes_ += bytes_of(input);
  classes_.push_back(std::move(input));
  return id;
}

bool ClassGraph::broadcast(int a, int b, size_t from_last) const {
  const Shape& x = at(a).shape;
  const Shape& y = at(b).shape;
  for (size_t i = from_last; i < std::min(x.size(), y.size()); ++i) {
    const int64_t m = x[x.size() - 1 - i];
    const int64_t n = y[y.size() - 1 - i];
    if (m != n && m != 1 && n != 1) return false;
  }
  return true;
}

bool ClassGraph::contracts(int a, int b) const {
  const Shape& x = at(a).shape;
  const Shape& y = at(b).shape;
  return x.size() >= 2 && y.size() >= 2 && x.back() == y[y.size() - 2];
}

std::vector<FieldTensor> ClassGraph::evaluate(const OpDef& op, const Attributes& attributes, LoopStage stage,
                                              const std::vector<const std::vector<FieldTensor>*>& operands,
                                              const Shape& shape, ExprId expression, int64_t blocks) {
  // The residue for exponents is kept, by expression, only where it can matter.
  const bool exponent = options_.all_residues || oracle_.in_exponent(expression);
  arithmetic_.live = exponent ? FieldArithmetic::kBothResidues : FieldArithmetic::kResidueP;
  const int64_t loop = stage == LoopStage::Body ? options_.scope.loop : 1;
  std::vector<FieldTensor> results;
  results.reserve(static_cast<size_t>(op.traits.accumulates ? blocks : blocks * loop));
  FieldTensor state;
  GridPoint point;
  for (int64_t i = 0; i < blocks * loop; ++i) {
    std::vector<const FieldTensor*> values;
    for (const auto* operand : operands) values.push_back(&(*operand)[static_cast<size_t>(i)]);
    point.iteration = i % loop;
    if (!op.traits.accumulates || point.iteration == 0) results.emplace_back(shape);
    op.run(EvalArgs<FieldArithmetic>{arithmetic_, options_.scope, point, attributes, values, results.back(), &state});
  }
  if (!exponent) {
    for (FieldTensor& tensor : results) {
      for (FieldValue& v : tensor.data) v.q = 0;
    }
  }
  return results;
}

std::vector<FieldTensor> ClassGraph::everywhere(int i) {
  std::unordered_map<int, std::vector<FieldTensor>> known;
  return everywhere(i, known);
}

const std::vector<FieldTensor>& ClassGraph::everywhere(int i,
                                                       std::unordered_map<int, std::vector<FieldTensor>>& known) {
  const ValueClass& value = at(i);
  // An input has all blocks; what is derived for it, since an operator gave the same, may come from itself.
  if (!options_.one_block || value.kernel_tensor >= 0 || value.derivations.empty()) return value.values;
  if (const auto it = known.find(i); it != known.end()) return it->second;
  // The first derivation is the one that made the class, from older classes.
  const Derivation& derivation = value.derivations.front();
  std::vector<const std::vector<FieldTensor>*> operands;
  for (int operand : derivation.operands) operands.push_back(&everywhere(operand, known));
  auto values = evaluate(op_def(derivation.kind), derivation.attributes, at(derivation.operands[0]).stage, operands,
                         value.shape, value.expression, element_count(options_.scope.grid));
  return known.emplace(i, std::move(values)).first->second;
}

bool ClassGraph::fits_axes(const ValueClass& value, const AxisTracker& tracker) const {
  for (const auto& [e, axes] : tracker.bounds()) {
    if (!options_.axis_filter->fits_bound(e, axes)) return false;
  }
  return options_.axis_filter->fits(value.expression, value.axes, value.extents);
}

bool ClassGraph::is_stable(ExprId exponent) const {
  const std::set<ExprId>& whole = *options_.stable_exponents;
  return whole.count(exponent) != 0 ||
         std::none_of(whole.begin(), whole.end(), [&](ExprId e) { return oracle_.fits(exponent, e); });
}

int ClassGraph::apply(OpKind kind, const Attributes& attributes, const std::vector<int>& operands) {
  const OpDef& op = op_def(kind);
  ++counts_.generated;
  int min_ops = 1;
  for (int operand : operands) {
    min_ops = std::max(min_ops, at(operand).min_ops + 1);
    if (at(operand).stage != at(operands[0]).stage) return -1;
  }
  if (min_ops > options_.max_ops || options_.stop.stop_requested()) return -1;
  if (op.traits.accumulates && at(operands[0]).stage != LoopStage::Body) return -1;
  if (options_.combines && !op.traits.accumulates && at(operands[0]).stage == LoopStage::Body) return -1;
  if (kind == OpKind::Exp && options_.stable_exponents != nullptr && !is_stable(at(operands[0]).expression)) {
    ++counts_.stability;
    return -1;
  }
  std::vector<TensorType> types;
  std::vector<TensorType> extents;
  std::vector<ExprId> expressions;
  for (int operand : operands) {
    types.push_back({DType::F32, at(operand).shape});
    extents.push_back({DType::F32, at(operand).extents});
    expressions.push_back(at(operand).expression);
  }
  auto type = op.infer(options_.scope, types, attributes);
  auto extent = op.infer(options_.extents, extents, attributes);
  if (!type || !extent) {
    ++counts_.shape;
    return -1;
  }
  ValueClass value;
  if (element_count(type->shape) > options_.max_elements) {
    ++counts_.memory;
    return -1;
  }
  AxisTracker tracker(forms_);
  std::vector<const std::vector<int>*> axes;
  for (int operand : operands) {
    tracker.operand(at(operand).expression, axis_set(at(operand).axes));
    axes.push_back(&at(operand).axes);
  }
  value.expression = op.expression(tracker, options_.extents, expressions, extents, attributes);
  if (options_.prune_expression && !oracle_.contains(value.expression)) {
    ++counts_.expression;
    return -1;
  }
  value.shape = std::move(type->shape);
  value.extents = std::move(extent->shape);
  value.axes = result_axes(op.labels(types, attributes), axes, value.shape);
  if (options_.axis_filter != nullptr && !fits_axes(value, tracker)) {
    ++counts_.axes;
    return -1;
  }
  value.stage = op.traits.accumulates ? LoopStage::After : at(operands[0]).stage;
  value.min_ops = min_ops;
  std::vector<const std::vector<FieldTensor>*> values;
  for (int operand : operands) values.push_back(&at(operand).values);
  const int64_t blocks = options_.one_block ? 1 : element_count(options_.scope.grid);
  value.values = evaluate(op, attributes, at(operands[0]).stage, values, value.shape, value.expression, blocks);
  const auto [it, fresh] = by_key_.emplace(key(value), static_cast<int>(classes_.size()));
  if (fresh) {
    if (classes_.size() >= kMaxClasses || bytes_ + bytes_of(value) > kMaxBytes) {
      by_key_.erase(it);
      overflowed_ = true;
      return -1;
    }
    bytes_ += bytes_of(value);
    classes_.push_back(std::move(value));
  }
  ValueClass& result = classes_[static_cast<size_t>(it->second)];
  result.min_ops = std::min(result.min_ops, min_ops);
  const bool loops_back = std::find(operands.begin(), operands.end(), it->second) != operands.end();
  Derivation derivation{kind, attributes, operands};
  auto& known = result.derivations;
  if (!loops_back && std::find(known.begin(), known.end(), derivation) == known.end()) {
    known.push_back(std::move(derivation));
  }
  return it->second;
}

void ClassGraph::apply_norms(int c) {
  if (options_.level != Level::Block) return;
  const int limit = options_.max_ops;
  if (at(c).min_ops >= limit) return;
  for (const Rational& factor : options_.norms) {
    for (size_t d = 0; d < at(c).shape.size(); ++d) {
      if (at(c).shape[d] == 1) continue;
      Attributes dim, scale, norm;
      dim.set("dim", static_cast<int64_t>(d));
      scale.set("factor", factor);
      norm.set("dim", static_cast<int64_t>(d));
      norm.set("factor", factor);
      options_.max_ops = limit + 4;  // the operators inside do not count
      int of = apply(OpKind::Sqr, {}, {c});
      if (of >= 0) of = apply(OpKind::Sum, dim, {of});
      if (of >= 0 && !(factor == Rational{1, 1})) of = apply(OpKind::Scale, scale, {of});
      if (of >= 0) of = apply(OpKind::Sqrt, {}, {of});
      if (of >= 0) of = apply(OpKind::Div, {}, {c, of});
      options_.max_ops = limit;
      if (of < 0 || of == c) continue;
      ValueClass& result = classes_[static_cast<size_t>(of)];
      result.min_ops = std::min(result.min_ops, at(c).min_ops + 1);
      Derivation derivation{kNorm, norm, {c}};
      auto& known = result.derivations;
      if (std::find(known.begin(), known.end(), derivation) == known.end()) known.push_back(std::move(derivation));
    }
  }
}

void ClassGraph::apply_unary(int c) {
  apply_norms(c);
  const ValueClass& value = at(c);
  const size_t rank = value.shape.size();
  for (const OpDef* op : unary_ops_) apply(op->kind, {}, {c});
  for (const OpDef* op : reductions_) {
    for (size_t d = 0; d < rank; ++d) {
      if (at(c).shape[d] == 1) continue;
      Attributes attributes;
      attributes.set("dim", static_cast<int64_t>(d));
      apply(op->kind, attributes, {c});
    }
  }
  for (const auto& [kind, attributes] : options_.program_attributes) apply(kind, attributes, {c});
  if (options_.level != Level::Block || options_.scope.loop == 1 || at(c).stage != LoopStage::Body) return;
  Attributes sum;
  sum.set("kind", std::string("sum"));
  apply(OpKind::Accum, sum, {c});
  if (options_.with_max) {
    Attributes max;
    max.set("kind", std::string("max"));
    apply(OpKind::Accum, max, {c});
  }
  for (size_t d = 0; d < rank; ++d) {
    // Along another axis than the loop's the iterations' parts would be interleaved for good.
    const int axis = at(c).axes[d];
    const bool fits = axis == options_.loop_axis || axis == kUnitAxis;
    if (options_.axis_filter != nullptr && options_.loop_axis >= 0 && !fits) {
      ++counts_.axes;
      continue;
    }
    Attributes concat;
    concat.set("kind", std::string("concat"));
    concat.set("dim", static_cast<int64_t>(d));
    apply(OpKind::Accum, concat, {c});
  }
}

void ClassGraph::apply_fused_products(int sum) {
  // (A ∥ B) × (C ∥ D) is A × C + B × D, so it is tried where such a sum is already useful.
  const std::vector<Derivation> ways = at(sum).derivations;
  for (const Derivation& add : ways) {
    if (add.kind != OpKind::Add) continue;
    const std::vector<Derivation> left = at(add.operands[0]).derivations;
    const std::vector<Derivation> right = at(add.operands[1]).derivations;
    for (const Derivation& l : left) {
      for (const Derivation& r : right) {
        if (l.kind != OpKind::Matmul || r.kind != OpKind::Matmul) continue;
        apply(OpKind::ConcatMatmul, {}, {l.operands[0], r.operands[0], l.operands[1], r.operands[1]});
      }
    }
  }
}

void ClassGraph::apply_binary(int a, int b) {
  if (at(a).stage != at(b).stage) return;
  // Most pairs fit no operator: `infer` would find out too, and costs more.
  const bool elementwise = broadcast(a, b, 0);
  const bool batches = elementwise || broadcast(a, b, 2);
  const auto try_order = [&](const OpDef& op, int x, int y) {
    const bool fits = op.traits.matrices ? batches && contracts(x, y) : elementwise;
    if (fits) {
      apply(op.kind, {}, {x, y});
    } else {
      ++counts_.generated;
      ++counts_.shape;
    }
  };
  for (const OpDef* op : binary_ops_) {
    try_order(*op, a, b);
    if (!op->traits.commutative && a != b) try_order(*op, b, a);
  }
  if (!options_.with_max || options_.level != Level::Block || options_.scope.loop == 1) return;
  if (is_row_max(forms_, at(b).expression) && relative_to(forms_, at(a).expression, at(b).expression)) {
    apply(OpKind::AccumRescale, {}, {a, b});
  }
  if (is_row_max(forms_, at(a).expression) && relative_to(forms_, at(b).expression, at(a).expression)) {
    apply(OpKind::AccumRescale, {}, {b, a});
  }
}

void ClassGraph::apply_ternary(int c) {
  for (const auto& [kind, expressions] : options_.ternary) {
    std::array<std::vector<int>, 3> operands;
    bool read = false;
    for (size_t n = 0; n < operands.size(); ++n) {
      read = read || at(c).expression == expressions[n];
      for (int other = 0; other <= c; ++other) {
        if (at(other).expression == expressions[n]) operands[n].push_back(other);
      }
    }
    if (!read) continue;
    for (int x : operands[0]) {
      for (int y : operands[1]) {
        for (int z : operands[2]) {
          if (std::max({x, y, z}) == c) apply(kind, {}, {x, y, z});
        }
      }
    }
  }
}

void ClassGraph::saturate() {
  // Classes are numbered as they appear; pairs are visited in an order that depends on nothing else.
  for (int c = 0; c < static_cast<int>(classes_.size()); ++c) {
    if (options_.stop.stop_requested()) return;
    apply_unary(c);
    for (int other = 0; other <= c; ++other) apply_binary(other, c);
    apply_ternary(c);
    report_counts();
  }
  for (int c = 0; c < static_cast<int>(classes_.size()); ++c) apply_fused_products(c);
}

}  // namespace strata
