#include "superopt/search/model.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "interpret/interpret.h"
#include "superopt/search/axis_filter.h"
#include "support/random.h"

namespace strata {
namespace {

/// Union-find over the dimensions of all tensors of a program.
class Dimensions {
 public:
  explicit Dimensions(const Graph& graph) {
    for (const TensorInfo& tensor : graph.tensors()) {
      first_.push_back(parent_.size());
      for (size_t d = 0; d < tensor.type.shape.size(); ++d) parent_.push_back(parent_.size());
    }
    rigid_.resize(parent_.size(), false);
  }
  size_t index(TensorId tensor, size_t dim) const { return first_[static_cast<size_t>(tensor)] + dim; }
  size_t find(size_t i) const {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }
  void unite(size_t a, size_t b) {
    a = find(a), b = find(b);
    if (a == b) return;
    parent_[std::max(a, b)] = std::min(a, b);
    if (rigid_[a] || rigid_[b]) rigid_[a] = rigid_[b] = true;
  }
  void keep(size_t i) { rigid_[find(i)] = true; }
  bool rigid(size_t i) const { return rigid_[find(i)]; }

 private:
  std::vector<size_t> first_, parent_;
  std::vector<bool> rigid_;
};

bool is_prime(int64_t n) {
  for (int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return n > 1;
}

/// An operator that regroups a dimension, or an attribute that counts elements, ties the model to the real size.
bool regroups(OpKind kind, const Attributes& attributes) {
  return kind == OpKind::Reshape || kind == OpKind::Repeat || kind == OpKind::Concat || kind == OpKind::Conv2d ||
         attributes.has("every");
}

Dimensions tie_dimensions(const Graph& graph) {
  Dimensions dims(graph);
  for (const Operation& op : graph.operations()) {
    const IndexLabels labels = op_def(op.kind).labels(graph.types(op.operands), op.attributes);
    std::map<int, size_t> by_label;
    const bool rigid = regroups(op.kind, op.attributes);
    const auto visit = [&](TensorId tensor, const std::vector<int>& of) {
      for (size_t d = 0; d < of.size(); ++d) {
        const size_t i = dims.index(tensor, d);
        const bool counted = op.attributes.has("every") && static_cast<int64_t>(d) == op.attributes.integer("dim");
        if ((of[d] == IndexLabels::kFree && rigid) || counted) dims.keep(i);
        if (of[d] == IndexLabels::kFree) continue;
        const auto [it, fresh] = by_label.emplace(of[d], i);
        if (!fresh) dims.unite(it->second, i);
      }
    };
    for (size_t n = 0; n < op.operands.size(); ++n) visit(op.operands[n], labels.operands[n]);
    visit(op.results[0], labels.result);
  }
  return dims;
}

/// A prime for each axis, by its root: what is left of it when grid and loop have cut it. The axes that most tensors
/// have get the smallest, since they cost most. Rigid axes, and those beyond the table, have none.
std::map<size_t, int64_t> units_of(const Graph& program, const Dimensions& dims) {
  constexpr std::array<int64_t, 12> kUnits{2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  std::vector<std::pair<int, size_t>> order;  // uses, negated; root
  for (TensorId id = 0; id < static_cast<TensorId>(program.tensors().size()); ++id) {
    for (size_t d = 0; d < program.type(id).shape.size(); ++d) {
      const size_t root = dims.find(dims.index(id, d));
      if (program.type(id).shape[d] == 1 || dims.rigid(root)) continue;
      const auto at = std::find_if(order.begin(), order.end(), [&](const auto& entry) { return entry.second == root; });
      if (at == order.end()) {
        order.emplace_back(-1, root);
      } else {
        --at->first;
      }
    }
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::map<size_t, int64_t> units;
  for (size_t i = 0; i < std::min(order.size(), kUnits.size()); ++i) units.emplace(order[i].second, kUnits[i]);
  return units;
}

}  // namespace

std::vector<int> result_axes(const IndexLabels& labels, const std::vector<const std::vector<int>*>& operands,
                             const Shape& result) {
  std::vector<int> axes(result.size(), kMixedAxis);
  for (size_t d = 0; d < result.size(); ++d) {
    if (result[d] == 1) {
      axes[d] = kUnitAxis;
      continue;
    }
    if (labels.result[d] == IndexLabels::kFree) continue;
    bool found = false;
    for (size_t n = 0; n < operands.size(); ++n) {
      for (size_t i = 0; i < labels.operands[n].size(); ++i) {
        if (labels.operands[n][i] != labels.result[d] || (*operands[n])[i] == kUnitAxis) continue;
        const int axis = (*operands[n])[i];
        axes[d] = found && axes[d] != axis ? kMixedAxis : axis;
        found = true;
      }
    }
  }
  return axes;
}

std::optional<Shape> Model::real_shape(const std::vector<int>& axes) const {
  Shape shape;
  for (int axis : axes) {
    if (axis == kMixedAxis) return std::nullopt;
    shape.push_back(axis == kUnitAxis ? 1 : axes_[static_cast<size_t>(axis)].real);
  }
  return shape;
}

Result<Model> Model::build(const GraphPtr& program, NormalForms& forms, uint64_t seed) {
  for (const Operation& op : program->operations()) {
    if (op.body) {
      return tl::unexpected(Error{ErrorCode::Unsupported, "the program has a graph-defined operator already",
                                  "write it with predefined operators; `strata ops` lists them", op.location});
    }
  }
  Random random(seed);
  const PrimeField fp(kVerifierPrimes.p);
  // ω = g² has order q for any g other than 0 and ±1, since p − 1 = 2q.
  const uint64_t g = fp.from_integer(2 + random.below(kVerifierPrimes.p - 3));
  Model model(FieldArithmetic{fp, PrimeField(kVerifierPrimes.q), fp.mul(g, g), random()});
  model.arithmetic_.powers = std::make_shared<PowerTable>(fp, model.arithmetic_.omega);
  model.program_ = program;
  for (const Operation& op : program->operations()) {
    if (regroups(op.kind, op.attributes)) model.extents_by_axis_ = false;
  }

  const Dimensions dims = tie_dimensions(*program);
  std::map<size_t, int> axis_of_root;
  const std::map<size_t, int64_t> units = units_of(*program, dims);
  int64_t next_prime = 2;
  const auto axes_of = [&](TensorId id) {
    std::vector<int> axes;
    const Shape& shape = program->type(id).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) {
        axes.push_back(kUnitAxis);
        continue;
      }
      const size_t root = dims.find(dims.index(id, d));
      const auto [it, fresh] = axis_of_root.emplace(root, static_cast<int>(model.axes_.size()));
      if (fresh) {
        const auto unit = units.find(root);
        std::array<int64_t, 3> primes{};
        for (int64_t& prime : primes) {
          prime = next_prime;
          do ++next_prime;
          while (!is_prime(next_prime));
        }
        const int64_t size = unit == units.end() ? shape[d] : 4 * unit->second;
        model.axes_.push_back({shape[d], size, primes[0], primes[1], primes[2]});
      }
      axes.push_back(it->second);
    }
    return axes;
  };
  const auto model_shape = [&](const std::vector<int>& axes) {
    Shape shape;
    for (int axis : axes) shape.push_back(axis == kUnitAxis ? 1 : model.axes_[static_cast<size_t>(axis)].model);
    return shape;
  };

  GraphBuilder builder(Level::Kernel, program->name());
  for (TensorId id = 0; id < static_cast<TensorId>(program->tensors().size()); ++id) {
    ModelTensor tensor;
    tensor.axes = axes_of(id);
    tensor.shape = model_shape(tensor.axes);
    for (size_t d = 0; d < tensor.axes.size(); ++d) {
      const bool by_axis = model.extents_by_axis_ && tensor.axes[d] != kUnitAxis;
      tensor.extents.push_back(by_axis ? model.axes_[static_cast<size_t>(tensor.axes[d])].extent() : tensor.shape[d]);
    }
    model.tensors_.push_back(std::move(tensor));
  }
  // Tensor ids of the model are those of the program: both are made in the same order.
  std::vector<FieldTensor> inputs;
  std::vector<TensorId> ids(program->tensors().size(), -1);
  for (TensorId id : program->inputs()) {
    ModelTensor& tensor = model.tensors_[static_cast<size_t>(id)];
    const TensorInfo& info = program->tensor(id);
    STRATA_TRY(ids[static_cast<size_t>(id)], builder.input(info.name, {info.type.dtype, tensor.shape}));
    FieldTensor value(tensor.shape);
    for (FieldValue& v : value.data) v = {fp.from_integer(random()), model.arithmetic_.fq.from_integer(random())};
    inputs.push_back(std::move(value));
    tensor.expression = forms.input(info.name);
  }
  for (const Operation& op : program->operations()) {
    std::vector<TensorId> operands;
    std::vector<ExprId> expressions;
    std::vector<TensorType> types;
    for (TensorId id : op.operands) {
      operands.push_back(ids[static_cast<size_t>(id)]);
      expressions.push_back(model.tensors_[static_cast<size_t>(id)].expression);
      types.push_back({program->type(id).dtype, model.tensors_[static_cast<size_t>(id)].extents});
    }
    ModelTensor& result = model.tensors_[static_cast<size_t>(op.results[0])];
    Attributes attributes = op.attributes;
    if (op.kind == OpKind::Reshape) attributes.set("shape", result.shape);
    STRATA_TRY(ids[static_cast<size_t>(op.results[0])],
               builder.add(op.kind, operands, attributes, program->tensor(op.results[0]).name, op.location));
    AxisTracker tracker(forms);
    result.expression = op_def(op.kind).expression(tracker, program->scope(), expressions, types, attributes);
  }
  for (TensorId id : program->outputs()) STRATA_CHECK(builder.output(ids[static_cast<size_t>(id)]));
  STRATA_TRY(model.graph_, builder.finish());
  STRATA_TRY(std::vector<FieldTensor> values, execute_all(*model.graph_, model.arithmetic_, inputs));
  for (size_t i = 0; i < ids.size(); ++i) model.tensors_[i].value = std::move(values[static_cast<size_t>(ids[i])]);
  return model;
}

}  // namespace strata
