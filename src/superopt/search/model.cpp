#include "superopt/search/model.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

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

int64_t next_prime(int64_t after) {
  for (int64_t n = after + 1;; ++n) {
    bool prime = n > 1;
    for (int64_t d = 2; d <= n / d && prime; ++d) prime = n % d != 0;
    if (prime) return n;
  }
}

/// An operator that regroups a dimension, or an attribute that counts elements, ties the model to the real size.
bool regroups(OpKind kind, const Attributes& attributes) {
  return kind == OpKind::Reshape || kind == OpKind::Repeat || kind == OpKind::Concat || kind == OpKind::Slice ||
         kind == OpKind::Conv2d || attributes.has("every");
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

/// What an axis is in the program, by its root.
struct AxisUse {
  size_t root;
  int64_t real;
  int uses = 0;        ///< dimensions of tensors
  int reductions = 0;  ///< operators that sum, or take the maximum, over it
};

/// Axes of more than one element, in the order in which tensors have them.
std::vector<AxisUse> axes_of(const Graph& program, const Dimensions& dims) {
  std::vector<AxisUse> axes;
  std::map<size_t, size_t> by_root;
  const auto axis = [&](TensorId id, size_t d) -> AxisUse& {
    const size_t root = dims.find(dims.index(id, d));
    const auto [it, fresh] = by_root.emplace(root, axes.size());
    if (fresh) axes.push_back({root, program.type(id).shape[d]});
    return axes[it->second];
  };
  for (TensorId id = 0; id < static_cast<TensorId>(program.tensors().size()); ++id) {
    const Shape& shape = program.type(id).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] != 1) ++axis(id, d).uses;
    }
  }
  for (const Operation& op : program.operations()) {
    const IndexLabels labels = op_def(op.kind).labels(program.types(op.operands), op.attributes);
    std::set<size_t> reduced;
    for (size_t n = 0; n < op.operands.size(); ++n) {
      const Shape& shape = program.type(op.operands[n]).shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        const auto& kept = labels.result;
        if (shape[d] == 1 || std::find(kept.begin(), kept.end(), labels.operands[n][d]) != kept.end()) continue;
        if (reduced.insert(dims.find(dims.index(op.operands[n], d))).second) ++axis(op.operands[n], d).reductions;
      }
    }
  }
  return axes;
}

/// Sizes of the axes in the model, by root: four times a prime, the smallest for the axes that most tensors have, since
/// they cost most. Rigid ones keep the program's.
class ModelSizes {
 public:
  ModelSizes(const Graph& program, const Dimensions& dims, const std::vector<AxisUse>& axes)
      : program_(program), dims_(dims) {
    for (const AxisUse& axis : axes) {
      sizes_[axis.root] = axis.real;
      if (!dims.rigid(axis.root)) free_.push_back({axis, kCuts});
    }
    std::stable_sort(free_.begin(), free_.end(), [](const Free& a, const Free& b) { return a.use.uses > b.use.uses; });
    give();
  }

  /// Cuts fewer axes until no tensor has more than `most` elements; false where that cannot be.
  bool limit(int64_t most) {
    for (;;) {
      TensorId largest = 0;
      for (TensorId id = 0; id < static_cast<TensorId>(program_.tensors().size()); ++id) {
        if (elements(id) > elements(largest)) largest = id;
      }
      if (elements(largest) <= most) return true;
      if (!cut_less(largest)) return false;
      give();
    }
  }

  int64_t operator[](size_t root) const { return sizes_.at(root); }

 private:
  /// Parts into which grid and loop together cut an axis.
  static constexpr int64_t kCuts = 4;
  /// Of axes that nothing cuts, because 2 does not divide it.
  static constexpr int64_t kUncut = 3;

  /// An axis that is not rigid, and into how many parts it can be cut.
  struct Free {
    AxisUse use;
    int64_t cuts;
  };

  void give() {
    int64_t prime = 1;
    for (const Free& axis : free_) {
      sizes_[axis.use.root] = axis.cuts == 1 ? kUncut : axis.cuts * (prime = next_prime(prime));
    }
  }

  int64_t elements(TensorId id) const {
    Shape shape = program_.type(id).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] != 1) shape[d] = sizes_.at(dims_.find(dims_.index(id, d)));
    }
    return element_count(shape);
  }

  /// An axis whose real size is prime is cut once at most, which takes nothing from the search; then the shortest axis
  /// is not cut at all.
  bool cut_less(TensorId id) {
    std::set<size_t> roots;
    for (size_t d = 0; d < program_.type(id).shape.size(); ++d) roots.insert(dims_.find(dims_.index(id, d)));
    Free* shortest = nullptr;
    for (Free& axis : free_) {
      if (axis.cuts == 1 || roots.count(axis.use.root) == 0) continue;
      if (axis.cuts == kCuts && next_prime(axis.use.real - 1) == axis.use.real) {
        axis.cuts = 2;
        return true;
      }
      if (shortest == nullptr || axis.use.real < shortest->use.real) shortest = &axis;
    }
    if (shortest != nullptr) shortest->cuts = 1;
    return shortest != nullptr;
  }

  const Graph& program_;
  const Dimensions& dims_;
  std::map<size_t, int64_t> sizes_;
  std::vector<Free> free_;  ///< those that most tensors have first
};

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

/// Makes a model step by step.
class ModelBuilder {
 public:
  ModelBuilder(GraphPtr program, NormalForms& forms, uint64_t seed, bool one_axis_a_cut)
      : program_(std::move(program)),
        forms_(forms),
        random_(seed),
        model_(arithmetic(random_)),
        dims_(tie_dimensions(*program_)),
        uses_(axes_of(*program_, dims_)) {
    model_.program_ = program_;
    model_.extents_by_axis_ = one_axis_a_cut;
    for (const Operation& op : program_->operations()) {
      if (regroups(op.kind, op.attributes)) model_.extents_by_axis_ = false;
    }
  }

  Result<Model> run(const std::stop_token& stop) {
    ModelSizes sizes(*program_, dims_, uses_);
    if (!sizes.limit(Model::kMostElements) && !sizes.limit(Model::kMostRealElements)) {
      return unsupported("a tensor of more than {} elements whose dimensions are regrouped", Model::kMostRealElements);
    }
    for (const AxisUse& use : uses_) {
      axis_of_root_.emplace(use.root, static_cast<int>(model_.axes_.size()));
      model_.axes_.push_back({use.real, sizes[use.root]});
    }
    give_shapes();
    STRATA_TRY(const std::vector<FieldTensor> inputs, give_graph());
    // Of axes that are summed over as many as possible are told apart.
    int reduced = 0;
    for (const AxisUse& use : uses_) reduced += use.reductions > 0 ? 1 : 0;
    for (int told = reduced; !express(told) && told > 0 && model_.extents_by_axis_;) --told;
    STRATA_TRY(std::vector<FieldTensor> values, execute_all(*model_.graph_, model_.arithmetic_, inputs, stop));
    for (size_t i = 0; i < values.size(); ++i) model_.tensors_[i].value = std::move(values[i]);
    return std::move(model_);
  }

 private:
  static FieldArithmetic arithmetic(Random& random) {
    const PrimeField fp(kVerifierPrimes.p);
    // ω = g² has order q for any g other than 0 and ±1, since p − 1 = 2q.
    const uint64_t g = fp.from_integer(2 + random.below(kVerifierPrimes.p - 3));
    FieldArithmetic made{fp, PrimeField(kVerifierPrimes.q), fp.mul(g, g), random()};
    made.powers = std::make_shared<PowerTable>(fp, made.omega);
    return made;
  }

  ModelTensor& tensor(TensorId id) { return model_.tensors_[static_cast<size_t>(id)]; }

  void give_shapes() {
    for (TensorId id = 0; id < static_cast<TensorId>(program_->tensors().size()); ++id) {
      ModelTensor made;
      const Shape& shape = program_->type(id).shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        const int axis = shape[d] == 1 ? kUnitAxis : axis_of_root_.at(dims_.find(dims_.index(id, d)));
        made.axes.push_back(axis);
        made.shape.push_back(axis == kUnitAxis ? 1 : model_.axes_[static_cast<size_t>(axis)].model);
      }
      model_.tensors_.push_back(std::move(made));
    }
  }

  /// The program with the model's sizes; random inputs for it. Tensors keep their ids: they are made in the same order.
  Result<std::vector<FieldTensor>> give_graph() {
    GraphBuilder builder(Level::Kernel, program_->name());
    std::vector<FieldTensor> inputs;
    for (TensorId id = 0; id < static_cast<TensorId>(program_->tensors().size()); ++id) {
      const TensorInfo& info = program_->tensor(id);
      TensorId made = -1;
      if (info.producer >= 0) {
        const Operation& op = program_->operations()[static_cast<size_t>(info.producer)];
        STRATA_TRY(made, builder.add(op.kind, op.operands, attributes(op), info.name, op.location));
      } else {
        STRATA_TRY(made, builder.input(info.name, {info.type.dtype, tensor(id).shape}));
        FieldTensor value(tensor(id).shape);
        const FieldArithmetic& field = model_.arithmetic_;
        const bool one_or_zero = selects(id);
        for (FieldValue& v : value.data) {
          v = {field.fp.from_integer(random_()), field.fq.from_integer(random_())};
          if (one_or_zero) v = field.constant({static_cast<int64_t>(random_() & 1), 1});
        }
        inputs.push_back(std::move(value));
      }
      assert(made == id);
    }
    for (TensorId id : program_->outputs()) STRATA_CHECK(builder.output(id));
    STRATA_TRY(model_.graph_, builder.finish());
    return inputs;
  }

  /// Whether an input says what is selected: a random element is never 0, and would select the same everywhere.
  bool selects(TensorId input) const {
    const auto& operations = program_->operations();
    return std::any_of(operations.begin(), operations.end(),
                       [&](const Operation& op) { return op.kind == OpKind::Select && op.operands[0] == input; });
  }

  Attributes attributes(const Operation& op) {
    Attributes made = op.attributes;
    if (op.kind == OpKind::Reshape) made.set("shape", tensor(op.results[0]).shape);
    return made;
  }

  /// Gives extents and expressions, where at most `told` of the axes that are summed over have primes of their own, and
  /// the smallest ones, since these are multiplied. False where an output's expression is oversized.
  bool express(int told) {
    int64_t prime = 1;
    for (const bool summed : {true, false}) {
      for (size_t a = 0; a < uses_.size(); ++a) {
        if ((uses_[a].reductions > 0) != summed) continue;
        Axis& axis = model_.axes_[a];
        const bool with_primes = !summed || told-- > 0;
        for (int64_t* extent : {&axis.grid_extent, &axis.loop_extent, &axis.tile_extent}) {
          *extent = with_primes ? prime = next_prime(prime) : 1;
        }
      }
    }
    for (TensorId id = 0; id < static_cast<TensorId>(model_.tensors_.size()); ++id) {
      tensor(id).extents = tensor(id).shape;
      for (size_t d = 0; d < tensor(id).axes.size() && model_.extents_by_axis_; ++d) {
        const int axis = tensor(id).axes[d];
        if (axis != kUnitAxis) tensor(id).extents[d] = model_.axes_[static_cast<size_t>(axis)].extent();
      }
    }
    for (TensorId id : program_->inputs()) tensor(id).expression = forms_.input(program_->tensor(id).name);
    for (const Operation& op : program_->operations()) {
      std::vector<ExprId> expressions;
      std::vector<TensorType> types;
      for (TensorId id : op.operands) {
        expressions.push_back(tensor(id).expression);
        types.push_back({program_->type(id).dtype, tensor(id).extents});
      }
      AxisTracker tracker(forms_);
      tensor(op.results[0]).expression =
          op_def(op.kind).expression(tracker, program_->scope(), expressions, types, attributes(op));
    }
    return std::none_of(program_->outputs().begin(), program_->outputs().end(),
                        [&](TensorId id) { return tensor(id).expression == NormalForms::kOversized; });
  }

  GraphPtr program_;
  NormalForms& forms_;
  Random random_;
  Model model_;
  Dimensions dims_;
  std::vector<AxisUse> uses_;
  std::map<size_t, int> axis_of_root_;
};

Result<Model> Model::build(const GraphPtr& program, NormalForms& forms, uint64_t seed, const std::stop_token& stop,
                           bool one_axis_a_cut) {
  for (const Operation& op : program->operations()) {
    if (op.body) {
      return tl::unexpected(Error{ErrorCode::Unsupported, "the program has a graph-defined operator already",
                                  "write it with predefined operators; `strata ops` lists them", op.location});
    }
  }
  return ModelBuilder(program, forms, seed, one_axis_a_cut).run(stop);
}

}  // namespace strata
